package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"andes/commands/order"
	"andes/commands/partner"
	"andes/commands/reservation"
	"andes/commands/stock"
	"andes/eventstore"
)

func TestAnOrderIsAcceptedAndRepeatedByteForByte(t *testing.T) {
	e := newEdge(t)
	first := e.order("K", smallOrder, correlationHeader, "first")
	id := orderIDIn([]byte(first.body))
	if first.status != http.StatusAccepted || id == "" || first.header.Get("Location") != "/v1/orders/"+id || first.header.Get(replayedHeader) != "" {
		t.Fatalf("%d %v %s", first.status, first.header, first.body)
	}
	events := e.events()
	again := e.order("K", smallOrder, correlationHeader, "second")
	if again.status != first.status || again.body != first.body || again.header.Get(replayedHeader) != "true" ||
		again.header.Get("Location") != first.header.Get("Location") || again.header.Get("Content-Type") != first.header.Get("Content-Type") {
		t.Errorf("%d %v %s", again.status, again.header, again.body)
	}
	if again.header.Get(correlationHeader) != "second" || !strings.Contains(again.body, `"correlationId":"first"`) {
		t.Errorf("headers are of this call, the body is of the first: %v %s", again.header, again.body)
	}
	if e.events() != events {
		t.Error("the repetition left events")
	}
}

func TestKeysAreCheckedBeforeTheBody(t *testing.T) {
	e := newEdge(t)
	events := e.events()
	for _, body := range []string{smallOrder, "", "{", strings.Repeat("x", 2<<20)} {
		is(t, e.ask(http.MethodPost, "/v1/orders", body), 422, CodeKeyRequired)
		for _, key := range []string{"", `"`, `""`, `"a`, `"a"b"`, `"a\b"`, `"a\"`, `"a";p=1`, "a\tb", "ä", strings.Repeat("k", 257), `"` + strings.Repeat("k", 257) + `"`} {
			if got := e.order(key, body); got.status != 422 || got.problem(t).Code != CodeKeyInvalid {
				t.Errorf("key %q: %d %s", key, got.status, got.body)
			}
		}
	}
	twice := httptest.NewRequest(http.MethodPost, "/v1/orders", strings.NewReader(smallOrder))
	twice.Header = http.Header{"Authorization": {"Bearer acme"}, "Content-Type": {"application/json"}, keyHeader: {"a", "a"}}
	is(t, e.send(twice), 422, CodeKeyInvalid)
	if e.events() != events {
		t.Error("a refused key left events")
	}
}

func TestAQuotedAndABareKeyAreTheSame(t *testing.T) {
	e := newEdge(t)
	for bare, quoted := range map[string]string{
		"k-1": `"k-1"`, `a\b`: `"a\\b"`, `x"y`: `"x\"y"`, "two words": `"two words"`, strings.Repeat("k", 256): `"` + strings.Repeat("k", 256) + `"`,
	} {
		first, again := e.order(bare, smallOrder), e.order(quoted, smallOrder)
		if first.status != http.StatusAccepted || again.body != first.body || again.header.Get(replayedHeader) != "true" {
			t.Errorf("%q: %d, then %s: %d %s", bare, first.status, quoted, again.status, again.body)
		}
	}
}

func TestTheSameRequestMayBeWrittenOtherwise(t *testing.T) {
	e := newEdge(t)
	first := e.order("K", `{"currency":"GBP","lines":[{"sku":"A","quantity":1}],"payment":{"token":"tok_visa"}}`)
	for name, body := range map[string]string{
		"members in another order": `{"payment":{"token":"tok_visa"},"lines":[{"quantity":1,"sku":"A"}],"currency":"GBP"}`,
		"white space":              "\n{ \"currency\" : \"GBP\",\t\"lines\":[ {\"sku\":\"A\",\"quantity\":1} ], \"payment\":{\"token\":\"tok_visa\"} }\n",
		"1.0":                      `{"currency":"GBP","lines":[{"sku":"A","quantity":1.0}],"payment":{"token":"tok_visa"}}`,
		"escapes":                  `{"currency":"\u0047BP","lines":[{"sku":"\u0041","quantity":1}],"payment":{"token":"tok\u005fvisa"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if got := e.order("K", body, "Content-Type", "application/json; charset=UTF-8"); got.body != first.body || got.header.Get(replayedHeader) != "true" {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
}

func TestAnotherRequestUnderTheSameKeyIsRefused(t *testing.T) {
	e := newEdge(t)
	first := e.order("K", smallOrder)
	events := e.events()
	for name, body := range map[string]string{
		"another quantity":   strings.Replace(smallOrder, `"quantity":1`, `"quantity":2`, 1),
		"one more member":    strings.Replace(smallOrder, `{"currency"`, `{"partnerOrderRef":"R","currency"`, 1),
		"an unknown member":  strings.Replace(smallOrder, `{"currency"`, `{"x":1,"currency"`, 1),
		"a broken quantity":  strings.Replace(smallOrder, `"quantity":1`, `"quantity":-1`, 1),
		"no object at all":   `[]`,
		"a 1 that is a text": strings.Replace(smallOrder, `"quantity":1`, `"quantity":"1"`, 1),
	} {
		t.Run(name, func(t *testing.T) { is(t, e.order("K", body), 422, eventstore.CodeIdempotencyKeyReused) })
	}
	if again := e.order("K", smallOrder); again.body != first.body || e.events() != events {
		t.Error("the first order was touched")
	}
}

func TestKeysBelongToThePartner(t *testing.T) {
	e := newEdge(t)
	first, other := e.placed("K", smallOrder), e.placed("K", smallOrder, "Authorization", "Bearer other")
	if first == other {
		t.Error("one order for two partners")
	}
}

func TestRefusalsAreKept(t *testing.T) {
	e := newEdge(t)
	tooMany := strings.Replace(smallOrder, `"quantity":1`, `"quantity":11`, 1)
	first := e.order("K", tooMany, correlationHeader, "first")
	is(t, first, 409, reservation.CodeInsufficientStock)
	if !strings.Contains(first.body, `"shortages":[{"sku":"A","requested":11,"available":10}]`) {
		t.Errorf("the shortage is not named: %s", first.body)
	}
	for range 2 {
		if again := e.order("K", tooMany); again.status != first.status || again.body != first.body || again.header.Get(replayedHeader) != "true" || again.header.Get("Content-Type") != problemMedia {
			t.Errorf("%d %s", again.status, again.body)
		}
	}
	e.do(stock.Report{SKU: "A", OnHand: 50, SourceVersion: 2, At: e.clock()})
	if again := e.order("K", tooMany); again.body != first.body {
		t.Error("a restock changed the answer that was given")
	}
	e.placed("new key", tooMany)

	broken := strings.Replace(smallOrder, `"quantity":1`, `"quantity":0`, 1)
	first = e.order("Q", broken)
	is(t, first, 422, order.CodeQuantityInvalid)
	if again := e.order("Q", broken); again.body != first.body || again.header.Get(replayedHeader) != "true" {
		t.Errorf("%d %s", again.status, again.body)
	}
	is(t, e.order("Q", smallOrder), 422, eventstore.CodeIdempotencyKeyReused)
}

func TestFaultsOnOurSideLeaveTheKeyFree(t *testing.T) {
	for name, fault := range map[string]struct {
		err    error
		status int
		code   eventstore.Code
	}{
		"overloaded":      {eventstore.ErrOverloaded, 503, CodeOverloaded},
		"unavailable":     {eventstore.ErrUnavailable, 503, CodeUnavailable},
		"outcome unknown": {eventstore.ErrOutcomeUnknown, 503, CodeOutcomeUnknown},
		"changed":         {eventstore.ErrChanged, 503, CodeUnavailable},
		"a bug":           {errors.New("secret-of-the-inside"), 500, CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEdge(t)
			e.executor.fail(failing(fault.err), nil)
			got := e.order("K", smallOrder)
			is(t, got, fault.status, fault.code)
			if retry := got.header.Get("Retry-After"); fault.status == 503 && (retry == "" || retry == "0") {
				t.Errorf("Retry-After %q", retry)
			}
			if strings.Contains(got.body, "inside") || !strings.Contains(e.log.String(), fault.err.Error()) {
				t.Errorf("the fault belongs into the log, not to the caller: %s", got.body)
			}
			e.executor.fail(nil, nil)
			if got := e.order("K", smallOrder); got.status != http.StatusAccepted || got.header.Get(replayedHeader) != "" {
				t.Errorf("the key is not free: %d %s", got.status, got.body)
			}
		})
	}
}

func TestALostAnswerIsFoundByRepeating(t *testing.T) {
	e := newEdge(t)
	e.executor.fail(nil, eventstore.ErrOutcomeUnknown)
	is(t, e.order("K", smallOrder), 503, CodeOutcomeUnknown)
	e.executor.fail(nil, nil)
	events := e.events()
	if again := e.order("K", smallOrder); again.status != http.StatusAccepted || again.header.Get(replayedHeader) != "true" || e.events() != events {
		t.Errorf("%d %s", again.status, again.body)
	}
}

func TestAPartnerThatIsNotSetUpYetKeepsItsKey(t *testing.T) {
	e := newEdge(t)
	is(t, e.order("K", smallOrder, "Authorization", "Bearer newcomer"), 403, partner.CodeUnknown)
	e.do(partner.Configure{Partner: partner.State{ID: "newcomer", Name: "n", Tier: "gold", Policy: partner.Policy{PriceList: "retail", Currency: "GBP"}}})
	e.placed("K", smallOrder, "Authorization", "Bearer newcomer")
}

func TestAKeyRunsOut(t *testing.T) {
	e := newEdge(t)
	first := e.placed("K", smallOrder)
	e.pass(24*time.Hour - time.Second)
	if again := e.placed("K", smallOrder); again != first {
		t.Error("the answer was forgotten early")
	}
	e.pass(2 * time.Second)
	if again := e.placed("K", smallOrder); again == first {
		t.Error("the answer was kept for longer than it should")
	}
}

// inFlight answers like an executor whose batches take a while: one request per key gets in.
type inFlight struct {
	eventstore.Executor
	mu      sync.Mutex
	running map[eventstore.IdempotencyKey]bool
	entered chan struct{} // one for each request that came, also a refused one
	leave   chan struct{} // closed: the first may go on
}

func (f *inFlight) Execute(ctx context.Context, request eventstore.Request) (eventstore.Outcome, error) {
	key := request.Idempotency.IdempotencyKey
	f.mu.Lock()
	busy := f.running[key]
	f.running[key] = true
	f.mu.Unlock()
	f.entered <- struct{}{}
	if busy {
		return eventstore.Outcome{}, eventstore.Refuse(eventstore.CodeRequestInProgress, "still running")
	}
	<-f.leave
	outcome, err := f.Executor.Execute(ctx, request)
	f.mu.Lock()
	delete(f.running, key)
	f.mu.Unlock()
	return outcome, err
}

func TestFiftyAtOnceAreOneOrder(t *testing.T) {
	const callers = 50
	gate := &inFlight{running: map[eventstore.IdempotencyKey]bool{}, entered: make(chan struct{}, 2*callers), leave: make(chan struct{})}
	e := newEdge(t, func(c *Config) { gate.Executor, c.Executor = c.Executor, gate })
	replies := make(chan reply, callers)
	for range callers {
		go func() { replies <- e.order("K", smallOrder) }()
	}
	for range callers {
		<-gate.entered
	}
	close(gate.leave)
	statuses := map[int]int{}
	for range callers {
		got := <-replies
		statuses[got.status]++
		if got.status == http.StatusConflict {
			if wait, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || wait < 1 || got.problem(t).Code != eventstore.CodeRequestInProgress {
				t.Errorf("%v %s", got.header, got.body)
			}
		}
	}
	if statuses[http.StatusAccepted] != 1 || statuses[http.StatusConflict] != callers-1 {
		t.Errorf("answers by status: %v", statuses)
	}
	gate.entered = make(chan struct{}, 1)
	if again := e.order("K", smallOrder); again.header.Get(replayedHeader) != "true" {
		t.Errorf("%d %s", again.status, again.body)
	}
}

func TestAReferenceIsOneOrderWhateverTheKey(t *testing.T) {
	e := newEdge(t)
	body := strings.Replace(smallOrder, `{"currency"`, `{"partnerOrderRef":"P-1","currency"`, 1)
	first := e.placed("K1", body)
	second := e.order("K2", body)
	is(t, second, 409, order.CodeDuplicateReference)
	if !strings.Contains(second.body, `"orderId":"`+first+`"`) {
		t.Errorf("the first order is not named: %s", second.body)
	}
	if third := e.placed("K2", body, "Authorization", "Bearer other"); third == first {
		t.Error("another partner's reference is its own")
	}
}
