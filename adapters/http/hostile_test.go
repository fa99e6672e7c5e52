package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"andes/commands/order"
	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/subscription"
	"andes/eventstore"
	"andes/queries"
)

// picky refuses what a text column refuses. The edge must not let such a text get that far.
type picky struct{ *shelf }

func storable(texts ...string) error {
	for _, text := range texts {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return errors.New("invalid byte sequence")
		}
	}
	return nil
}

func (p picky) Partner(ctx context.Context, id string) (partner.State, bool, error) {
	if err := storable(id); err != nil {
		return partner.State{}, false, err
	}
	return p.shelf.Partner(ctx, id)
}

func (p picky) Stock(ctx context.Context, skus []string) (map[string]queries.StockView, error) {
	if err := storable(skus...); err != nil {
		return nil, err
	}
	return p.shelf.Stock(ctx, skus)
}

func (p picky) Prices(ctx context.Context, list string, skus []string) (map[string]queries.PriceView, error) {
	if err := storable(skus...); err != nil {
		return nil, err
	}
	return p.shelf.Prices(ctx, list, skus)
}

func (p picky) Products(ctx context.Context, skus []string) (map[string]queries.ProductView, error) {
	if err := storable(skus...); err != nil {
		return nil, err
	}
	return p.shelf.Products(ctx, skus)
}

// pickyExecutor does the same for the streams that a command needs.
type pickyExecutor struct{ eventstore.Executor }

func (p pickyExecutor) Execute(ctx context.Context, request eventstore.Request) (eventstore.Outcome, error) {
	for _, stream := range request.Command.Needs() {
		if err := storable(stream.Key); err != nil {
			return eventstore.Outcome{}, err
		}
	}
	return p.Executor.Execute(ctx, request)
}

func pickyEdge(t *testing.T) *edge {
	t.Helper()
	return newEdge(t, func(c *Config) {
		shelf := picky{c.Reader.(*shelf)}
		c.Reader, c.Partners, c.Executor = shelf, shelf, pickyExecutor{c.Executor}
	})
}

// tokenFor gives a token that may call the endpoint.
func tokenFor(e *endpoint) string {
	if e.access == opsViewers || e.access == opsAdmins {
		return "ops:" + OpsAdmin
	}
	return "acme"
}

// bodyFor gives a body that the endpoint takes.
func bodyFor(e *endpoint) string {
	for _, each := range bodies {
		if each.method == e.method && matches(e.path, each.target) {
			return each.body
		}
	}
	return ""
}

// refusedOrRight checks what holds for every answer to nonsense.
func (e *edge) refusedOrRight(what string, got reply) {
	e.t.Helper()
	switch {
	case got.status >= 500 || got.status >= 300 && got.status < 400 || got.status < 200:
		e.t.Errorf("%s: %d %.200s", what, got.status, got.body)
	case got.status >= 400:
		problem := got.problem(e.t)
		means, known := meanings[problem.Code]
		if !known || means.status != got.status || problem.Status != got.status || got.header.Get("Content-Type") != problemMedia || problem.CorrelationID != got.header.Get(correlationHeader) {
			e.t.Errorf("%s: %d %s %.200s", what, got.status, got.header.Get("Content-Type"), got.body)
		}
	}
	if got.header.Get(correlationHeader) == "" || got.header.Get("Location") != "" && got.status >= 300 {
		e.t.Errorf("%s: %v", what, got.header)
	}
}

// nonsense are parts of a path as they are sent.
var nonsense = []string{
	"%00", "a%00b", "%FF", "%C3%28", "%ED%A0%80", "%0A", "%0d%0aX-Injected:1", "%7F", "%20", "%2F", "%2e%2e", "%252F", "%2500", "..%2f..", ".", "..", "...", "~", "*",
	"{id}", "{}", "$%7Bx%7D", "'%20OR%201=1--", "%F0%9F%98%80", "0190b0a0-0000-7000-8000-00000000000g", "{0190b0a0-0000-7000-8000-000000000000}", "urn:uuid:0190b0a0-0000-7000-8000-000000000000",
	"0190B0A0-0000-7000-8000-000000000000", "0190b0a000007000800000000000000000", strings.Repeat("a", 5000), strings.Repeat("%20", 300), ";jsessionid=1", "a;b=c", "a,b", "-1", "null", "undefined",
}

func TestNonsenseInAPathIsRefusedOnEveryRoute(t *testing.T) {
	e := pickyEdge(t)
	server := startServer(t, e)
	events := e.events()
	for _, served := range e.endpoints() {
		before, after, named := strings.Cut(served.path, "{")
		if !named {
			continue
		}
		_, after, _ = strings.Cut(after, "}")
		for _, part := range nonsense {
			if served.id == "configurePartner" && partner.ValidID(part) {
				continue // a name like any other
			}
			got := server.send(served.method, before+part+after, bodyFor(served), "Authorization: Bearer "+tokenFor(served), "Content-Type: application/json")
			e.refusedOrRight(served.pattern()+" with "+part, got)
			if got.status < 400 {
				t.Errorf("%s with %s: %d %s", served.pattern(), part, got.status, got.body)
			}
			if got.header.Get("X-Injected") != "" {
				t.Errorf("%s: a header was made of a path", served.pattern())
			}
		}
	}
	if e.events() != events {
		t.Errorf("nonsense left %d events", e.events()-events)
	}
}

func TestNonsenseInAQueryIsRefusedOnEveryRoute(t *testing.T) {
	e := pickyEdge(t)
	id := e.placed("first", smallOrder)
	events := e.events()
	for _, served := range e.endpoints() {
		if served.access == anyone {
			continue // health and documents don't look at it, and a gateway may be told any URL
		}
		for _, query := range []string{
			"dryRun=true", "%zz", "a;b", "=", "%00=1", "x=%FF", "sku", "limit", "SKU=A", "sku[]=A", "sku=A&updatedSince=1", "%73ku%00=A", "cursor=1&x", strings.Repeat("a", 10_000) + "=1", strings.Repeat("&x=1", 5_000),
		} {
			target := strings.NewReplacer("{id}", id, "{sku}", "A", "{consumer}", "oms", "{partition}", "3", "{offset}", "17").Replace(served.path) + "?" + query
			got := e.ask(served.method, target, bodyFor(served), "Authorization", "Bearer "+tokenFor(served), keyHeader, newTestID())
			e.refusedOrRight(served.pattern()+"?"+query[:min(40, len(query))], got)
			if got.status < 400 && !(query == "sku" && strings.Contains(served.id, "s")) {
				t.Errorf("%s?%.40s is done as if it said nothing: %d %.100s", served.pattern(), query, got.status, got.body)
			}
		}
	}
	if e.events() != events {
		t.Errorf("nonsense left %d events", e.events()-events)
	}
}

// TestTimesAtTheEdgeOfTheCalendar: an offset can move a time that can be written into a year that can't.
// Field case TIME-03.
func TestTimesAtTheEdgeOfTheCalendar(t *testing.T) {
	e := newEdge(t)
	for _, at := range []string{
		"0000-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00", "9999-12-31T23:59:59.999999999Z", "0001-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "2026-06-30T23:59:60Z",
		"2026-02-30T00:00:00Z", "2026-01-01T00:00:00,5Z", "2026-01-01t00:00:00z", "2026-01-01 00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+23:59", "-001-01-01T00:00:00Z", "+12026-01-01T00:00:00Z", "2026-01-01T0:00:00Z",
	} {
		for _, member := range []string{"from", "until"} {
			body := fmt.Sprintf(`{"name":"N","tier":"gold","policy":{"priceList":"retail","currency":"GBP","discounts":[{"percent":"10",%q:%q}]}}`, member, at)
			got := e.ask(http.MethodPut, "/ops/partners/p", body, "Authorization", "Bearer ops:ops-admin")
			e.refusedOrRight(member+" "+at, got)
			if problem := got; got.status >= 400 && (len(problem.problem(t).Errors) != 1 || problem.problem(t).Errors[0].Pointer != "/policy/discounts/0/"+member) {
				t.Errorf("%s %s: %s", member, at, got.body)
			}
		}
		e.refusedOrRight("updatedSince "+at, e.ask(http.MethodGet, "/v1/orders?updatedSince="+url.QueryEscape(at), ""))
	}
}

func TestFiftyAtOnceOverTheStoreAreOneOrder(t *testing.T) {
	const callers = 50
	e := newEdge(t)
	events := e.events()
	start := make(chan struct{})
	replies := make(chan reply, callers)
	var ready sync.WaitGroup
	for range callers {
		ready.Add(1)
		go func() {
			ready.Done()
			<-start
			replies <- e.order("K", smallOrder)
		}()
	}
	ready.Wait()
	close(start)
	fresh, body := 0, ""
	for range callers {
		got := <-replies
		switch {
		case got.status == http.StatusAccepted && (body == "" || body == got.body):
			body = got.body
			if got.header.Get(replayedHeader) == "" {
				fresh++
			}
		case got.status != http.StatusConflict || got.problem(t).Code != eventstore.CodeRequestInProgress || got.header.Get("Retry-After") == "":
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	left := e.events() - events
	e.placed("another", smallOrder)
	if one := e.events() - events - left; fresh != 1 || left != one {
		t.Errorf("%d fresh answers and %d events, one order has %d", fresh, left, one)
	}
}

func TestNestingIsBounded(t *testing.T) {
	e := newEdge(t)
	for _, body := range []string{
		strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		strings.Repeat(`{"b":1,"a":`, 9000) + `"` + strings.Repeat("x", 800_000) + `"` + strings.Repeat("}", 9000),
		strings.Repeat("[", maxNesting+1) + strings.Repeat("]", maxNesting+1),
		`{"\"":` + strings.Repeat("[", maxNesting) + strings.Repeat("]", maxNesting) + "}",
	} {
		is(t, e.order("K", body), 400, CodeJSONMalformed)
	}
	brackets := strings.Repeat(`[{\"`, 50)
	e.placed("K", strings.Replace(smallOrder, `{"currency"`, `{"customer":{"name":"`+brackets+`","address":"\\"},"currency"`, 1))
	is(t, e.order("K2", strings.Repeat("[", maxNesting)+strings.Repeat("]", maxNesting)), 422, CodeTypeInvalid)
}

// silent is a part that never answers.
type silent struct{}

func silence[V any](ctx context.Context) (V, error) {
	<-ctx.Done()
	var none V
	return none, context.Cause(ctx)
}

func (silent) Partner(ctx context.Context, _ string) (partner.State, bool, error) {
	state, err := silence[partner.State](ctx)
	return state, false, err
}

func (silent) Order(ctx context.Context, _ string) (order.State, bool, error) {
	state, err := silence[order.State](ctx)
	return state, false, err
}

func (silent) OrdersOf(ctx context.Context, _ string, _ int64, _ int) ([]queries.OrderAt, error) {
	return silence[[]queries.OrderAt](ctx)
}

func (silent) Subscriptions(ctx context.Context, _ string) ([]subscription.State, error) {
	return silence[[]subscription.State](ctx)
}

func (silent) Stock(ctx context.Context, _ []string) (map[string]queries.StockView, error) {
	return silence[map[string]queries.StockView](ctx)
}

func (silent) Prices(ctx context.Context, _ string, _ []string) (map[string]queries.PriceView, error) {
	return silence[map[string]queries.PriceView](ctx)
}

func (silent) Products(ctx context.Context, _ []string) (map[string]queries.ProductView, error) {
	return silence[map[string]queries.ProductView](ctx)
}

func (silent) Watermark(ctx context.Context, _ string) (time.Time, error) {
	return silence[time.Time](ctx)
}

func (silent) Execute(ctx context.Context, _ eventstore.Request) (eventstore.Outcome, error) {
	return silence[eventstore.Outcome](ctx)
}

// TestNoPartHoldsARequestForLongerThanItsLimit silences one part after the other, and all at once.
func TestNoPartHoldsARequestForLongerThanItsLimit(t *testing.T) {
	brief := Limits{Body: 1 << 20, ReadTimeout: 5 * time.Millisecond, CommandTimeout: 5 * time.Millisecond, OpsTimeout: 5 * time.Millisecond, KeyTTL: time.Hour}
	for name, silenced := range map[string]func(*Config){
		"partners": func(c *Config) { c.Partners = silent{} },
		"reader":   func(c *Config) { c.Reader, c.Orders, c.Subscriptions = silent{}, silent{}, silent{} },
		"store":    func(c *Config) { c.Executor = silent{} },
		"verifier": func(c *Config) {
			c.Verify = func(ctx context.Context, _ string) (Principal, error) { return silence[Principal](ctx) }
		},
		"all": func(c *Config) {
			c.Partners, c.Reader, c.Orders, c.Subscriptions, c.Executor, c.DeadLetters = silent{}, silent{}, silent{}, silent{}, silent{}, &desk{silent: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEdge(t, func(c *Config) { c.Limits, c.Quota = brief, &allowance{left: 1 << 30} }, silenced)
			for _, served := range e.endpoints() {
				if served.access == anyone {
					continue
				}
				target := strings.NewReplacer("{id}", "0190b0a0-0000-7000-8000-000000000000", "{sku}", "A", "{consumer}", "oms", "{partition}", "3", "{offset}", "17").Replace(served.path)
				if slices.Contains(served.parameters, skuParameter) {
					target += "?sku=A"
				}
				got := e.ask(served.method, target, bodyFor(served), "Authorization", "Bearer "+tokenFor(served), keyHeader, newTestID())
				if got.status >= 500 {
					is(t, got, 503, CodeUnavailable)
				}
				asksNobody := served.id == "guards" // it tells of this process alone
				if name == "verifier" || name == "all" && !asksNobody {
					is(t, got, 503, CodeUnavailable)
				}
			}
		})
	}
}

func TestMoneyHasTheDecimalsOfItsCurrency(t *testing.T) {
	e := newEdge(t)
	for currency, priced := range map[string]struct{ amount, twice, tooPrecise string }{
		"CLP": {"1990", "3980", "1990.50"}, "JPY": {"1234", "2468", "1234.0"}, "KWD": {"1.234", "2.468", "1.2345"}, "USD": {"19.90", "39.80", "1.999"},
	} {
		e.do(partner.Configure{Partner: partner.State{ID: currency, Name: "n", Tier: "gold", Policy: partner.Policy{PriceList: currency, Currency: currency}}})
		e.do(price.Report{List: currency, SKU: "A", Amount: priced.amount, Currency: currency, SourceVersion: 1, At: testStart})
		token := []string{"Authorization", "Bearer " + currency}
		if got := e.ask(http.MethodGet, "/v1/prices?sku=A", "", token...); !strings.Contains(got.body, fmt.Sprintf(`"price":{"amount":%q,"currency":%q}`, priced.amount, currency)) {
			t.Errorf("%s: %s", currency, got.body)
		}
		body := func(amount string) string {
			return fmt.Sprintf(`{"currency":%q,"lines":[{"sku":"A","quantity":2,"unitPrice":{"amount":%q,"currency":%q}}],"payment":{"token":"t"}}`, currency, amount, currency)
		}
		if got := e.order(currency, body(priced.amount), token...); got.status != 202 || !strings.Contains(got.body, fmt.Sprintf(`"total":{"amount":%q,"currency":%q}`, priced.twice, currency)) {
			t.Errorf("%s: %d %s", currency, got.status, got.body)
		}
		is(t, e.order(currency+"2", body(priced.tooPrecise), token...), 422, CodeAmountInvalid)
		is(t, e.order(currency+"3", strings.Replace(body(priced.amount), `"`+priced.amount+`"`, priced.amount, 1), token...), 422, CodeAmountInvalid)
	}
}
