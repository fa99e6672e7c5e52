package sagas_test

import (
	"slices"
	"testing"
	"time"

	"andes/commands/money"
	"andes/commands/order"
	"andes/commands/payment"
	"andes/commands/reservation"
	"andes/eventstore"
	"andes/sagas"
)

// ends is where an order and everything of it ends.
type ends struct {
	phase       sagas.Phase
	order       order.Status
	reason      order.Reason
	payment     payment.Status
	reservation reservation.Status
	waiting     []string
}

// stories are what may happen to an order, step by step. Records are delivered only where a step says so.
var stories = map[string]struct {
	steps func(t *testing.T, w *world)
	ends  ends
}{
	"the happy path": {
		func(t *testing.T, w *world) {
			w.deliverAll(t)
			w.report(t, payment.ChargeApproved)
			w.deliverAll(t)
			w.register(t)
			w.deliverAll(t)
			w.ship(t, false)
			w.deliverAll(t)
			w.ship(t, true)
		},
		ends{sagas.Completed, order.Delivered, "", payment.Approved, reservation.Consumed, nil},
	},
	"goods are dispatched and delivered before the registration is known": {
		func(t *testing.T, w *world) {
			w.deliverAll(t)
			w.report(t, payment.ChargeApproved)
			w.deliverAll(t)
			w.ship(t, true)
			w.register(t)
		},
		ends{sagas.Completed, order.Delivered, "", payment.Approved, reservation.Consumed, nil},
	},
	"the payment is rejected": {
		func(t *testing.T, w *world) {
			w.deliverAll(t)
			w.report(t, payment.ChargeRejected)
		},
		ends{sagas.Closed, order.Cancelled, order.PaymentRejected, payment.Rejected, reservation.Released, nil},
	},
	"the payment never comes": {
		func(t *testing.T, w *world) {
			w.deliverAll(t)
			w.wait(t, 15*time.Minute)
		},
		ends{sagas.Settling, order.Cancelled, order.PaymentExpired, payment.Requested, reservation.Expired, []string{"payment-inquiry"}},
	},
	"the payment is rejected after it expired": {
		func(t *testing.T, w *world) {
			w.deliverAll(t)
			w.wait(t, 15*time.Minute)
			w.report(t, payment.ChargeRejected)
		},
		ends{sagas.Closed, order.Cancelled, order.PaymentExpired, payment.Rejected, reservation.Expired, nil},
	},
	"the payment is approved after it expired": {
		func(t *testing.T, w *world) {
			w.deliverAll(t)
			w.wait(t, 15*time.Minute)
			w.report(t, payment.ChargeApproved)
		},
		ends{sagas.Refunding, order.Cancelled, order.PaymentExpired, payment.RefundRequested, reservation.Expired, []string{"payment-inquiry"}},
	},
	"the refund is completed": {
		func(t *testing.T, w *world) {
			w.deliverAll(t)
			w.wait(t, 15*time.Minute)
			w.report(t, payment.ChargeApproved)
			w.deliverAll(t)
			w.report(t, payment.RefundCompleted)
			w.report(t, payment.RefundCompleted)
		},
		ends{sagas.Closed, order.Cancelled, order.PaymentExpired, payment.Refunded, reservation.Expired, nil},
	},
	"the partner cancels before anything happened": {
		func(t *testing.T, w *world) { _ = w.cancel(t) },
		ends{sagas.Closed, order.Cancelled, order.CancelledByPartner, "", reservation.Released, nil},
	},
	"the partner cancels while the gateway thinks": {
		func(t *testing.T, w *world) {
			w.deliverAll(t)
			_ = w.cancel(t)
		},
		ends{sagas.Settling, order.Cancelled, order.CancelledByPartner, payment.Requested, reservation.Released, []string{"payment-inquiry"}},
	},
	"the partner's cancellation and the approval cross, the approval is seen first": {
		func(t *testing.T, w *world) {
			w.deliverAll(t)
			_ = w.cancel(t)
			w.report(t, payment.ChargeApproved)
			w.deliverAll(t, "payment")
		},
		ends{sagas.Refunding, order.Cancelled, order.CancelledByPartner, payment.RefundRequested, reservation.Released, []string{"payment-inquiry"}},
	},
	"the partner's cancellation and the approval cross, the cancellation is seen first": {
		func(t *testing.T, w *world) {
			w.deliverAll(t)
			w.report(t, payment.ChargeApproved)
			_ = w.cancel(t)
			w.deliverAll(t, "order")
		},
		ends{sagas.Refunding, order.Cancelled, order.CancelledByPartner, payment.RefundRequested, reservation.Released, []string{"payment-inquiry"}},
	},
	"the partner cancels a confirmed order and the OMS has not answered": {
		func(t *testing.T, w *world) {
			w.deliverAll(t)
			w.report(t, payment.ChargeApproved)
			w.deliverAll(t)
			_ = w.cancel(t)
		},
		ends{sagas.Registering, order.Confirmed, "", payment.Approved, reservation.Held, nil},
	},
	"the partner cancels a registered order and the warehouse is faster": {
		func(t *testing.T, w *world) {
			w.deliverAll(t)
			w.report(t, payment.ChargeApproved)
			w.deliverAll(t)
			w.register(t)
			_ = w.cancel(t)
			w.withdraw(t, false)
			w.deliverAll(t)
			w.ship(t, true)
		},
		ends{sagas.Completed, order.Delivered, "", payment.Approved, reservation.Consumed, nil},
	},
	"the partner cancels a confirmed order": {
		func(t *testing.T, w *world) {
			w.deliverAll(t)
			w.report(t, payment.ChargeApproved)
			w.deliverAll(t)
			_ = w.cancel(t)
			w.withdraw(t, true)
		},
		ends{sagas.Refunding, order.Cancelled, order.CancelledByPartner, payment.RefundRequested, reservation.Released, []string{"payment-inquiry"}},
	},
	"the partner cancels a registered order": {
		func(t *testing.T, w *world) {
			w.deliverAll(t)
			w.report(t, payment.ChargeApproved)
			w.deliverAll(t)
			w.register(t)
			w.deliverAll(t)
			_ = w.cancel(t)
			w.withdraw(t, true)
			w.deliverAll(t)
			w.report(t, payment.RefundCompleted)
		},
		ends{sagas.Closed, order.Cancelled, order.CancelledByPartner, payment.Refunded, reservation.Released, nil},
	},
	"the gateway approves what it rejected": {
		func(t *testing.T, w *world) {
			w.deliverAll(t)
			w.report(t, payment.ChargeRejected)
			w.deliverAll(t)
			w.report(t, payment.ChargeApproved)
		},
		ends{sagas.Refunding, order.Cancelled, order.PaymentRejected, payment.RefundRequested, reservation.Released, []string{"payment-inquiry"}},
	},
	"the gateway approves what it rejected before anyone heard of it": {
		func(t *testing.T, w *world) {
			w.deliverAll(t)
			w.report(t, payment.ChargeRejected)
			w.report(t, payment.ChargeApproved)
			w.deliverAll(t)
			w.report(t, payment.RefundCompleted)
		},
		ends{sagas.Closed, order.Cancelled, order.PaymentRejected, payment.Refunded, reservation.Released, nil},
	},
	"the gateway rejects what it approved": {
		func(t *testing.T, w *world) {
			w.deliverAll(t)
			w.report(t, payment.ChargeApproved)
			w.report(t, payment.ChargeRejected)
		},
		ends{sagas.Registering, order.Confirmed, "", payment.Approved, reservation.Held, nil},
	},
	"the gateway approves another amount": {
		func(t *testing.T, w *world) {
			w.deliverAll(t)
			w.Do(t, payment.Report{OrderID: orderID, Kind: payment.ChargeApproved, ChargeID: "c-1", Amount: money.Money{Minor: 1, Currency: "GBP"}})
		},
		ends{sagas.AwaitingPayment, order.PendingPayment, "", payment.Requested, reservation.Held, []string{"payment-expiry", "payment-inquiry"}},
	},
}

func TestAFulfilmentEndsWhereItsStoryLeads(t *testing.T) {
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			story.steps(t, w)
			w.deliverAll(t)
			story.ends.check(t, w)
		})
	}
}

// Every record comes at least once; here all come again, in each order that two topics allow.
func TestRedeliveredEventsChangeNothing(t *testing.T) {
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			for _, first := range topics {
				w := newWorld(t)
				story.steps(t, w)
				w.deliverAll(t)
				before := len(w.Log(t))
				for _, topic := range topics {
					w.redeliver(topic, 0)
				}
				w.deliverAll(t, first)
				if after := w.Log(t); len(after) != before {
					t.Errorf("%s redelivered first: %s was appended", first, after[before].Type)
				}
				story.ends.check(t, w)
			}
		})
	}
}

func (e ends) check(t *testing.T, w *world) {
	t.Helper()
	o := w.order(t)
	got := ends{w.fulfilment(t).Phase, o.Status, o.Reason, w.payment(t).Status, w.reservation(t).Status, w.waiting(t)}
	if !slices.Equal(got.waiting, e.waiting) {
		t.Errorf("waiting for %v, want %v", got.waiting, e.waiting)
	}
	got.waiting, e.waiting = nil, nil
	if got.phase != e.phase || got.order != e.order || got.reason != e.reason || got.payment != e.payment || got.reservation != e.reservation {
		t.Errorf("ended as %+v,\nwant %+v", got, e)
	}
	w.CheckFolds(t)
}

func TestWhatTheGatewayAndTheOMSAreAskedFor(t *testing.T) {
	w := newWorld(t)
	stories["the happy path"].steps(t, w)
	w.deliverAll(t)
	for name, want := range map[string]int{
		"payment.requested": 1, "payment.inquiry_requested": 0, "payment.refund_requested": 0,
		"order.registration_requested": 1, "order.cancellation_requested": 0, "fulfilment.advanced": 5,
	} {
		if got := w.count(t, name); got != want {
			t.Errorf("%s happened %d times, want %d", name, got, want)
		}
	}
}

// Until the payment expires the gateway is asked every minute; once the order is cancelled, at doubling
// intervals up to an hour, for as long as it does not know.
func TestTheGatewayIsAskedUntilItKnows(t *testing.T) {
	const hours = 12
	w := newWorld(t)
	w.deliverAll(t)
	var asked []time.Duration
	placed := w.Now
	for range hours * 60 {
		before := w.count(t, "payment.inquiry_requested")
		w.wait(t, oneMinute)
		for range w.count(t, "payment.inquiry_requested") - before {
			asked = append(asked, w.Now.Sub(placed))
		}
		w.deliverAll(t)
	}
	var want []time.Duration
	for minute := time.Duration(1); minute <= 15; minute++ {
		want = append(want, minute*time.Minute)
	}
	at := 15 * time.Minute // the order expires, as the gateway is asked once more
	for _, pause := range []time.Duration{2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60, 60, 60, 60, 60} {
		at += pause * time.Minute
		want = append(want, at)
	}
	want = slices.DeleteFunc(want, func(at time.Duration) bool { return at > hours*time.Hour })
	if !slices.Equal(asked, want) {
		t.Errorf("asked at\n%v, want\n%v", asked, want)
	}
	if got := w.fulfilment(t).Phase; got != sagas.Settling {
		t.Errorf("phase %s", got)
	}
}

func TestTheConversationIsFollowedThroughEveryStep(t *testing.T) {
	w := newWorld(t)
	w.deliverAll(t)
	w.wait(t, oneMinute)
	for _, record := range w.Log(t) {
		switch record.Stream.Category {
		case "fulfilment", "payment":
			if record.Meta.CorrelationID != "c-1" {
				t.Errorf("%s belongs to the conversation %q", record.Type, record.Meta.CorrelationID)
			}
		}
		if record.Type == "payment.requested" && (record.Meta.Actor != "fulfilment" || record.Meta.CausationID != w.records(t, "order")[0].ID) {
			t.Errorf("%s is caused by %+v", record.Type, record.Meta)
		}
	}
}

func TestAnEventThatCanNotBeReadIsAPermanentFailure(t *testing.T) {
	w := newWorld(t)
	record := w.records(t, "order")[0]
	for name, broken := range map[string]eventstore.Record{
		"no JSON":           {Stream: record.Stream, Type: record.Type, Schema: 1, Data: []byte("{")},
		"an unknown schema": {Stream: record.Stream, Type: record.Type, Schema: 99, Data: record.Data},
	} {
		if err := w.manager.Handle(t.Context(), broken); eventstore.Classify(err) != eventstore.Permanent {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := eventstore.Record{Stream: record.Stream, Type: "order.unheard_of", Data: []byte("{")}
	if err := w.manager.Handle(t.Context(), other); err != nil {
		t.Errorf("an event that nobody listens to: %v", err)
	}
}
