package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"andes/commands/partner"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/promo"
	"andes/queries"
)

// gate is a reader that counts how often it is asked for stock, and can be held or made to fail.
type gate struct {
	queries.Reader
	asked atomic.Int64
	mu    sync.Mutex
	held  chan struct{} // nil: it is open
	fault error
}

func (g *gate) Stock(ctx context.Context, skus []string) (map[string]queries.StockView, error) {
	g.asked.Add(1)
	g.mu.Lock()
	held, fault := g.held, g.fault
	g.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if fault != nil {
		return nil, fault
	}
	return g.Reader.Stock(ctx, skus)
}

func (g *gate) set(held chan struct{}, fault error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held, g.fault = held, fault
}

// inPromo gives an edge in promo mode, whose state may be changed.
func inPromo(t *testing.T, change ...func(*Config)) (*edge, *gate, *atomic.Pointer[promo.State]) {
	t.Helper()
	g, state := &gate{}, &atomic.Pointer[promo.State]{}
	state.Store(&promo.State{ID: "p", Microcache: promo.Span(2 * time.Second)})
	e := newEdge(t, append([]func(*Config){func(c *Config) {
		g.Reader = c.Reader
		c.Limits = DefaultLimits
		c.Limits.ReadTimeout = patience // that is what is waited for those who meet
		c.Reader, c.Promo = g, func() promo.State { return *state.Load() }
	}}, change...)...)
	return e, g, state
}

const askedStock = "/v1/stock?sku=A,B"

func TestAnAnswerIsKeptForAMoment(t *testing.T) {
	e, g, _ := inPromo(t)
	first := e.ask(http.MethodGet, askedStock, "", correlationHeader, "one")
	e.do(stock.Report{SKU: "A", OnHand: 3, SourceVersion: 2, At: testStart})
	e.pass(1500 * time.Millisecond)
	second := e.ask(http.MethodGet, askedStock, "", correlationHeader, "two")
	if first.status != 200 || first.header.Get(ageHeader) != "" || second.body != first.body || second.header.Get(ageHeader) != "1" || g.asked.Load() != 1 {
		t.Errorf("%d %v\n%d %v, asked %d times", first.status, first.header, second.status, second.header, g.asked.Load())
	}
	if second.header.Get(correlationHeader) != "two" || first.header.Get(correlationHeader) != "one" || second.header.Get(etagHeader) != first.header.Get(etagHeader) {
		t.Errorf("%v\n%v", first.header, second.header)
	}
	e.holds(second, http.MethodGet, "/v1/stock")
	e.pass(500 * time.Millisecond)
	third := e.ask(http.MethodGet, askedStock, "")
	if third.body == first.body || !strings.Contains(third.body, `"available":3`) || g.asked.Load() != 2 {
		t.Errorf("%s, asked %d times", third.body, g.asked.Load())
	}
}

func TestWhoseAnswerIsKeptIsAnsweredNotModified(t *testing.T) {
	e, g, _ := inPromo(t)
	first := e.ask(http.MethodGet, askedStock, "")
	got := e.ask(http.MethodGet, askedStock, "", "If-None-Match", first.header.Get(etagHeader))
	if got.status != http.StatusNotModified || got.body != "" || got.header.Get(asOfHeader) == "" || g.asked.Load() != 1 {
		t.Errorf("%d %v %q", got.status, got.header, got.body)
	}
	// And one that is answered so itself has its whole answer kept.
	e.pass(3 * time.Second)
	if got := e.ask(http.MethodGet, askedStock, "", "If-None-Match", first.header.Get(etagHeader)); got.status != http.StatusNotModified {
		t.Errorf("%d", got.status)
	}
	if got := e.ask(http.MethodGet, askedStock, ""); got.status != 200 || got.body != first.body || g.asked.Load() != 2 {
		t.Errorf("%d %s, asked %d times", got.status, got.body, g.asked.Load())
	}
}

func TestNobodyGetsTheAnswerOfAnother(t *testing.T) {
	e, g, state := inPromo(t)
	verify := e.Verify
	e.Verify = func(ctx context.Context, token string) (Principal, error) {
		name, channel, _ := strings.Cut(token, "/")
		principal, err := verify(ctx, name)
		principal.Subject += channel
		return principal, err
	}
	e.do(partner.Configure{Partner: partner.State{ID: "other", Name: "o", Tier: "gold", Policy: partner.Policy{PriceList: "retail", Currency: "GBP", SafetyBuffer: 4}}})
	asked := int64(0)
	for _, c := range []struct {
		who, method, target, body string
		anew                      bool
	}{
		{"acme", "GET", "/v1/stock?sku=A,B", "", true},
		{"acme", "GET", "/v1/stock?sku=A&sku=B", "", false}, // the same question
		{"acme", "GET", "/v1/stock?sku=A,B,A,B", "", false},
		{"acme", "POST", "/v1/stock/query", `{"skus":["A","B"]}`, false},
		{"acme", "GET", "/v1/stock?sku=B,A", "", true}, // its answer has another order
		{"acme", "GET", "/v1/stock?sku=AB", "", true},
		{"acme", "POST", "/v1/stock/query", `{"skus":["A,B"]}`, true}, // one SKU with a comma
		{"acme/app", "GET", "/v1/stock?sku=A,B", "", true},            // another channel
		{"other", "GET", "/v1/stock?sku=A,B", "", true},
		{"other", "GET", "/v1/stock?sku=A,B", "", false},
	} {
		got := e.ask(c.method, c.target, c.body, "Authorization", "Bearer "+c.who)
		if c.anew {
			asked++
		}
		if got.status != 200 || g.asked.Load() != asked {
			t.Errorf("%+v: %d, asked %d times, want %d", c, got.status, g.asked.Load(), asked)
		}
		if want := map[bool]string{true: `"available":6`, false: `"available":10`}[c.who == "other"]; !strings.Contains(got.body, want) && !strings.Contains(got.body, `"items":[]`) {
			t.Errorf("%+v: %s", c, got.body)
		}
	}
	// What another price list has is another answer.
	before := e.ask(http.MethodGet, "/v1/prices?sku=A", "")
	e.do(partner.Configure{Partner: partner.State{ID: "acme", Name: "a", Tier: "gold", Policy: partner.Policy{PriceList: "other", Currency: "GBP"}}})
	if got := e.ask(http.MethodGet, "/v1/prices?sku=A", ""); got.body == before.body || !strings.Contains(got.body, `"notFound":["A"]`) {
		t.Errorf("%s", got.body)
	}
	// So is what is asked under another degradation, and after the promo nothing is kept.
	state.Store(&promo.State{ID: "p", Microcache: promo.Span(2 * time.Second), Degraded: promo.Degraded{Cap: 2}})
	if got := e.ask(http.MethodGet, askedStock, ""); strings.Count(got.body, `"available":2`) != 2 {
		t.Errorf("%s", got.body)
	}
	state.Store(&promo.State{})
	for range 2 {
		asked = g.asked.Load()
		if got := e.ask(http.MethodGet, askedStock, ""); !strings.Contains(got.body, `"available":10`) || g.asked.Load() != asked+1 {
			t.Errorf("%s", got.body)
		}
	}
}

func TestWhoIsOverItsQuotaIsRefusedWhateverIsKept(t *testing.T) {
	state := promo.State{ID: "p", Microcache: promo.Span(10 * time.Second)}
	refusedFor := map[string]int{}
	e := newLimited(t)
	e.Promo, e.QuotaRefused = func() promo.State { return state }, func(partner string) { refusedFor[partner]++ }
	allowed, left := 0, map[string]bool{}
	for range 30 {
		got := e.ask(http.MethodGet, askedStock, "")
		if got.status == 200 {
			allowed++
			left[got.header.Get(stateHeader)] = true // its own, not that of the answer that is kept
			continue
		}
		is(t, got, 429, CodeRateLimited)
	}
	if allowed != 20 || len(left) != 20 || refusedFor["acme"] != 10 {
		t.Errorf("%d were allowed, told %v; refused %v", allowed, left, refusedFor)
	}
	e.pass(time.Second)
	// The rest of a batch is charged before what is kept is looked at.
	for range 2 {
		e.ask(http.MethodPost, "/v1/stock/query", skus(1000))
	}
	is(t, e.ask(http.MethodPost, "/v1/stock/query", skus(1000)), 429, CodeRateLimited)
}

func TestOfEqualQuestionsOneIsAsked(t *testing.T) {
	e, g, _ := inPromo(t)
	held := make(chan struct{})
	g.set(held, nil)
	const callers = 50
	var all sync.WaitGroup
	var bodies sync.Map
	for range callers {
		all.Go(func() {
			got := e.ask(http.MethodGet, askedStock, "")
			bodies.Store(got.body, got.status)
		})
	}
	e.until("all wait for one", func() bool { return e.waiting() == callers-1 })
	close(held)
	all.Wait()
	different := 0
	bodies.Range(func(_, status any) bool { different++; return status == 200 })
	if different != 1 || g.asked.Load() != 1 {
		t.Errorf("%d different answers, asked %d times", different, g.asked.Load())
	}
}

func (e *edge) until(what string, holds func() bool) {
	e.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for !holds() {
		select {
		case <-late.C:
			e.t.Fatalf("not within %s: %s", patience, what)
		case <-time.After(time.Millisecond):
		}
	}
}

// waiting counts those who wait for the answer of another one.
func (e *edge) waiting() int { return int(e.micro.waiting.Load()) }

func TestWhoGivesUpHarmsNobodyWhoWaitsForItsAnswer(t *testing.T) {
	e, g, _ := inPromo(t)
	held := make(chan struct{})
	g.set(held, nil)
	leaving, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		request, _ := http.NewRequestWithContext(leaving, http.MethodGet, askedStock, nil)
		request.Header.Set("Authorization", "Bearer acme")
		e.send(request)
	})
	e.until("the first one asks", func() bool { return g.asked.Load() == 1 })
	all.Go(func() {
		if got := e.ask(http.MethodGet, askedStock, ""); got.status != 200 {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
	e.until("the second one waits", func() bool { return e.waiting() == 1 })
	leave()
	e.until("who waited asks", func() bool { return g.asked.Load() == 2 })
	close(held)
	all.Wait()
}

func TestErrorsAreNeverKept(t *testing.T) {
	e, g, _ := inPromo(t)
	for _, fault := range []error{queries.ErrSaturated, errors.New("broken"), eventstore.ErrUnavailable} {
		g.set(nil, fault)
		asked := g.asked.Load()
		for range 2 {
			if got := e.ask(http.MethodGet, askedStock, ""); got.status < 500 || got.header.Get(ageHeader) != "" {
				t.Errorf("%v: %d", fault, got.status)
			}
		}
		if g.asked.Load() != asked+2 {
			t.Errorf("%v: asked %d times", fault, g.asked.Load()-asked)
		}
	}
	g.set(nil, nil)
	if got := e.ask(http.MethodGet, askedStock, ""); got.status != 200 {
		t.Errorf("%d", got.status)
	}
}

func TestAnOlderAnswerIsGivenWhereThatIsSwitched(t *testing.T) {
	e, g, state := inPromo(t)
	e.ask(http.MethodGet, askedStock, "")
	g.set(nil, queries.ErrSaturated)
	e.pass(5 * time.Second)
	is(t, e.ask(http.MethodGet, askedStock, ""), 503, CodeOverloaded)

	degraded := *state.Load()
	degraded.Degraded.Stale = promo.Span(30 * time.Second)
	state.Store(&degraded)
	g.set(nil, nil)
	first := e.ask(http.MethodGet, askedStock, "")
	g.set(nil, queries.ErrSaturated)
	e.pass(20 * time.Second)
	got := e.ask(http.MethodGet, askedStock, "")
	if got.status != 200 || got.body != first.body || got.header.Get(ageHeader) != "20" {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
	// While one asks for a newer one, the others need not wait.
	held := make(chan struct{})
	g.set(held, nil)
	var asker sync.WaitGroup
	asked := g.asked.Load()
	asker.Go(func() { e.ask(http.MethodGet, askedStock, "") })
	e.until("one asks", func() bool { return g.asked.Load() > asked })
	if got := e.ask(http.MethodGet, askedStock, ""); got.status != 200 || got.header.Get(ageHeader) != "20" {
		t.Errorf("%d %v", got.status, got.header)
	}
	close(held)
	asker.Wait()
	// What is too old even so is an error, and a question that makes no sense is one anyhow.
	g.set(nil, queries.ErrSaturated)
	e.pass(31 * time.Second)
	is(t, e.ask(http.MethodGet, askedStock, ""), 503, CodeOverloaded)
	is(t, e.ask(http.MethodGet, "/v1/stock", ""), 422, CodeParameterMissing)
}

func TestWhatAnAnswerSaysOfItselfHolds(t *testing.T) {
	e, g, state := inPromo(t)
	long := promo.State{ID: "p", Microcache: promo.Span(30 * time.Second)}
	state.Store(&long)
	e.pass(5*time.Minute - 10*time.Second) // the stock is fresh for 10 s yet
	if got := e.ask(http.MethodGet, askedStock, ""); !strings.Contains(got.body, `"stale":false`) {
		t.Errorf("%s", got.body)
	}
	e.pass(9 * time.Second)
	if got := e.ask(http.MethodGet, askedStock, ""); got.header.Get(ageHeader) != "9" {
		t.Errorf("%v", got.header)
	}
	e.pass(2 * time.Second)
	if got := e.ask(http.MethodGet, askedStock, ""); strings.Contains(got.body, `"stale":false`) || g.asked.Load() != 2 {
		t.Errorf("%s, asked %d times", got.body, g.asked.Load())
	}
}

// Field case TIME-02: a promotion's prices and the mode's caches change at the same instant.
func TestAKeptPriceEndsWithItsDiscount(t *testing.T) {
	e, _, state := inPromo(t)
	state.Store(&promo.State{ID: "p", Microcache: promo.Span(30 * time.Second)})
	rome := time.FixedZone("", 3600)
	begins := testStart.Add(10 * time.Second).In(rome)
	e.do(partner.Configure{Partner: partner.State{ID: "acme", Name: "a", Tier: "gold", Policy: partner.Policy{
		PriceList: "retail", Currency: "GBP", Discounts: []partner.Discount{{Percent: "50", From: begins, Until: begins.Add(10 * time.Second)}},
	}}})
	for i, want := range []string{"10.00", "10.00", "5.00", "5.00", "10.00"} {
		if got := e.ask(http.MethodGet, "/v1/prices?sku=B", ""); !strings.Contains(got.body, `"price":{"amount":"`+want+`"`) {
			t.Errorf("after %d s: %s, want %s", 5*i, got.body, want)
		}
		e.pass(5 * time.Second)
	}
}

func TestAClockThatIsSetBackKeepsNothingLonger(t *testing.T) {
	e, g, _ := inPromo(t)
	e.ask(http.MethodGet, askedStock, "")
	e.pass(-time.Hour)
	if got := e.ask(http.MethodGet, askedStock, ""); got.status != 200 || got.header.Get(ageHeader) != "" || g.asked.Load() != 2 {
		t.Errorf("%d %v, asked %d times", got.status, got.header, g.asked.Load())
	}
}

func TestTheDocumentTellsThatAnswersMayBeKept(t *testing.T) {
	var document struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct{ Headers map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(newEdge(t).ask(http.MethodGet, "/openapi.json", "").body), &document); err != nil {
		t.Fatal(err)
	}
	for _, answer := range [][3]string{{"/v1/stock", "get", "200"}, {"/v1/prices", "get", "304"}, {"/v1/stock/query", "post", "200"}} {
		headers := document.Paths[answer[0]][answer[1]].Responses[answer[2]].Headers
		if _, told := headers[ageHeader]; !told {
			t.Errorf("%v: %v", answer, headers)
		}
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	e, _, _ := inPromo(t)
	m := e.micro
	land := func(key string, size int) {
		_, flight, leads := m.board(question{key: key, life: time.Minute})
		if !leads {
			t.Fatalf("%s is kept already", key)
		}
		m.land(flight, &keptAnswer{entity: entity{body: make([]byte, size)}, key: key, made: e.clock()}, nil)
	}
	has := func(key string) bool { return m.answers[key] != nil }
	land("long", maxKeptAnswer+1)
	if has("long") || m.bytes != 0 {
		t.Errorf("%d bytes", m.bytes)
	}
	for i := range maxKeptAnswers + 10 {
		land(fmt.Sprint("n", i), 1)
	}
	if len(m.answers) != maxKeptAnswers || has("n9") || !has("n10") || m.byAge.Len() != maxKeptAnswers {
		t.Errorf("%d are kept", len(m.answers))
	}
	for i := range 2 * maxKeptBytes / maxKeptAnswer {
		land(fmt.Sprint("b", i), maxKeptAnswer)
	}
	total := 0
	for element := m.byAge.Front(); element != nil; element = element.Next() {
		total += element.Value.(*keptAnswer).size()
	}
	if m.bytes > maxKeptBytes || m.bytes != total || has("b0") || len(m.flights) != 0 {
		t.Errorf("%d bytes are kept, %d are reckoned", total, m.bytes)
	}
	e.ForgetAnswers()
	if len(m.answers) != 0 || m.bytes != 0 || m.byAge.Len() != 0 {
		t.Errorf("%d bytes are left", m.bytes)
	}
}

func BenchmarkKeptReads(b *testing.B) {
	e := newEdge(&testing.T{}, func(c *Config) {
		c.Reader, c.Partners, c.Logger = constant{}, constant{}, slog.New(slog.DiscardHandler)
		c.Promo = func() promo.State { return promo.State{ID: "p", Microcache: promo.Span(2 * time.Second)} }
	})
	request := httptest.NewRequest(http.MethodGet, "/v1/stock?sku=SKU-1,SKU-2,SKU-3,SKU-4,SKU-5,SKU-6,SKU-7,SKU-8,SKU-9,SKU-10", nil)
	request.Header.Set("Authorization", "Bearer acme")
	b.ReportAllocs()
	for b.Loop() {
		e.ServeHTTP(&nowhere{header: http.Header{}}, request)
	}
}
