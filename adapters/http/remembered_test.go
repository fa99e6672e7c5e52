package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"andes/commands/partner"
	"andes/commands/stock"
	"andes/queries"
)

// vouching is a reader that says of all that it gives that it holds, until it is told that it does not.
type vouching struct {
	*gate
	mu   sync.Mutex
	last *evidence
}

type evidence struct{ gone atomic.Bool }

func (e *evidence) Holds(time.Time) bool { return !e.gone.Load() }
func (e *evidence) Use(time.Time)        {}
func (e *evidence) Size() int            { return 1 }

func (v *vouching) HoldStock(time.Time, string, []string) queries.Held {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.last == nil {
		v.last = &evidence{}
	}
	return v.last
}

func (v *vouching) HoldPrices(now time.Time, feed, _ string, skus []string) queries.Held {
	return v.HoldStock(now, feed, skus)
}

// drop is what a push of the read model does.
func (v *vouching) drop() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.last != nil {
		v.last.gone.Store(true)
	}
	v.last = nil
}

// newVouching is an edge over a vouching reader. Partners are read once: what they are is the same list of discounts.
func newVouching(t *testing.T, change ...func(*Config)) (*edge, *vouching) {
	v := &vouching{gate: &gate{}}
	e := newEdge(t, append([]func(*Config){func(c *Config) {
		v.Reader, c.Reader = c.Reader, v
		cached, err := queries.NewCachedPartners(queries.CachedPartnersConfig{Source: c.Partners, Now: c.Clock})
		if err != nil {
			t.Fatal(err)
		}
		c.Partners = cached
	}}, change...)...)
	return e, v
}

// often asks as often as it takes until the answer is remembered, and gives it.
func (e *edge) often(target string) reply {
	e.t.Helper()
	e.ask(http.MethodGet, target, "")
	return e.ask(http.MethodGet, target, "")
}

func TestAnAnswerIsGivenAgainWhileNothingOfItChanges(t *testing.T) {
	e, v := newVouching(t)
	for _, target := range []string{"/v1/stock?sku=A,B,nothing", "/v1/stock?sku=A&sku=B", "/v1/prices?sku=A,B,nothing"} {
		first := e.often(target)
		before := e.remembered.count()
		v.set(nil, fmt.Errorf("the reader is asked"))
		again := e.ask(http.MethodGet, target, "")
		v.set(nil, nil)
		if again.status != 200 || again.body != first.body || again.header.Get(etagHeader) != first.header.Get(etagHeader) || e.remembered.count() != before {
			t.Errorf("%s: %d %q, first %q", target, again.status, again.body, first.body)
		}
		if got := e.get(target, first.header.Get(etagHeader)); got.status != 304 || strings.Contains(first.body, "asOf") && got.header.Get(asOfHeader) == "" {
			t.Errorf("%s: %d %v", target, got.status, got.header)
		}
	}
	e.do(stock.Report{SKU: "A", OnHand: 3, SourceVersion: 99, At: testStart})
	v.drop()
	if got := e.ask(http.MethodGet, "/v1/stock?sku=A,B,nothing", ""); !strings.Contains(got.body, `"available":3`) {
		t.Errorf("after a change: %s", got.body)
	}
}

func (r *remembered) count() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.answers)
}

// Of two partners each sees what its own policy makes of the stock, and partners with the same terms the same.
func TestARememberedAnswerIsThatOfTheSameTerms(t *testing.T) {
	e, _ := newVouching(t)
	wants := map[string]string{"plain": `"available":10`, "buffered": `"available":7`, "capped": `"available":2`}
	for id, policy := range map[string]partner.Policy{
		"plain": {}, "buffered": {SafetyBuffer: 3}, "capped": {VisibleCap: 2},
	} {
		policy.PriceList, policy.Currency = "retail", "GBP"
		e.do(partner.Configure{Partner: partner.State{ID: id, Name: id, Tier: "gold", Policy: policy}})
	}
	for range 3 {
		for id, want := range wants {
			if got := e.askAs(id, "/v1/stock?sku=A"); !strings.Contains(got.body, want) {
				t.Errorf("%s: %s", id, got.body)
			}
		}
	}
}

// askAs asks as another partner.
func (e *edge) askAs(partnerID, target string) reply {
	e.t.Helper()
	return e.ask(http.MethodGet, target, "", "Authorization", "Bearer "+partnerID)
}

func TestTimeAloneEndsARememberedAnswer(t *testing.T) {
	e, _ := newVouching(t)
	begins := testStart.Add(time.Minute)
	e.do(partner.Configure{Partner: partner.State{ID: "sale", Name: "sale", Tier: "gold", Policy: partner.Policy{
		PriceList: "retail", Currency: "GBP", Discounts: []partner.Discount{{Percent: "10", From: begins, Until: begins.Add(time.Minute)}},
	}}})
	for range 3 {
		if got := e.askAs("sale", "/v1/prices?sku=B"); !strings.Contains(got.body, `"price":{"amount":"10.00"`) {
			t.Errorf("before: %s", got.body)
		}
	}
	e.pass(time.Minute)
	for range 3 {
		if got := e.askAs("sale", "/v1/prices?sku=B"); !strings.Contains(got.body, `"price":{"amount":"9.00"`) {
			t.Errorf("meanwhile: %s", got.body)
		}
	}
	e.pass(time.Minute)
	for range 3 {
		if got := e.askAs("sale", "/v1/prices?sku=B"); !strings.Contains(got.body, `"price":{"amount":"10.00"`) {
			t.Errorf("after: %s", got.body)
		}
	}
}

func TestARememberedAnswerBecomesStaleInTime(t *testing.T) {
	e, _ := newVouching(t)
	if got := e.often("/v1/stock?sku=A"); !strings.Contains(got.body, `"stale":false`) {
		t.Fatal(got.body)
	}
	e.pass(e.Thresholds.Stock)
	if got := e.ask(http.MethodGet, "/v1/stock?sku=A", ""); !strings.Contains(got.body, `"stale":false`) {
		t.Errorf("at the threshold: %s", got.body)
	}
	e.pass(time.Millisecond)
	for range 3 {
		if got := e.ask(http.MethodGet, "/v1/stock?sku=A", ""); !strings.Contains(got.body, `"stale":true`) {
			t.Errorf("beyond it: %s", got.body)
		}
	}
}

// Something changes while the answer is made: it is given, but not again.
func TestAnAnswerThatChangedWhileItWasMadeIsNotRemembered(t *testing.T) {
	e, v := newVouching(t)
	e.ask(http.MethodGet, "/v1/stock?sku=A", "")
	held := make(chan struct{})
	v.set(held, nil)
	answered := make(chan reply)
	go func() { answered <- e.ask(http.MethodGet, "/v1/stock?sku=A", "") }()
	e.until("the reader is asked", func() bool { return v.asked.Load() == 2 })
	v.drop()
	close(held)
	<-answered
	v.set(nil, nil)
	if got := e.remembered.count(); got != 0 {
		t.Errorf("%d answers are remembered", got)
	}
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	e, _ := newVouching(t)
	long := strings.Repeat("x", 200)
	for i := range 400 {
		skus := make([]string, 100)
		for n := range skus {
			skus[n] = fmt.Sprintf("%s-%d-%d", long, i, n)
		}
		e.often("/v1/stock?sku=" + strings.Join(skus, ","))
	}
	e.remembered.mu.RLock()
	defer e.remembered.mu.RUnlock()
	total := 0
	for _, each := range e.remembered.answers {
		total += each.size()
	}
	if total != e.remembered.bytes || total > maxRemembered || total < maxRemembered/2 {
		t.Errorf("%d bytes are remembered, %d are counted", total, e.remembered.bytes)
	}
}

// Answers that nobody asks for any more do not stay until there is no room.
func TestWhatHoldsNoMoreIsForgotten(t *testing.T) {
	e, v := newVouching(t)
	ask := func(kind string, n int) {
		for i := range n {
			e.often(fmt.Sprintf("/v1/stock?sku=A,%s-%d", kind, i))
		}
	}
	ask("old", 50)
	v.drop()
	ask("new", 150)
	e.remembered.mu.RLock()
	defer e.remembered.mu.RUnlock()
	left := 0
	for question := range e.remembered.answers {
		if strings.Contains(question.query, "old") {
			left++
		}
	}
	if left > 10 {
		t.Errorf("%d of 50 are left", left)
	}
}
