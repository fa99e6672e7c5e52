package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"andes/commands/money"
	"andes/commands/order"
	"andes/commands/partner"
	"andes/commands/sku"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/queries"
)

func TestStockIsAnsweredInTheOrderAsked(t *testing.T) {
	e := newEdge(t)
	e.do(stock.Report{SKU: "B", OnHand: -3, SourceVersion: 2, At: testStart})
	want := `{"items":[{"sku":"B","available":0,"asOf":"2026-11-27T12:00:00.000Z","stale":false},` +
		`{"sku":"A","available":10,"asOf":"2026-11-27T12:00:00.000Z","stale":false}],"notFound":["x","a"]}`
	for _, got := range []reply{
		e.ask(http.MethodGet, "/v1/stock?sku=B&sku=x&sku=A&sku=B&sku=a", ""),
		e.ask(http.MethodGet, "/v1/stock?sku=B,x,A&sku=B,a", ""),
		e.ask(http.MethodPost, "/v1/stock/query", `{"skus":["B","x","A","B","a","x"]}`),
	} {
		if got.status != 200 || got.body != want || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
}

func TestPricesAreThoseOfThePartner(t *testing.T) {
	e := newEdge(t)
	e.do(partner.Configure{Partner: partner.State{ID: "acme", Name: "a", Tier: "gold", Policy: partner.Policy{
		PriceList: "retail", Currency: "GBP",
		Discounts: []partner.Discount{{Percent: "10"}, {Segment: "toys", Amount: money.Money{Minor: 50, Currency: "GBP"}}},
	}}})
	want := `{"items":[{"sku":"A","price":{"amount":"2.05","currency":"GBP"},"listPrice":{"amount":"2.55","currency":"GBP"},"currency":"GBP","asOf":"2026-11-27T12:00:00.000Z","stale":false},` +
		`{"sku":"B","price":{"amount":"9.00","currency":"GBP"},"listPrice":{"amount":"10.00","currency":"GBP"},"currency":"GBP","asOf":"2026-11-27T12:00:00.000Z","stale":false}],"notFound":["x"]}`
	for _, got := range []reply{e.ask(http.MethodGet, "/v1/prices?sku=A,x,B", ""), e.ask(http.MethodPost, "/v1/prices/query", `{"skus":["A","x","B"]}`)} {
		if got.status != 200 || got.body != want {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
}

func TestOldValuesAreStale(t *testing.T) {
	e := newEdge(t)
	stale := func(target string, want bool) {
		t.Helper()
		if got := e.ask(http.MethodGet, target, ""); !strings.Contains(got.body, fmt.Sprintf(`"stale":%t`, want)) {
			t.Errorf("%s after %s: %s", target, e.clock().Sub(testStart), got.body)
		}
	}
	e.pass(5 * time.Minute)
	stale("/v1/stock?sku=A", false)
	e.pass(time.Millisecond)
	stale("/v1/stock?sku=A", true)
	stale("/v1/prices?sku=A", false)
	e.pass(25*time.Minute + time.Millisecond)
	stale("/v1/prices?sku=A", true)
}

func TestBatchesAreBounded(t *testing.T) {
	e := newEdge(t)
	many := func(n int) string { return strings.Repeat("A,", n-1) + "A" }
	list := func(n int) string { return `{"skus":["` + strings.ReplaceAll(many(n), ",", `","`) + `"]}` }
	for _, what := range []string{"stock", "prices"} {
		if got := e.ask(http.MethodGet, "/v1/"+what+"?sku="+many(100), ""); got.status != 200 {
			t.Errorf("100: %d", got.status)
		}
		is(t, e.ask(http.MethodGet, "/v1/"+what+"?sku="+many(101), ""), 422, CodeTooManySKUs)
		if got := e.ask(http.MethodPost, "/v1/"+what+"/query", list(1000)); got.status != 200 {
			t.Errorf("1000: %d", got.status)
		}
		is(t, e.ask(http.MethodPost, "/v1/"+what+"/query", list(1001)), 422, CodeLengthInvalid)
		is(t, e.ask(http.MethodGet, "/v1/"+what, ""), 422, CodeParameterMissing)
		is(t, e.ask(http.MethodGet, "/v1/"+what+"?sku="+strings.Repeat("A", 257), ""), 422, sku.CodeInvalid)
	}
}

// An empty element of a list is a slip of whoever joined it; an empty text in a body is what was meant to be asked.
func TestEmptyElementsOfAListAreLeftOut(t *testing.T) {
	e := newEdge(t)
	for _, what := range []string{"stock", "prices"} {
		want := e.ask(http.MethodGet, "/v1/"+what+"?sku=A,B,NO-SUCH-SKU", "")
		for _, query := range []string{"sku=A,,B,NO-SUCH-SKU", "sku=A,B,NO-SUCH-SKU,", "sku=,A&sku=&sku=B,,NO-SUCH-SKU", "sku=%2CA,B%2CNO-SUCH-SKU", "sku=A,B,NO-SUCH-SKU" + strings.Repeat(",", 200)} {
			if got := e.ask(http.MethodGet, "/v1/"+what+"?"+query, ""); got.status != 200 || got.body != want.body {
				t.Errorf("%s?%s: %d %s, want %s", what, query, got.status, got.body, want.body)
			}
		}
		for _, query := range []string{"", "?", "?sku", "?sku=", "?sku=,,", "?sku=&sku=,"} {
			is(t, e.ask(http.MethodGet, "/v1/"+what+query, ""), 422, CodeParameterMissing)
		}
		if got := e.ask(http.MethodPost, "/v1/"+what+"/query", `{"skus":["A",""]}`); got.status != 200 || !strings.Contains(got.body, `"notFound":[""]`) {
			t.Errorf("%s: %d %s", what, got.status, got.body)
		}
		if got := e.ask(http.MethodGet, "/v1/"+what+"?sku="+strings.Repeat("A,", 101), ""); !strings.Contains(got.body, "at most 100 SKUs; POST takes more") {
			t.Errorf("%s: %s", what, got.body)
		}
	}
}

func TestOneOddSKUDoesNotStopABatch(t *testing.T) {
	e := newEdge(t)
	for _, got := range []reply{
		e.ask(http.MethodPost, "/v1/stock/query", `{"skus":["A"," A","A ","\u00a0A","A\u200b","..","B"]}`),
		e.ask(http.MethodGet, "/v1/stock?sku=A,%20A,A%20,%C2%A0A&sku=A%E2%80%8B&sku=..&sku=B", ""),
	} {
		var read struct {
			Items    []struct{ SKU string }
			NotFound []string
		}
		if err := json.Unmarshal([]byte(got.body), &read); err != nil || len(read.Items) != 2 || fmt.Sprintf("%q", read.NotFound) != `[" A" "A " "\u00a0A" "A\u200b" ".."]` {
			t.Errorf("%d %s: %q", got.status, got.body, read.NotFound)
		}
	}
}

func TestQueriesThatMeanNothingAreRefused(t *testing.T) {
	e := newEdge(t)
	for query, code := range map[string]eventstore.Code{
		"sku=%zz": CodeQueryMalformed, "sku=a;b": CodeQueryMalformed, "sku=%00": CodeTextInvalid, "sku=%FF": CodeTextInvalid, "sku=A&limit=1": CodeParameterUnknown, "skus=A": CodeParameterUnknown,
	} {
		for _, path := range []string{"/v1/stock", "/v1/prices"} {
			got := e.ask(http.MethodGet, path+"?"+query, "")
			if got.status < 400 || got.status > 499 || got.problem(t).Code != code {
				t.Errorf("%s: %d %s", query, got.status, got.body)
			}
		}
	}
}

func TestAParameterThatIsNotKnownIsNamed(t *testing.T) {
	e := newEdge(t)
	for name, shown := range map[string]struct{ pointer, told string }{
		"skus": {"#skus", `"skus"`}, "%3Cb%3E%22": {"#%3Cb%3E%22", `"<b>\""`}, "%1B%5B31m": {"#%1B%5B31m", `"\x1b[31m"`}, "%FF": {"#%FF", `"\xff"`}, "": {"", `""`},
		strings.Repeat("x", 1000): {"#" + strings.Repeat("x", maxShownName) + "...", `"` + strings.Repeat("x", maxShownName) + `..."`},
	} {
		got := e.ask(http.MethodGet, "/v1/stock?sku=A&"+name+"=1", "")
		problem := got.problem(t)
		if got.status != 422 || problem.Code != CodeParameterUnknown || len(problem.Errors) != 1 || problem.Errors[0].Pointer != shown.pointer ||
			problem.Detail != shown.told+" is no parameter here; the parameters are: sku" {
			t.Errorf("%.40s: %d %s", name, got.status, got.body)
		}
	}
}

// odd are SKUs that paths, queries and JSON like to spoil.
var odd = []string{
	"CLE-056621/6", "BAH-SB+7", "A B", "50%", "a%2Fb", "//x", "/", "a/", "/a/../b", "a/./b", "ñ", "漢字", "#1", "?q", "a&b=c", `"quoted"`, `back\slash`, "a;b", "a:b", "😀", "<b>", "a'b", "..a", "a..", "-", "stock", "query", "{sku}",
}

func TestEverySKUSurvivesPathQueryAndBody(t *testing.T) {
	e := newEdge(t)
	server := startServer(t, e)
	for _, text := range odd {
		e.sell(text, "1.00", 7)
	}
	for _, text := range odd {
		t.Run(text, func(t *testing.T) {
			product := struct{ SKU string }{}
			got := server.get("/v1/products/" + url.PathEscape(text))
			if err := json.Unmarshal([]byte(got.body), &product); err != nil || got.status != 200 || product.SKU != text {
				t.Errorf("path: %d %s", got.status, got.body)
			}
			if got := server.get("/v1/products/" + url.PathEscape(url.PathEscape(text))); url.PathEscape(text) != text && got.status != 404 {
				t.Errorf("encoded twice: %d %s", got.status, got.body)
			}
			stocked := struct{ Items []struct{ SKU string } }{}
			got = server.get("/v1/stock?" + url.Values{"sku": {text}}.Encode())
			if err := json.Unmarshal([]byte(got.body), &stocked); err != nil || len(stocked.Items) != 1 || stocked.Items[0].SKU != text {
				t.Errorf("query: %d %s", got.status, got.body)
			}
			quoted, _ := json.Marshal(text)
			got = e.ask(http.MethodPost, "/v1/prices/query", `{"skus":[`+string(quoted)+`]}`)
			if err := json.Unmarshal([]byte(got.body), &stocked); err != nil || len(stocked.Items) != 1 || stocked.Items[0].SKU != text {
				t.Errorf("body: %d %s", got.status, got.body)
			}
			if got := e.order(newTestID(), strings.Replace(smallOrder, `"A"`, string(quoted), 1)); got.status != 202 || !strings.Contains(got.body, `"sku":`) {
				t.Errorf("order: %d %s", got.status, got.body)
			}
		})
	}
}

func TestRawPathsAreTakenAsTheyAre(t *testing.T) {
	e := newEdge(t)
	server := startServer(t, e)
	for _, text := range []string{"CLE-056621/6", "BAH-SB+7", "//x", "/a/../b", "a/./b", "a/"} {
		e.sell(text, "1.00", 1)
		product := struct{ SKU string }{}
		got := server.get("/v1/products/" + text)
		if err := json.Unmarshal([]byte(got.body), &product); err != nil || got.status != 200 || product.SKU != text {
			t.Errorf("%s: %d %s", text, got.status, got.body)
		}
	}
	for _, target := range []string{"/v1/products/.", "/v1/products/..", "/v1/products/%2E%2E", "/v1/products/../stock", "/v1/products/../../healthz", "/v1/products/a%00b", "/v1/products/%FF", "/v1/products/nothing", "/v1/products/%20A"} {
		is(t, server.get(target), 404, order.CodeNotFound)
	}
	for _, target := range []string{"/v1/products/", "/v1/products", "//v1/stock?sku=A", "/v1//stock?sku=A", "/v1/./stock?sku=A", "/v1/stock/?sku=A", "/x/../v1/stock?sku=A", "/v1/%73tock/x"} {
		is(t, server.get(target), 404, CodeRouteUnknown)
	}
}

func TestReadersThatFailAreNoMistakeOfTheCaller(t *testing.T) {
	e := newEdge(t)
	id := e.placed("K", smallOrder)
	for fault, code := range map[error]eventstore.Code{
		eventstore.ErrUnavailable: CodeUnavailable, queries.ErrSaturated: CodeOverloaded, fmt.Errorf("secret 10.1.2.3"): CodeInternal,
	} {
		e.shelf.fail(fault)
		for _, target := range []string{"/v1/stock?sku=A", "/v1/prices?sku=A", "/v1/products/A", "/v1/orders/" + id} {
			got := e.ask(http.MethodGet, target, "")
			is(t, got, meanings[code].status, code)
			if strings.Contains(got.body, "10.1.2.3") || meanings[code].status == 503 && got.header.Get("Retry-After") != "1" {
				t.Errorf("%v %s", got.header, got.body)
			}
		}
	}
}

func TestAnotherPartnersOrderIsLikeAnUnknownOne(t *testing.T) {
	e := newEdge(t)
	id := e.placed("K", smallOrder)
	unknown := "0190b0a0-0000-7000-8000-000000000000"
	for _, call := range []struct{ method, path string }{{http.MethodGet, "/v1/orders/%s"}, {http.MethodPost, "/v1/orders/%s/cancel"}} {
		if call.method == http.MethodGet {
			if got := e.ask(call.method, fmt.Sprintf(call.path, id), ""); got.status != 200 {
				t.Errorf("its own: %d %s", got.status, got.body)
			}
		}
		var bodies []string
		for _, asked := range []string{id, unknown, "nonsense", strings.ToUpper(id)} {
			headers := []string{"Authorization", "Bearer other", correlationHeader, "c"}
			got := e.ask(call.method, fmt.Sprintf(call.path, asked), "", headers...)
			is(t, got, 404, order.CodeNotFound)
			got.header.Del("Date")
			bodies = append(bodies, fmt.Sprint(got.header, got.body))
		}
		for _, body := range bodies {
			if body != bodies[0] {
				t.Errorf("they differ:\n%s\n%s", bodies[0], body)
			}
		}
	}
	if got := e.ask(http.MethodGet, "/v1/orders", "", "Authorization", "Bearer other"); !strings.Contains(got.body, `"items":[]`) {
		t.Errorf("listed for another: %s", got.body)
	}
}

func TestAnOrderIsCancelledOnce(t *testing.T) {
	e := newEdge(t)
	id := e.placed("K", smallOrder)
	first := e.ask(http.MethodPost, "/v1/orders/"+id+"/cancel", "")
	events := e.events()
	again := e.ask(http.MethodPost, "/v1/orders/"+id+"/cancel", "")
	if first.status != 200 || first.body != again.body || e.events() != events || !strings.Contains(first.body, `"status":"CANCELLED","reason":"CANCELLED_BY_PARTNER"`) {
		t.Errorf("%d %s\n%d %s", first.status, first.body, again.status, again.body)
	}
	e.placed("K2", strings.Replace(smallOrder, `"quantity":1`, `"quantity":10`, 1)) // the unit is back
	shipped := e.placed("K3", strings.Replace(smallOrder, `"A"`, `"B"`, 1))
	e.do(confirm{shipped})
	e.do(order.Ship{OrderID: shipped})
	is(t, e.ask(http.MethodPost, "/v1/orders/"+shipped+"/cancel", ""), 409, order.CodeNotCancellable)
}

// confirm confirms an order, as the process manager does.
type confirm struct{ id string }

func (c confirm) Needs() []eventstore.Stream {
	return []eventstore.Stream{order.Aggregate.Stream(c.id)}
}

func (c confirm) Decide(u *eventstore.Unit) (any, error) { return order.Confirm(u, c.id), nil }

// list reads one page of orders.
func (e *edge) list(query string) (ids []string, next string, more bool) {
	e.t.Helper()
	got := e.ask(http.MethodGet, "/v1/orders?"+query, "")
	var read struct {
		Items      []struct{ OrderID string }
		NextCursor string
		HasMore    bool
	}
	if err := json.Unmarshal([]byte(got.body), &read); err != nil || got.status != 200 {
		e.t.Fatalf("%d %s", got.status, got.body)
	}
	for _, item := range read.Items {
		ids = append(ids, item.OrderID)
	}
	return ids, read.NextCursor, read.HasMore
}

func TestOrdersAreFollowedByTheirLastChange(t *testing.T) {
	e := newEdge(t)
	e.sell("C", "1.00", 1000)
	var placed []string
	for i := range 7 {
		placed = append(placed, e.placed(fmt.Sprint("K", i), strings.Replace(smallOrder, `"A"`, `"C"`, 1)))
		e.pass(time.Minute)
	}
	ids, cursor, more := e.list("limit=3")
	if fmt.Sprint(ids) != fmt.Sprint(placed[:3]) || !more {
		t.Fatalf("%v, more %t", ids, more)
	}
	e.ask(http.MethodPost, "/v1/orders/"+placed[0]+"/cancel", "") // changes while the list is read
	ids, cursor, more = e.list("limit=10&cursor=" + cursor)
	if fmt.Sprint(ids) != fmt.Sprint(append(placed[3:7:7], placed[0])) || more {
		t.Errorf("%v, more %t", ids, more)
	}
	if ids, cursor, more = e.list("cursor=" + cursor); len(ids) != 0 || more {
		t.Errorf("%v, more %t", ids, more)
	}
	e.ask(http.MethodPost, "/v1/orders/"+placed[1]+"/cancel", "")
	if ids, _, _ = e.list("cursor=" + cursor); fmt.Sprint(ids) != fmt.Sprint(placed[1:2]) {
		t.Errorf("a later change: %v", ids)
	}
	since := url.QueryEscape(testStart.Add(4 * time.Minute).In(time.FixedZone("", 3600)).Format(time.RFC3339))
	if ids, _, _ = e.list("updatedSince=" + since); fmt.Sprint(ids) != fmt.Sprint([]string{placed[4], placed[5], placed[6], placed[0], placed[1]}) {
		t.Errorf("since a time: %v", ids)
	}
	for _, query := range []string{
		"limit=0", "limit=201", "limit=%2B5", "limit=05", "limit=1&limit=2", "cursor=" + cursor + "&cursor=" + cursor, "limit=x", "limit=", "limit=1.0", "cursor=x", "cursor=", "cursor=" + strings.Repeat("a", 1000), "cursor=" + cursor + "&updatedSince=" + since,
		"updatedSince=2026-11-27T12:00:00+01:00", "updatedSince=2026-11-27T12:00:00", "updatedSince=1795780800000", "updatedSince=", "updatedSince=2026-11-27T24:00:00Z",
	} {
		is(t, e.ask(http.MethodGet, "/v1/orders?"+query, ""), 422, CodeParameterInvalid)
	}
	for _, query := range []string{"updatedSince=0000-01-01T00:00:00Z", "updatedSince=9999-12-31T23:59:59Z"} {
		e.list(query)
	}
}
