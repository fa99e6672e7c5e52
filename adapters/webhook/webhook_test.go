package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"andes/adapters/webhook"
	"andes/commands/order"
	"andes/commands/payment"
	"andes/commands/subscription"
	"andes/eventstore"
	"andes/test/lab/labtest"
	"andes/test/lab/receiver"
	"andes/test/legacytest"
)

const secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

type bench struct {
	*legacytest.Bench
	receiver *receiver.Sim
	log      *bytes.Buffer
	config   webhook.Config
	sender   *webhook.Sender

	mu       sync.Mutex
	handlers map[string]http.Handler // by host; the receiver serves the others
}

func with(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r, err := receiver.New(receiver.Config{Knobs: receiver.Knobs{Secret: secret}})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		b := &bench{Bench: legacytest.New(t), receiver: r, log: &bytes.Buffer{}, handlers: map[string]http.Handler{}}
		b.config = webhook.Config{
			Executor: b.Store, Registry: b.Registry, Subscriptions: b.subscriptions, Order: b.order,
			Log: slog.New(slog.NewJSONHandler(b.log, nil)), Transport: labtest.Transport{Handler: b},
		}
		if b.sender, err = webhook.New(b.config); err != nil {
			t.Fatal(err)
		}
		test(t, b)
		for _, forbidden := range []string{"whsec_", "hunter2", "Ana", "tok_"} {
			if strings.Contains(b.log.String(), forbidden) {
				t.Errorf("%q is in the log: %s", forbidden, b.log)
			}
		}
	})
}

func (b *bench) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	handler, special := b.handlers[r.URL.Host]
	b.mu.Unlock()
	if special {
		handler.ServeHTTP(w, r)
		return
	}
	b.receiver.Handler().ServeHTTP(w, r)
}

func (b *bench) subscriptions(ctx context.Context, partner string) ([]subscription.State, error) {
	kept, err := b.Store.StatesOf(ctx, subscription.Aggregate.Name, partner, 0, 100)
	if err != nil {
		return nil, err
	}
	var found []subscription.State
	for _, record := range kept {
		state, err := subscription.Aggregate.Decode(record.State)
		if err != nil {
			return nil, err
		}
		found = append(found, state)
	}
	return found, nil
}

func (b *bench) order(_ context.Context, id string) (order.State, bool, error) {
	state := b.Order(id)
	return state, state.ID != "", nil
}

func (b *bench) subscribe(id, partner, host string, types ...string) {
	b.T.Helper()
	b.Execute(subscription.Create{ID: id, Partner: partner, URL: "https://" + host + "/webhooks?key=hunter2", Types: types, Secret: secret})
}

func (b *bench) placed(orderID, partner string) eventstore.Record {
	b.T.Helper()
	b.Place(orderID, partner, "19.90", "USD", "tok_visa")
	return b.Last("order.placed")
}

func (b *bench) deliveries() []receiver.Delivery {
	found, _ := b.receiver.DeliveriesAfter(0, 10_000)
	return found
}

func (b *bench) turn(knobs string) { labtest.Turn(b.T, b.receiver.Handler(), knobs) }

// lives makes three orders live through every event that a partner may hear of: 11 in all.
func (b *bench) lives() []eventstore.Record {
	b.T.Helper()
	for _, id := range []string{"o1", "o2", "o3"} {
		b.placed(id, "acme")
		b.RequestCharge(id, "tok_visa")
	}
	approve := func(id string) {
		b.Execute(payment.Report{OrderID: id, Kind: payment.ChargeApproved, ChargeID: "c-" + id, Amount: b.Payment(id).Amount})
	}
	approve("o1")
	b.Confirm("o1")
	b.Execute(order.Ship{OrderID: "o1", Delivered: true})
	b.Execute(payment.Report{OrderID: "o2", Kind: payment.ChargeRejected, ChargeID: "c-o2", Reason: "card_declined"})
	b.Execute(order.Cancel{OrderID: "o2", Reason: order.PaymentRejected})
	approve("o3")
	b.Do(func(u *eventstore.Unit) { payment.RequestRefund(u, "o3") })
	b.Execute(payment.Report{OrderID: "o3", Kind: payment.RefundCompleted, RefundID: "r-o3", Amount: b.Payment("o3").Amount})
	events, err := b.Store.ReadAll(b.T.Context(), 0, 1000)
	if err != nil {
		b.T.Fatal(err)
	}
	return events
}

// checkDelivery gives the delivery's data.
func checkDelivery(t *testing.T, d receiver.Delivery) string {
	t.Helper()
	if !d.Verified || d.Status != 204 || d.CorrelationID != "corr-1" {
		t.Errorf("delivery %+v", d)
	}
	var body struct {
		ID, Type, Time string
		Sequence       int64
		Data           json.RawMessage
	}
	if err := json.Unmarshal(d.Body, &body); err != nil {
		t.Fatal(err)
	}
	if body.ID == "" || body.Sequence < 1 || body.Type != d.Type || body.ID == d.ID {
		t.Errorf("body %s", d.Body)
	}
	if at, err := time.Parse(time.RFC3339Nano, body.Time); err != nil || !at.Equal(time.Now()) {
		t.Errorf("time %s", body.Time)
	}
	for _, forbidden := range []string{"tok_", "Ana", "example.com"} {
		if bytes.Contains(d.Body, []byte(forbidden)) {
			t.Errorf("%q is in the body %s", forbidden, d.Body)
		}
	}
	return string(body.Data)
}

func TestEveryTypeReachesThePartnerSigned(t *testing.T) {
	with(t, func(t *testing.T, b *bench) {
		b.subscribe("s1", "acme", "acme.example", subscription.AllTypes)
		b.subscribe("s2", "globex", "globex.example", subscription.AllTypes)
		for _, record := range b.lives() {
			if err := b.sender.Handle(t.Context(), record); err != nil {
				t.Error(err)
			}
		}
		got := map[string]string{}
		for _, d := range b.deliveries() {
			got[d.Type] = checkDelivery(t, d)
		}
		want := map[string]string{
			"order.placed": `{"orderId":"o3","status":"PENDING_PAYMENT","lines":[{"sku":"USD","quantity":1,"unitPrice":{"amount":"19.90","currency":"USD"},` +
				`"amount":{"amount":"19.90","currency":"USD"}}],"total":{"amount":"19.90","currency":"USD"}}`,
			"order.confirmed":  `{"orderId":"o1","status":"CONFIRMED"}`,
			"order.dispatched": `{"orderId":"o1","status":"DISPATCHED"}`,
			"order.delivered":  `{"orderId":"o1","status":"DELIVERED"}`,
			"order.cancelled":  `{"orderId":"o2","status":"CANCELLED","reason":"PAYMENT_REJECTED"}`,
			"payment.approved": `{"orderId":"o3","chargeId":"c-o3","amount":{"amount":"19.90","currency":"USD"}}`,
			"payment.rejected": `{"orderId":"o2","reason":"card_declined","chargeId":"c-o2"}`,
			"payment.refunded": `{"orderId":"o3","refundId":"r-o3","amount":{"amount":"19.90","currency":"USD"}}`,
		}
		for _, name := range subscription.Types {
			if got[name] != want[name] {
				t.Errorf("%s told %s, want %s", name, got[name], want[name])
			}
		}
		if n := len(b.deliveries()); n != 11 {
			t.Errorf("%d deliveries, want those of 11 events to one of two partners", n)
		}
	})
}

func TestOnlyWhatWasSubscribedToIsDelivered(t *testing.T) {
	with(t, func(t *testing.T, b *bench) {
		b.subscribe("s1", "acme", "acme.example", "order.confirmed")
		b.placed("o1", "acme")
		b.Confirm("o1")
		for _, name := range []string{"order.placed", "order.confirmed", "order.registration_requested", "stock.reserved"} {
			if err := b.sender.Handle(t.Context(), b.Last(name)); err != nil {
				t.Error(err)
			}
		}
		if got := b.deliveries(); len(got) != 1 || got[0].Type != "order.confirmed" {
			t.Errorf("delivered %+v", got)
		}
	})
}

// again handles the record once more with the progress that the failure left, as the retry topics do.
func (b *bench) again(ctx context.Context, record eventstore.Record, failure error) error {
	return b.sender.Handle(eventstore.ContextWithProgress(ctx, eventstore.ProgressOf(failure)), record)
}

func TestAttemptsHaveOneIDAndTheirOwnTimeAndSignature(t *testing.T) {
	with(t, func(t *testing.T, b *bench) {
		b.subscribe("s1", "acme", "acme.example", subscription.AllTypes)
		b.subscribe("s2", "acme", "acme.example", subscription.AllTypes)
		record := b.placed("o1", "acme")
		b.turn(`{"status":500}`)
		err := b.sender.Handle(t.Context(), record)
		time.Sleep(10 * time.Second)
		err = b.again(t.Context(), record, err)
		b.turn(`{"status":200}`)
		time.Sleep(time.Minute)
		if err = b.again(t.Context(), record, err); err != nil {
			t.Fatal(err)
		}
		if err := b.sender.Handle(t.Context(), record); err != nil { // delivered again after a crash, say
			t.Fatal(err)
		}
		byID := map[string][]receiver.Delivery{}
		for _, d := range b.deliveries() {
			byID[d.ID] = append(byID[d.ID], d)
		}
		if len(byID) != 2 {
			t.Errorf("%d ids, want one per subscription", len(byID))
		}
		for id, tries := range byID {
			statuses := []int{}
			for _, d := range tries {
				statuses = append(statuses, d.Status)
				if !d.Verified || !bytes.Equal(d.Body, tries[0].Body) {
					t.Errorf("%s: delivery %+v", id, d)
				}
			}
			if !slices.Equal(statuses, []int{500, 500, 200, 200}) || tries[0].Timestamp == tries[2].Timestamp {
				t.Errorf("%s was answered %v, first at %s, last at %s", id, statuses, tries[0].Timestamp, tries[2].Timestamp)
			}
		}
	})
}

func TestAnEventComesAgainOnlyToThoseWhoHaveNotGotIt(t *testing.T) {
	with(t, func(t *testing.T, b *bench) {
		b.subscribe("fine", "acme", "fine.example", subscription.AllTypes)
		b.subscribe("failing", "acme", "failing.example", subscription.AllTypes)
		calls := map[string]int{}
		answers := func(name string, status func(calls int) int) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				b.mu.Lock()
				calls[name]++
				made := calls[name]
				b.mu.Unlock()
				w.WriteHeader(status(made))
			}
		}
		b.handlers["fine.example"] = answers("fine", func(int) int { return http.StatusOK })
		b.handlers["failing.example"] = answers("failing", func(calls int) int {
			if calls < 3 {
				return http.StatusInternalServerError
			}
			return http.StatusOK
		})
		record := b.placed("o1", "acme")
		err := b.sender.Handle(t.Context(), record)
		for range 2 {
			if eventstore.Classify(err) != eventstore.Transient || err == nil {
				t.Fatalf("error %v is %s, want transient", err, eventstore.Classify(err))
			}
			err = b.again(t.Context(), record, err)
		}
		if err != nil || calls["fine"] != 1 || calls["failing"] != 3 {
			t.Errorf("error %v, calls %v", err, calls)
		}
	})
}

// memory remembers deliveries, unless it fails.
type memory struct {
	made map[string]bool
	err  error
}

func (m *memory) Made(context.Context, []string) (map[string]bool, error) { return m.made, m.err }

func (m *memory) Remember(_ context.Context, ids []string) error {
	for _, id := range ids {
		m.made[id] = true
	}
	return m.err
}

func TestAnEventThatWasDeliveredIsNotToldAgain(t *testing.T) {
	with(t, func(t *testing.T, b *bench) {
		remembered := &memory{made: map[string]bool{}}
		b.config.Deliveries = remembered
		var err error
		if b.sender, err = webhook.New(b.config); err != nil {
			t.Fatal(err)
		}
		b.subscribe("s1", "acme", "acme.example", subscription.AllTypes)
		record := b.placed("o1", "acme")
		b.turn(`{"status":500}`)
		if err := b.sender.Handle(t.Context(), record); err == nil {
			t.Error("a delivery that failed is none")
		}
		b.turn(`{"status":200}`)
		for range 3 { // its topic is published again, say
			if err := b.sender.Handle(t.Context(), record); err != nil {
				t.Fatal(err)
			}
		}
		b.subscribe("s2", "acme", "acme.example", subscription.AllTypes)
		if err := b.sender.Handle(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if n := len(b.deliveries()); n != 3 {
			t.Errorf("%d deliveries, want the one that failed and one to each subscription", n)
		}
		remembered.err = fmt.Errorf("%w: away", eventstore.ErrUnavailable)
		if err := b.sender.Handle(t.Context(), record); eventstore.Classify(err) != eventstore.Unavailable {
			t.Errorf("while it can't be told what was delivered: %v", err)
		}
	})
}

func TestOneEndpointThatCanNotBeCalledDoesNotEndTheTriesForAnother(t *testing.T) {
	with(t, func(t *testing.T, b *bench) {
		b.Execute(subscription.Create{ID: "insecure", Partner: "acme", URL: "http://acme.example/webhooks", Types: []string{"*"}, Secret: secret, AllowInsecure: true})
		b.subscribe("failing", "acme", "failing.example", subscription.AllTypes)
		b.turn(`{"status":500}`)
		record := b.placed("o1", "acme")
		err := b.sender.Handle(t.Context(), record)
		if err == nil || eventstore.Classify(err) != eventstore.Transient {
			t.Errorf("error %v is %s, want transient", err, eventstore.Classify(err))
		}
		b.turn(`{"status":200}`)
		if err = b.again(t.Context(), record, err); err == nil || eventstore.Classify(err) != eventstore.Permanent {
			t.Errorf("error %v is %s, want permanent", err, eventstore.Classify(err))
		}
	})
}

func TestAnAttemptThatFailsIsLeftToTheRetryTopics(t *testing.T) {
	faults := map[string]string{
		"it answers 500":    `{"status":500}`,
		"it answers 302":    `{"status":302}`,
		"it answers 404":    `{"status":404}`,
		"it hangs":          `{"hang":true}`,
		"it cuts":           `{"outage":true}`,
		"it changed secret": `{"secret":"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`,
	}
	for name, knobs := range faults {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, b *bench) {
				b.subscribe("s1", "acme", "acme.example", subscription.AllTypes)
				record := b.placed("o1", "acme")
				b.turn(knobs)
				begun := time.Now()
				err := b.sender.Handle(t.Context(), record)
				if err == nil || eventstore.Classify(err) != eventstore.Transient {
					t.Errorf("error %v is %s, want transient", err, eventstore.Classify(err))
				}
				if took := time.Since(begun); took > webhook.DefaultDeadline || len(b.deliveries()) > 1 {
					t.Errorf("took %s and %d attempts", took, len(b.deliveries()))
				}
				if strings.Contains(err.Error(), "hunter2") {
					t.Errorf("the URL is in the error: %v", err)
				}
			})
		})
	}
}

func TestADeadPartnerDoesNotHoldUpTheOthers(t *testing.T) {
	with(t, func(t *testing.T, b *bench) {
		b.subscribe("dead", "acme", "dead.example", subscription.AllTypes)
		b.subscribe("fine", "globex", "fine.example", subscription.AllTypes)
		b.handlers["dead.example"] = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		})
		const lanes, orders = 16, 100
		queue := make(chan eventstore.Record, 2*orders)
		for i := range orders {
			queue <- b.placed(fmt.Sprint("a", i), "acme")
			queue <- b.placed(fmt.Sprint("g", i), "globex")
		}
		close(queue)
		begun := time.Now()
		var failed int
		var mu sync.Mutex
		var workers sync.WaitGroup
		for range lanes {
			workers.Go(func() {
				for record := range queue {
					if err := b.sender.Handle(t.Context(), record); err != nil {
						mu.Lock()
						failed++
						mu.Unlock()
					}
				}
			})
		}
		workers.Wait()
		if got := b.receiver.Counters(); got.Accepted != orders || got.Duplicates != 0 {
			t.Errorf("the healthy partner got %+v", got)
		}
		if failed != orders {
			t.Errorf("%d failed, want those of the dead endpoint", failed)
		}
		if took := time.Since(begun); took > 30*time.Second {
			t.Errorf("200 events took %s", took)
		}
		// It comes back, and after the pause it gets its events again.
		delete(b.handlers, "dead.example")
		time.Sleep(time.Minute)
		if err := b.sender.Handle(t.Context(), b.placed("a-last", "acme")); err != nil {
			t.Error(err)
		}
	})
}

func TestGoneUnsubscribes(t *testing.T) {
	with(t, func(t *testing.T, b *bench) {
		b.subscribe("s1", "acme", "acme.example", subscription.AllTypes)
		record := b.placed("o1", "acme")
		b.turn(`{"status":410}`)
		for range 2 {
			if err := b.sender.Handle(t.Context(), record); err != nil {
				t.Error(err)
			}
		}
		if n := len(b.deliveries()); n != 1 {
			t.Errorf("%d calls", n)
		}
		if got := legacytest.StateOf(b.Bench, subscription.Aggregate, "s1"); !got.Removed {
			t.Errorf("the subscription is %+v", got)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	cases := map[string]struct {
		retryAfter string
		pause      time.Duration
	}{
		"a pause is kept":                          {"6", 6 * time.Second},
		"a long one too":                           {"120", 2 * time.Minute},
		"one beyond reason is cut":                 {"999999999", time.Hour},
		"one without a meaning is as none at all":  {"soon", 0},
		"one that is negative is as none at all":   {"-5", 0},
		"one beyond all numbers is as none at all": {"99999999999999999999", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, b *bench) {
				b.subscribe("s1", "acme", "acme.example", subscription.AllTypes)
				calls := 0
				b.handlers["acme.example"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if calls++; calls == 1 {
						w.Header().Set("Retry-After", c.retryAfter)
						w.WriteHeader(http.StatusTooManyRequests)
					}
				})
				record := b.placed("o1", "acme")
				err := b.sender.Handle(t.Context(), record)
				if err == nil || eventstore.Classify(err) != eventstore.Transient {
					t.Fatalf("error %v is %s", err, eventstore.Classify(err))
				}
				if c.pause > 0 {
					time.Sleep(c.pause - time.Millisecond)
					if err := b.again(t.Context(), record, err); err == nil || calls != 1 {
						t.Errorf("it was called %d times before its pause was over, %v", calls, err)
					}
					time.Sleep(time.Millisecond)
				}
				if err := b.again(t.Context(), record, err); err != nil || calls != 2 {
					t.Errorf("%d calls, %v", calls, err)
				}
			})
		})
	}
}

func TestAStopIsNoFailure(t *testing.T) {
	with(t, func(t *testing.T, b *bench) {
		b.subscribe("s1", "acme", "acme.example", subscription.AllTypes)
		record := b.placed("o1", "acme")
		b.turn(`{"hang":true}`)
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { stop(errors.New("stopping")) })
		if err := b.sender.Handle(ctx, record); eventstore.Classify(err) != eventstore.Shutdown {
			t.Errorf("error %v is %s", err, eventstore.Classify(err))
		}
	})
}

func TestProductionCallsHTTPSOnly(t *testing.T) {
	with(t, func(t *testing.T, b *bench) {
		b.Execute(subscription.Create{ID: "s1", Partner: "acme", URL: "http://acme.example/webhooks", Types: []string{"*"}, Secret: secret, AllowInsecure: true})
		if err := b.sender.Handle(t.Context(), b.placed("o1", "acme")); eventstore.Classify(err) != eventstore.Permanent || err == nil {
			t.Errorf("error %v", err)
		}
		if n := len(b.deliveries()); n != 0 {
			t.Errorf("%d calls", n)
		}
	})
}

func TestAnotherImplementationVerifiesUnicode(t *testing.T) {
	with(t, func(t *testing.T, b *bench) {
		b.subscribe("s1", "acme", "acme.example", subscription.AllTypes)
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		verified := false
		b.handlers["acme.example"] = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			var body bytes.Buffer
			if _, err := body.ReadFrom(r.Body); err != nil {
				t.Error(err)
			}
			verified = verifier.Verify(body.Bytes(), r.Header) == nil && strings.Contains(body.String(), "tarjeta ñ 日本")
			body.WriteByte(' ')
			if verifier.Verify(body.Bytes(), r.Header) == nil {
				t.Error("another body passes too")
			}
		})
		b.placed("o1", "acme")
		b.RequestCharge("o1", "tok_visa")
		b.Execute(payment.Report{OrderID: "o1", Kind: payment.ChargeRejected, ChargeID: "c", Reason: "tarjeta ñ 日本"})
		if err := b.sender.Handle(t.Context(), b.Last("payment.rejected")); err != nil || !verified {
			t.Errorf("verified %v, %v", verified, err)
		}
	})
}
