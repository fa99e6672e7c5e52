package httpapi

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"andes/commands/order"
	"andes/commands/reservation"
	"andes/eventstore"
)

// beside opens one more edge over the same store, as another process would.
func (e *edge) beside() *edge {
	e.t.Helper()
	return newEdge(e.t, func(c *Config) {
		c.Executor, c.Reader, c.Orders, c.Partners, c.Subscriptions = e.executor, e.shelf, e.shelf, e.shelf, e.shelf
	})
}

// atOnce sends what ask sends, many times together, and gives all answers.
func atOnce(callers int, ask func(i int) reply) []reply {
	start, done := make(chan struct{}), make(chan struct{})
	replies := make([]reply, callers)
	for i := range callers {
		go func() {
			<-start
			replies[i] = ask(i)
			done <- struct{}{}
		}()
	}
	close(start)
	for range callers {
		<-done
	}
	return replies
}

// byStatus counts answers, refusals by their code.
func byStatus(t *testing.T, replies []reply) map[string]int {
	t.Helper()
	counted := map[string]int{}
	for _, got := range replies {
		name := fmt.Sprint(got.status)
		if got.status >= http.StatusBadRequest {
			name += " " + string(got.problem(t).Code)
		}
		counted[name]++
	}
	return counted
}

func TestAnotherProcessRepeatsTheSameAnswer(t *testing.T) {
	e := newEdge(t)
	other := e.beside()
	first := e.order("K", smallOrder)
	tooMany := strings.Replace(smallOrder, `"quantity":1`, `"quantity":11`, 1)
	refused := e.order("Q", tooMany)
	events := e.events()
	for key, before := range map[string]reply{"K": first, "Q": refused} {
		body := smallOrder
		if key == "Q" {
			body = tooMany
		}
		again := other.order(key, body)
		if again.status != before.status || again.body != before.body || again.header.Get(replayedHeader) != "true" ||
			again.header.Get("Location") != before.header.Get("Location") || again.header.Get("Content-Type") != before.header.Get("Content-Type") {
			t.Errorf("%s: %d %v %s, before %d %s", key, again.status, again.header, again.body, before.status, before.body)
		}
	}
	is(t, other.order("K", tooMany), 422, eventstore.CodeIdempotencyKeyReused)
	if e.events() != events {
		t.Error("the repetition left events")
	}
}

func TestUnitsAreNotSoldTwiceHoweverManyAsk(t *testing.T) {
	const callers, units = 50, 10 // of A
	e := newEdge(t)
	replies := atOnce(callers, func(i int) reply { return e.order(fmt.Sprint("K", i), smallOrder) })
	want := map[string]int{"202": units, "409 " + string(reservation.CodeInsufficientStock): callers - units}
	if got := byStatus(t, replies); !maps.Equal(got, want) {
		t.Errorf("answers: %v, want %v", got, want)
	}
	events := e.events()
	again := atOnce(callers, func(i int) reply { return e.order(fmt.Sprint("K", i), smallOrder) })
	for i := range callers {
		if again[i].status != replies[i].status || again[i].body != replies[i].body || again[i].header.Get(replayedHeader) != "true" {
			t.Errorf("%d %s, before %d %s", again[i].status, again[i].body, replies[i].status, replies[i].body)
		}
	}
	if e.events() != events {
		t.Error("the repetitions left events")
	}
}

func TestAReferenceIsOneOrderAlsoAtOnce(t *testing.T) {
	const callers = 30
	e := newEdge(t)
	body := strings.Replace(smallOrder, `{"currency"`, `{"partnerOrderRef":"P-1","currency"`, 1)
	replies := atOnce(callers, func(i int) reply { return e.order(fmt.Sprint("K", i), body) })
	want := map[string]int{"202": 1, "409 " + string(order.CodeDuplicateReference): callers - 1}
	if got := byStatus(t, replies); !maps.Equal(got, want) {
		t.Errorf("answers: %v, want %v", got, want)
	}
}

func TestAnOrderIsCancelledOnceAlsoAtOnce(t *testing.T) {
	const callers = 30
	e := newEdge(t)
	id := e.placed("K", smallOrder)
	one := e.placed("K2", smallOrder)
	before := e.events()
	e.ask(http.MethodPost, "/v1/orders/"+one+"/cancel", "")
	each := e.events() - before
	replies := atOnce(callers, func(int) reply { return e.ask(http.MethodPost, "/v1/orders/"+id+"/cancel", "") })
	for _, got := range replies {
		if got.status != 200 || got.body != replies[0].body {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	if left := e.events() - before - each; left != each {
		t.Errorf("%d events, one cancellation has %d", left, each)
	}
}

// TestOnlyWhatIsTheCallersSpendsAKey goes through the whole table of codes.
func TestOnlyWhatIsTheCallersSpendsAKey(t *testing.T) {
	e := newEdge(t)
	replacing := &replaced{Executor: e.store}
	e.executor.Executor = replacing
	for _, code := range slices.Sorted(maps.Keys(meanings)) {
		means := meanings[code]
		replacing.with = refuse{why: &eventstore.Refusal{Code: code, Detail: "<why>", Problems: []eventstore.Problem{{Pointer: "/x", Code: code}}, Extra: map[string]any{"z": 1}}}
		key := string(code)
		first := e.order(key, smallOrder)
		is(t, first, means.status, code)
		if wait := first.header.Get("Retry-After"); (wait != "") != (means.retryAfter > 0) {
			t.Errorf("%s: Retry-After %q", code, wait)
		}
		replacing.with = nil
		e.do(order.Cancel{OrderID: e.placed(newTestID(), smallOrder), Partner: "acme", Reason: order.CancelledByPartner})
		again := e.order(key, smallOrder)
		if means.free || means.status >= http.StatusInternalServerError {
			if again.status != http.StatusAccepted || again.header.Get(replayedHeader) != "" {
				t.Errorf("%s kept its key: %d %s", code, again.status, again.body)
			}
			e.ask(http.MethodPost, again.header.Get("Location")+"/cancel", "")
			continue
		}
		if again.status != first.status || again.body != first.body || again.header.Get(replayedHeader) != "true" {
			t.Errorf("%s was not kept: %d %s", code, again.status, again.body)
		}
	}
}

// replaced runs another command than the one it is asked for, if there is one.
type replaced struct {
	eventstore.Executor
	with eventstore.Command
}

func (r *replaced) Execute(ctx context.Context, request eventstore.Request) (eventstore.Outcome, error) {
	if r.with != nil {
		request.Command = r.with
	}
	return r.Executor.Execute(ctx, request)
}

func TestAWriteSideThatHangsIsGivenUp(t *testing.T) {
	e := newEdge(t, func(c *Config) {
		c.Limits = DefaultLimits
		c.Limits.CommandTimeout = time.Second // enough for what does not hang, on any machine
	})
	e.executor.fail(func(ctx context.Context, _ eventstore.Request) error {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", eventstore.ErrOutcomeUnknown, ctx.Err())
	}, nil)
	got := e.order("K", smallOrder)
	is(t, got, 503, CodeOutcomeUnknown)
	if got.header.Get("Retry-After") == "" {
		t.Errorf("%v", got.header)
	}
	e.executor.fail(nil, nil)
	e.placed("K", smallOrder)
}

func TestAParameterThatIsOneIsSentOnce(t *testing.T) {
	e := newEdge(t)
	for _, query := range []string{"limit=1&limit=2", "limit=1&limit=1", "limit=%2B5", "cursor=MS4wLjA&cursor=MS4wLjA", "updatedSince=2026-11-27T12:00:00Z&updatedSince=2026-11-27T12:00:00Z"} {
		is(t, e.ask(http.MethodGet, "/v1/orders?"+query, ""), 422, CodeParameterInvalid)
	}
}

// TestDepthIsNoFaultOfOurs: around the parser's own limit, as a value of every kind and beside good members.
func TestDepthIsNoFaultOfOurs(t *testing.T) {
	e := newEdge(t)
	events := e.events()
	for _, depth := range []int{1000, 9999, 10_000, 10_001, 50_000} {
		lists := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		objects := strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
		for _, nested := range []string{lists, objects} {
			for _, body := range []string{
				nested, strings.Replace(smallOrder, `"A"`, nested, 1), strings.Replace(smallOrder, `"quantity":1`, `"quantity":`+nested, 1), strings.Replace(smallOrder, `{"currency"`, `{"x":`+nested+`,"currency"`, 1),
			} {
				got := e.order(newTestID(), body)
				if problem := got.problem(t); got.status != 422 && problem.Code != CodeJSONMalformed || got.status >= 500 || got.header.Get("Content-Type") != problemMedia {
					t.Errorf("%d levels: %d %.200s", depth, got.status, got.body)
				}
			}
		}
	}
	for _, text := range []string{"-0", "[]", "{}", `""`, `"\u0000"`} {
		for _, member := range []string{`"GBP"`, `"A"`, `1`, `"tok_visa"`, `[{"sku":"A","quantity":1}]`, `{"token":"tok_visa"}`} {
			got := e.order(newTestID(), strings.Replace(smallOrder, ":"+member, ":"+text, 1))
			if got.status != 422 || len(got.problem(t).Errors) == 0 || got.problem(t).Errors[0].Pointer == "" {
				t.Errorf("%s for %s: %d %s", text, member, got.status, got.body)
			}
		}
	}
	if e.events() != events {
		t.Error("refused bodies left events")
	}
}

func TestAWaitIsNeverZeroSeconds(t *testing.T) {
	for wait, want := range map[time.Duration]string{-time.Second: "1", 0: "1", time.Nanosecond: "1", time.Second: "1", time.Second + 1: "2"} {
		if got := seconds(wait); got != want {
			t.Errorf("%s: %s, want %s", wait, got, want)
		}
	}
}

func TestTheSameBodyOnAnotherRouteIsAnotherRequest(t *testing.T) {
	doc := document{canonical: []byte("{}")}
	if doc.fingerprint("POST /v1/orders") == doc.fingerprint("POST /v1/others") {
		t.Error("the route does not count")
	}
}
