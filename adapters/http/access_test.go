package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"andes/commands/partner"
	"andes/eventstore"
	"andes/queries"
	"andes/quota"
)

// secured are calls that need a partner's token.
var secured = []struct{ method, target, body string }{
	{http.MethodGet, "/v1/stock?sku=A", ""}, {http.MethodPost, "/v1/stock/query", `{"skus":["A"]}`},
	{http.MethodGet, "/v1/prices?sku=A", ""}, {http.MethodPost, "/v1/prices/query", `{"skus":["A"]}`},
	{http.MethodGet, "/v1/products/A", ""}, {http.MethodGet, "/v1/orders", ""}, {http.MethodGet, "/v1/orders/0190b0a0-0000-7000-8000-000000000000", ""},
	{http.MethodPost, "/v1/orders", smallOrder}, {http.MethodPost, "/v1/orders/0190b0a0-0000-7000-8000-000000000000/cancel", ""},
	{http.MethodPost, "/v1/subscriptions", `{"url":"https://example.test","types":["*"]}`}, {http.MethodGet, "/v1/subscriptions", ""}, {http.MethodDelete, "/v1/subscriptions/x", ""},
}

func TestNothingIsAnsweredWithoutAValidToken(t *testing.T) {
	e := newEdge(t)
	events := e.events()
	operators := slices.Clone(secured)
	operators = append(operators, struct{ method, target, body string }{http.MethodGet, "/ops/partners/acme", ""}, struct{ method, target, body string }{http.MethodPut, "/ops/partners/acme", bodies[len(bodies)-1].body})
	for _, call := range operators {
		for name, headers := range map[string][]string{
			"no header": {"-Authorization", ""}, "empty": {"Authorization", ""}, "no token": {"Authorization", "Bearer "}, "another scheme": {"Authorization", "Basic YWNtZTo="}, "token alone": {"Authorization", "acme"}, "refused": {"Authorization", "Bearer bad"},
		} {
			got := e.ask(call.method, call.target, call.body, headers...)
			is(t, got, 401, CodeUnauthenticated)
			if got.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s: no challenge", name)
			}
		}
	}
	for _, call := range secured {
		for _, token := range []string{"ops:ops-admin", "a%20b", strings.Repeat("p", 65)} {
			is(t, e.ask(call.method, call.target, call.body, "Authorization", "Bearer "+token), 403, CodeForbidden)
		}
	}
	twice := httptest.NewRequest(http.MethodGet, "/v1/stock?sku=A", nil)
	twice.Header["Authorization"] = []string{"Bearer acme", "Bearer other"}
	is(t, e.send(twice), 401, CodeUnauthenticated)
	if e.events() != events {
		t.Error("a refused caller left events")
	}
}

func TestATokenThatCantBeJudgedIsNoRefusal(t *testing.T) {
	e := newEdge(t)
	got := e.ask(http.MethodGet, "/v1/stock?sku=A", "", "Authorization", "Bearer outage")
	is(t, got, 503, CodeUnavailable)
	if got.header.Get("Retry-After") == "" || strings.Contains(got.body, "10.1.2.3") {
		t.Errorf("%v %s", got.header, got.body)
	}
}

func TestAPartnerThatIsNotSetUpIsToldSo(t *testing.T) {
	e := newEdge(t)
	for _, target := range []string{"/v1/stock?sku=A", "/v1/prices?sku=A"} {
		is(t, e.ask(http.MethodGet, target, "", "Authorization", "Bearer nobody"), 403, partner.CodeUnknown)
	}
}

func TestUnknownRoutesAndMethodsAreProblemsToo(t *testing.T) {
	e := newEdge(t)
	for _, target := range []string{"/", "/v1", "/v1/", "/v1/nothing", "/v2/stock", "/ops", "/favicon.ico", "/v1/orders/a/b", "/dev/token"} {
		is(t, e.ask(http.MethodGet, target, ""), 404, CodeRouteUnknown)
	}
	for call, allowed := range map[string]string{"DELETE /v1/orders": "GET, HEAD, POST", "PATCH /v1/stock": "GET, HEAD", "POST /v1/products/A": "GET, HEAD", "OPTIONS /v1/orders": "GET, HEAD, POST"} {
		method, target, _ := strings.Cut(call, " ")
		got := e.ask(method, target, "")
		is(t, got, 405, CodeMethodNotAllowed)
		if got.header.Get("Allow") != allowed || got.header.Get(correlationHeader) == "" {
			t.Errorf("%s: %v", call, got.header)
		}
	}
	star := httptest.NewRequest(http.MethodOptions, "/", nil)
	star.URL.Path, star.RequestURI = "*", "*"
	if got := e.send(star); got.status < 400 || got.status > 499 {
		t.Errorf("OPTIONS *: %d", got.status)
	}
}

func TestAPanicIsOursAndTellsNothing(t *testing.T) {
	e := newEdge(t)
	e.executor.fail(func(context.Context, eventstore.Request) error { panic("zz-mark@example.test") }, nil)
	got := e.order("K", smallOrder)
	is(t, got, 500, CodeInternal)
	if strings.Contains(got.body, "zz-mark") || strings.Contains(got.body, ".go") || !strings.Contains(e.log.String(), "panic") {
		t.Errorf("%s", got.body)
	}
	e.executor.fail(func(context.Context, eventstore.Request) error { panic(http.ErrAbortHandler) }, nil)
	defer func() {
		if recover() != http.ErrAbortHandler {
			t.Error("an abort is passed on to the server")
		}
	}()
	e.order("K", smallOrder)
}

func TestEveryAnswerNamesItsRequest(t *testing.T) {
	e := newEdge(t)
	for sent, taken := range map[string]bool{"abc-1._Z": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "": false, "a b": false, "a\tb": false, "ä": false, "<b>": false} {
		for _, target := range []string{"/v1/stock?sku=A", "/v1/nothing", "/healthz"} {
			got := e.ask(http.MethodGet, target, "", correlationHeader, sent)
			if named := got.header.Get(correlationHeader); (named == sent) != taken || named == "" {
				t.Errorf("%q became %q", sent, named)
			}
		}
	}
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, sent := range []string{trace, "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", "ff" + trace[2:], "x"} {
		e.placed(newTestID(), smallOrder, "Traceparent", sent, correlationHeader, "c-1")
		records, _ := e.store.ReadAll(t.Context(), int64(e.events()-1), 1)
		if meta := records[0].Meta; meta.CorrelationID != "c-1" || meta.Actor != "acme" || (meta.TraceParent == trace) != (sent == trace) {
			t.Errorf("%s: %+v", sent, meta)
		}
	}
}

// allowance is a quota of some requests.
type allowance struct{ left int }

func (a *allowance) Take(_ context.Context, ask quota.Ask) quota.Verdict {
	a.left -= int(ask.Cost)
	if ask.Tier != "gold" || ask.Key.Group != quota.Reads {
		return quota.Verdict{Allowed: true}
	}
	return quota.Verdict{
		Allowed: a.left >= 0, By: quota.ByShared, Group: quota.Reads, Limit: quota.Limit{PerSecond: 20, Burst: 20},
		Remaining: int64(max(0, a.left)), Reset: 300 * time.Millisecond, RetryAfter: 1500 * time.Millisecond,
	}
}

func TestQuotasAreToldAndKept(t *testing.T) {
	quota := &allowance{left: 2}
	e := newEdge(t, func(c *Config) { c.Quota = quota })
	for range 2 {
		got := e.ask(http.MethodGet, "/v1/stock?sku=A", "")
		if got.status != 200 || got.header.Get("RateLimit-Policy") != `"reads";q=20;w=1` || !strings.HasPrefix(got.header.Get("RateLimit"), `"reads";r=`) {
			t.Errorf("%d %v", got.status, got.header)
		}
	}
	got := e.ask(http.MethodGet, "/v1/prices?sku=A", "")
	is(t, got, 429, CodeRateLimited)
	if got.header.Get("Retry-After") != "2" || got.header.Get("RateLimit") != `"reads";r=0;t=1` {
		t.Errorf("%v", got.header)
	}
	e.placed("K", smallOrder) // orders have their own
	if got := e.ask(http.MethodGet, "/healthz", ""); got.status != 200 {
		t.Errorf("%d", got.status)
	}
}

func TestReadinessNamesWhatIsMissing(t *testing.T) {
	parts := Readiness{Missing: map[string]error{"postgres": errors.New("dial tcp 10.1.2.3"), "other": nil}, Degraded: map[string]error{"redis": errors.New("away")}}
	e := newEdge(t, func(c *Config) { c.Ready = func(context.Context) Readiness { return parts } })
	got := e.ask(http.MethodGet, "/readyz", "", "-Authorization", "")
	if got.status != 503 || got.body != `{"ready":false,"missing":["postgres"],"degraded":["redis"]}` || !strings.Contains(e.log.String(), "10.1.2.3") {
		t.Errorf("%d %s", got.status, got.body)
	}
	parts.Missing = nil
	if got := e.ask(http.MethodGet, "/readyz", ""); got.status != 200 || got.body != `{"ready":true,"degraded":["redis"]}` {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestRequestsAreCountedByRoute(t *testing.T) {
	e := newEdge(t)
	for range 3 {
		e.ask(http.MethodGet, "/v1/products/A", "")
	}
	e.ask(http.MethodGet, "/v1/orders/zz-mark", "")
	e.ask(http.MethodGet, "/zz-mark", "")
	got := e.ask(http.MethodGet, "/metrics", "", "-Authorization", "")
	for _, line := range []string{
		`andes_http_requests_total{route="GET /v1/orders/{id}",status="404"} 1`,
		`andes_http_requests_total{route="GET /v1/products/{sku}",status="200"} 3`,
		`andes_http_requests_total{route="none",status="404"} 1`,
	} {
		if !strings.Contains(got.body, line+"\n") {
			t.Errorf("not counted: %s", line)
		}
	}
	if got.status != 200 || !strings.Contains(got.body, "andes_http_request_seconds_bucket") || strings.Contains(got.body, "zz-mark") {
		t.Errorf("%d", got.status)
	}
}

// marks are values that belong to nobody's log.
var marks = map[string]string{
	"mail": "zz-mark@example.test", "phone": "+56 9 0000 0000", "card": "4111111111111111", "name": "Zzmark Person", "address": "Zzmark Street 1",
	"payment token": "tok_zzmark", "bearer": "bad-zzmark-bearer", "key": "zz-mark-key", "sku": "ZZMARKSKU", "query": "zzmarkquery", "header": "zzmarkheader", "reason": "zzmarkreason",
}

func TestNothingPersonalAndNoSecretIsLogged(t *testing.T) {
	e := newEdge(t)
	e.sell(marks["sku"], "1.00", 5)
	customer := fmt.Sprintf(`{"name":%q,"email":%q,"phone":%q,"address":%q}`, marks["name"], marks["mail"], marks["phone"], marks["address"])
	body := fmt.Sprintf(`{"partnerOrderRef":%q,"currency":"GBP","customer":%s,"lines":[{"sku":%q,"quantity":1}],"payment":{"token":%q}}`, marks["card"], customer, marks["sku"], marks["payment token"])
	header := []string{"X-Custom", marks["header"], "Cookie", marks["header"], "User-Agent", marks["header"]}
	e.order(marks["key"], body, header...)
	e.order(marks["key"], body+" ", header...)
	e.order(marks["key"], strings.Replace(body, `"quantity":1`, `"quantity":-1`, 1), header...)
	e.order("other", strings.Replace(body, `"quantity":1`, `"quantity":100,"`+marks["name"]+`":1`, 1))
	e.order("other", strings.ReplaceAll(body, `"`, "'"))
	e.order("card", strings.Replace(body, marks["payment token"], marks["card"], 1))
	e.order("other2", strings.Replace(body, `"quantity":1`, `"quantity":100`, 1))
	e.ask(http.MethodGet, "/v1/stock?sku="+marks["query"]+"&"+marks["query"]+"="+marks["query"], "", header...)
	e.ask(http.MethodGet, "/v1/products/"+marks["sku"], "", "Authorization", "Bearer "+marks["bearer"])
	e.ask(http.MethodGet, "/v1/products/"+marks["query"], "")
	e.ask(http.MethodGet, "/"+marks["query"]+"?"+marks["query"], "", header...)
	e.ask(http.MethodPost, hookPath, `{"data":{"email":"`+marks["mail"]+`"}}`, "webhook-id", marks["key"], "webhook-signature", "v1,"+marks["header"], "webhook-timestamp", "1")
	e.signed(`{"type":"` + marks["name"] + `","data":{"orderId":"` + marks["mail"] + `","reason":"` + marks["reason"] + `"}}`)
	e.ask(http.MethodPost, "/v1/subscriptions", `{"url":"https://example.test/`+marks["query"]+`","types":["*"]}`)
	e.ask(http.MethodGet, "/v1/orders", "", "Authorization", "Bearer "+marks["mail"])
	for _, fault := range []error{eventstore.ErrUnavailable, eventstore.ErrOutcomeUnknown, queries.ErrSaturated, errors.New("broken")} {
		e.executor.fail(failing(fault), nil)
		e.order(newTestID(), body, header...)
	}
	if strings.Count(e.log.String(), "\n") < 15 {
		t.Errorf("too little was logged:\n%s", e.log)
	}
	for _, name := range slices.Sorted(maps.Keys(marks)) {
		for _, text := range []string{marks[name], strings.ReplaceAll(marks[name], " ", "")} {
			if strings.Contains(e.log.String(), text) {
				t.Errorf("the log holds the %s", name)
			}
		}
	}
	got := e.ask(http.MethodGet, "/metrics", "")
	for name, mark := range marks {
		if strings.Contains(got.body, mark) {
			t.Errorf("the metrics hold the %s", name)
		}
	}
}

func TestWhoLeavesEarlyIsNoFault(t *testing.T) {
	e := newEdge(t)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/orders", strings.NewReader(smallOrder))
	request.Header = http.Header{"Authorization": {"Bearer acme"}, "Content-Type": {"application/json"}, keyHeader: {"K"}}
	e.send(request)
	if log := e.log.String(); !strings.Contains(log, `"status":499`) || strings.Contains(log, `"level":"ERROR"`) {
		t.Error(log)
	}
	e.placed("K", smallOrder)
}
