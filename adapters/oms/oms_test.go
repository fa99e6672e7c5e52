package oms_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"andes/adapters/oms"
	"andes/commands/order"
	"andes/eventstore"
	"andes/test/lab/labtest"
	sim "andes/test/lab/oms"
	"andes/test/legacytest"
)

type bench struct {
	*legacytest.Bench
	registry *sim.Sim
	handler  http.Handler // may be replaced by a test
	adapter  *oms.Adapter
}

func with(t *testing.T, knobs sim.Knobs, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := sim.New(sim.Config{Knobs: knobs})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b := &bench{Bench: legacytest.New(t), registry: s, handler: s.Handler()}
		b.restart()
		test(t, b)
	})
}

// restart is another process, which remembers nothing.
func (b *bench) restart() {
	b.T.Helper()
	adapter, err := oms.New(oms.Config{
		URL:      "http://oms",
		Caller:   b.Guard("oms", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.handler.ServeHTTP(w, r) })),
		Executor: b.Store, Reader: b.Store, Registry: b.Registry, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.T.Fatal(err)
	}
	b.adapter = adapter
}

func (b *bench) confirmed(orderID string) eventstore.Record {
	b.Place(orderID, "acme", "19.90", "USD", "tok")
	return b.Confirm(orderID)
}

// registrations are the POSTs that the OMS accepted.
func (b *bench) registrations() (orders []sim.Registration) {
	b.T.Helper()
	page := labtest.Do[struct{ Items []sim.Registration }](b.T, b.registry.Handler(), "GET", "/_lab/orders?after=0&limit=1000", "", 200)
	return page.Items
}

func (b *bench) expectRegisteredOnce(orderID string) {
	b.T.Helper()
	if got := b.registrations(); len(got) != 1 || got[0].Ref != orderID {
		b.T.Errorf("the OMS has %+v, want one registration of %s", got, orderID)
	}
	if state := b.Order(orderID); state.OMSSync != order.OMSRegistered || state.OMSID == "" {
		b.T.Errorf("the order is %+v, want registered", state)
	}
	if n := len(b.Events("order.registered")); n != 1 {
		b.T.Errorf("%d registrations were recorded", n)
	}
}

func TestAConfirmedOrderIsRegistered(t *testing.T) {
	with(t, sim.Knobs{}, func(t *testing.T, b *bench) {
		record := b.confirmed("o1")
		for range 3 { // deliveries of the same command
			if err := b.adapter.Handle(t.Context(), record); err != nil {
				t.Fatal(err)
			}
		}
		b.expectRegisteredOnce("o1")
		got := b.registrations()[0]
		if got.Total != "19.90" || got.Currency != "USD" || got.Partner != "acme" || got.Lines[0].UnitPrice != "19.90" {
			t.Errorf("posted as %+v", got.Order)
		}
		if meta := b.Last("order.registered").Meta; meta.CorrelationID != "corr-1" || meta.CausationID != record.ID {
			t.Errorf("recorded with %+v", meta)
		}
	})
}

func TestAnOrderWhoseAnswerIsLostIsRegisteredOnce(t *testing.T) {
	// The first POST does its work and then: nothing, or a cut connection, or an answer cut short.
	endings := map[string]func(w http.ResponseWriter, r *http.Request){
		"create, then hang": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"create, then cut":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"create, then 502":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) },
		"create, then half an answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(201)
			fmt.Fprint(w, `{"omsId":"OMS-1","re`)
		},
	}
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			with(t, sim.Knobs{}, func(t *testing.T, b *bench) {
				var posts atomic.Int32
				b.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost && posts.Add(1) == 1 {
						labtest.Call(r.Context(), b.registry.Handler(), r.Method, r.URL.Path, bodyOf(t, r))
						end(w, r)
						return
					}
					b.registry.Handler().ServeHTTP(w, r)
				})
				record := b.confirmed("o1")
				err := b.adapter.Handle(t.Context(), record)
				if !errors.Is(err, oms.ErrUnsettled) || eventstore.Classify(err) != eventstore.Transient {
					t.Fatalf("error %v (%s), want unsettled and transient", err, eventstore.Classify(err))
				}
				if posts.Load() != 1 {
					t.Errorf("the POST was sent %d times", posts.Load())
				}
				if err := b.adapter.Handle(t.Context(), record); err != nil {
					t.Fatal(err)
				}
				if posts.Load() != 1 {
					t.Errorf("the POST was sent %d times", posts.Load())
				}
				b.expectRegisteredOnce("o1")
			})
		})
	}
}

func bodyOf(t *testing.T, r *http.Request) string {
	t.Helper()
	var body json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		t.Error(err)
	}
	return string(body)
}

func TestASlowRegistrationIsNotPostedAgainWhileItMayBeAtWork(t *testing.T) {
	with(t, sim.Knobs{}, func(t *testing.T, b *bench) {
		// The OMS commits 10 s after the POST came, although its client has left.
		var posts atomic.Int32
		b.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				posts.Add(1)
				body := bodyOf(t, r)
				time.AfterFunc(10*time.Second, func() {
					labtest.Call(t.Context(), b.registry.Handler(), http.MethodPost, "/orders", body)
				})
				<-r.Context().Done()
				return
			}
			b.registry.Handler().ServeHTTP(w, r)
		})
		record := b.confirmed("o1")
		for range 3 { // at once, as a chain of immediate tries does
			if err := b.adapter.Handle(t.Context(), record); !errors.Is(err, oms.ErrUnsettled) {
				t.Errorf("error %v", err)
			}
		}
		time.Sleep(time.Minute)
		if err := b.adapter.Handle(t.Context(), record); err != nil {
			t.Error(err)
		}
		b.expectRegisteredOnce("o1")
	})
}

// unsent fails like a guard that could not send.
type unsent struct{}

func (unsent) Error() string        { return "no connection" }
func (unsent) MayHaveArrived() bool { return false }

// firstPost is a Caller whose first POST is never sent.
type firstPost struct {
	oms.Caller
	tried *atomic.Bool
}

func (f firstPost) Call(r *http.Request, answer any) (int, error) {
	if r.Method == http.MethodPost && f.tried.CompareAndSwap(false, true) {
		return 0, unsent{}
	}
	return f.Caller.Call(r, answer)
}

func TestAPostThatWasNeverSentIsSentAtOnceTheNextTime(t *testing.T) {
	with(t, sim.Knobs{}, func(t *testing.T, b *bench) {
		record := b.confirmed("o1")
		adapter, err := oms.New(oms.Config{
			URL: "http://oms", Caller: firstPost{b.Guard("oms", b.handler), new(atomic.Bool)},
			Executor: b.Store, Reader: b.Store, Registry: b.Registry, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := adapter.Handle(t.Context(), record); err == nil || errors.Is(err, oms.ErrUnsettled) {
			t.Errorf("error %v", err)
		}
		if err := adapter.Handle(t.Context(), record); err != nil {
			t.Error(err)
		}
		b.expectRegisteredOnce("o1")
	})
}

func TestAnOutageIsOutlastedAndTheOrderRegisteredOnce(t *testing.T) {
	with(t, sim.Knobs{}, func(t *testing.T, b *bench) {
		record := b.confirmed("o1")
		labtest.Turn(t, b.registry.Handler(), `{"outage":true}`)
		for range 5 {
			if err := b.adapter.Handle(t.Context(), record); eventstore.Classify(err) != eventstore.Transient {
				t.Errorf("error %v is not transient", err)
			}
			time.Sleep(time.Minute)
		}
		labtest.Turn(t, b.registry.Handler(), `{"outage":false}`)
		if err := b.adapter.Handle(t.Context(), record); err != nil {
			t.Error(err)
		}
		b.expectRegisteredOnce("o1")
	})
}

func TestHalfOfTheAnswersLost(t *testing.T) {
	with(t, sim.Knobs{}, func(t *testing.T, b *bench) {
		labtest.Turn(t, b.registry.Handler(), `{"responseLostRate":0.5,"failureRate":0.2}`)
		records := map[string]eventstore.Record{}
		for i := range 40 {
			id := fmt.Sprint("o", i)
			records[id] = b.confirmed(id)
		}
		for round := 0; len(records) > 0 && round < 100; round++ {
			for id, record := range records {
				if err := b.adapter.Handle(t.Context(), record); err == nil {
					delete(records, id)
				}
			}
			if round%3 == 0 {
				b.restart()
			}
			time.Sleep(time.Minute)
		}
		posted := map[string]int{}
		for _, r := range b.registrations() {
			posted[r.Ref]++
		}
		for i := range 40 {
			if id := fmt.Sprint("o", i); posted[id] != 1 || b.Order(id).OMSSync != order.OMSRegistered {
				t.Errorf("%s: %d registrations, %s", id, posted[id], b.Order(id).OMSSync)
			}
		}
	})
}

func TestADuplicateThatTheOMSNoticesIsReadBack(t *testing.T) {
	with(t, sim.Knobs{Dedupe: true}, func(t *testing.T, b *bench) {
		record := b.confirmed("o1")
		var gets atomic.Int32
		b.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && gets.Add(1) == 1 {
				// It comes in by another way right after it was asked for.
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, `{"error":"no such order"}`)
				labtest.Call(r.Context(), b.registry.Handler(), "POST", "/orders",
					`{"ref":"o1","partner":"acme","currency":"USD","total":"19.90","lines":[{"sku":"USD","quantity":1,"unitPrice":"19.90"}]}`)
				return
			}
			b.registry.Handler().ServeHTTP(w, r)
		})
		if err := b.adapter.Handle(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		b.expectRegisteredOnce("o1")
	})
}

func TestRefusals(t *testing.T) {
	cases := map[string]struct {
		status int
		class  eventstore.Class
	}{
		"a malformed order goes to the DLQ":               {400, eventstore.Permanent},
		"an order that can't be processed too":            {422, eventstore.Permanent},
		"missing access concerns every order":             {401, eventstore.Transient},
		"so does a wrong address":                         {405, eventstore.Transient},
		"a redirect":                                      {302, eventstore.Transient},
		"too many requests may pass":                      {429, eventstore.Transient},
		"an answer that says done without an id may pass": {201, eventstore.Transient},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			with(t, sim.Knobs{}, func(t *testing.T, b *bench) {
				record := b.confirmed("o1")
				b.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost {
						w.Header().Set("Content-Type", "application/json")
						w.WriteHeader(c.status)
						fmt.Fprint(w, `{}`)
						return
					}
					b.registry.Handler().ServeHTTP(w, r)
				})
				if err := b.adapter.Handle(t.Context(), record); err == nil || eventstore.Classify(err) != c.class {
					t.Errorf("error %v is %s, want %s", err, eventstore.Classify(err), c.class)
				}
			})
		})
	}
}

func TestACancelledOrderIsNotRegistered(t *testing.T) {
	with(t, sim.Knobs{}, func(t *testing.T, b *bench) {
		record := b.confirmed("o1")
		b.Execute(order.Cancel{OrderID: "o1", Reason: order.CancelledByPartner})
		if err := b.adapter.Handle(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if got := b.registrations(); len(got) != 0 {
			t.Errorf("registered: %+v", got)
		}
	})
}

func TestACommandAboutAnotherOrderIsPermanentlyRefused(t *testing.T) {
	with(t, sim.Knobs{}, func(t *testing.T, b *bench) {
		record := b.confirmed("o1")
		record.Stream.Key = "o2"
		if err := b.adapter.Handle(t.Context(), record); eventstore.Classify(err) != eventstore.Permanent {
			t.Errorf("error %v", err)
		}
		if got := b.registrations(); len(got) != 0 {
			t.Errorf("registered: %+v", got)
		}
	})
}

func TestAForeignCommandIsPermanentlyRefused(t *testing.T) {
	with(t, sim.Knobs{}, func(t *testing.T, b *bench) {
		b.confirmed("o1")
		if err := b.adapter.Handle(t.Context(), b.Last("order.confirmed")); eventstore.Classify(err) != eventstore.Permanent {
			t.Errorf("error %v", err)
		}
	})
}

// requestCancellation gives the command to the OMS.
func (b *bench) requestCancellation() eventstore.Record {
	b.T.Helper()
	b.Execute(order.Cancel{OrderID: "o1", Reason: order.CancelledByPartner})
	return b.Last("order.cancellation_requested")
}

func (b *bench) expectCancelled() {
	b.T.Helper()
	if state := b.Order("o1"); state.Status != order.Cancelled || state.Reason != order.CancelledByPartner || state.Cancellation != "" {
		b.T.Errorf("the order is %+v, want cancelled", state)
	}
	if n := len(b.Events("order.cancelled")); n != 1 {
		b.T.Errorf("it was cancelled %d times", n)
	}
}

func TestARegisteredOrderIsCancelledOnceItIsOffTheRegistry(t *testing.T) {
	with(t, sim.Knobs{}, func(t *testing.T, b *bench) {
		if err := b.adapter.Handle(t.Context(), b.confirmed("o1")); err != nil {
			t.Fatal(err)
		}
		record := b.requestCancellation()
		if state := b.Order("o1"); state.Status != order.Confirmed || state.Cancellation != order.CancellationRequested {
			t.Errorf("before the OMS answers the order is %+v", state)
		}
		for range 2 { // a redelivery is harmless
			if err := b.adapter.Handle(t.Context(), record); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.registrations(); len(got) != 1 || got[0].Status != "cancelled" {
			t.Errorf("registrations %+v", got)
		}
		b.expectCancelled()
	})
}

// A POST from before the cancellation may still be at work, also one of a process that is gone.
func TestACancellationOfAnUnregisteredOrderWaitsUntilItCannotAppear(t *testing.T) {
	with(t, sim.Knobs{}, func(t *testing.T, b *bench) {
		b.confirmed("o1")
		record := b.requestCancellation()
		for range 2 {
			if err := b.adapter.Handle(t.Context(), record); !errors.Is(err, oms.ErrUnsettled) {
				t.Errorf("error %v, want unsettled", err)
			}
			b.restart()
		}
		time.Sleep(oms.DefaultSettle)
		if err := b.adapter.Handle(t.Context(), record); err != nil {
			t.Error(err)
		}
		b.expectCancelled()
	})
}

func TestACancellationThatTheWarehouseOvertookIsRefused(t *testing.T) {
	with(t, sim.Knobs{}, func(t *testing.T, b *bench) {
		if err := b.adapter.Handle(t.Context(), b.confirmed("o1")); err != nil {
			t.Fatal(err)
		}
		record := b.requestCancellation()
		b.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusConflict)
				return
			}
			b.registry.Handler().ServeHTTP(w, r)
		})
		if err := b.adapter.Handle(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if state := b.Order("o1"); state.Status != order.Confirmed || state.Cancellation != order.CancellationRefused {
			t.Errorf("the order is %+v, want it to go on", state)
		}
	})
}
