package sagas_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"andes/commands/order"
	"andes/commands/payment"
	"andes/commands/reservation"
	"andes/sagas"
)

// settle lets the outside do its part until nothing is left to do: the gateway decides, refunds and answers
// what it is asked, the OMS registers, the warehouse ships.
func (w *world) settle(t *rapid.T) {
	for range patience {
		w.deliverAll(t)
		phase := w.fulfilment(t).Phase
		if phase == sagas.Completed || phase == sagas.Closed {
			return
		}
		w.wait(t, oneMinute)
		w.answer(t)
		w.withdraw(t, true) // if it is asked to
		if w.order(t).Status == order.Confirmed || w.order(t).Status == order.Dispatched {
			w.register(t)
			w.ship(t, true)
		}
	}
	t.Fatalf("stuck in %s with the order %s and the payment %s", w.fulfilment(t).Phase, w.order(t).Status, w.payment(t).Status)
}

// answer is what the gateway says when it is asked.
func (w *world) answer(t *rapid.T) {
	inquiries := w.count(t, "payment.inquiry_requested")
	if inquiries == w.asked || w.says == "" {
		return
	}
	w.asked = inquiries
	w.report(t, w.says)
	if w.payment(t).Status == payment.RefundRequested {
		w.report(t, payment.RefundCompleted)
	}
}

// decide makes the gateway decide, once.
func (w *world) decide(t *rapid.T, kind payment.Kind) {
	if w.says == "" && w.count(t, "payment.requested") > 0 {
		w.says = kind
	}
}

// check holds after every step.
func (w *world) check(t *rapid.T) {
	if got := w.count(t, "payment.requested"); got > 1 {
		t.Fatalf("%d charges were requested", got)
	}
	if got := w.count(t, "payment.refund_requested"); got > 1 {
		t.Fatalf("%d refunds were requested", got)
	}
	if got := w.count(t, "order.registration_requested"); got > 1 {
		t.Fatalf("%d registrations were requested", got)
	}
	cancelled := w.order(t).Status == order.Cancelled
	if held := w.reservation(t).Status == reservation.Held; held && cancelled {
		t.Fatalf("the order is cancelled and its units are held")
	}
	if w.count(t, "payment.refund_requested") > 0 && !cancelled {
		t.Fatalf("the money of an order that is %s is given back", w.order(t).Status)
	}
	w.checkNotStuck(t)
}

// checkNotStuck: in every phase that is not the last there is a deadline, an event on its way or somebody
// outside who was asked.
func (w *world) checkNotStuck(t *rapid.T) {
	waiting := w.waiting(t)
	undelivered := w.next["order"] < len(w.records(t, "order")) || w.next["payment"] < len(w.records(t, "payment"))
	switch phase := w.fulfilment(t).Phase; phase {
	case "":
		if !undelivered {
			t.Fatalf("the order was placed, but nobody begins")
		}
	case sagas.AwaitingPayment:
		if !slices.Equal(waiting, []string{"payment-expiry", "payment-inquiry"}) {
			t.Fatalf("%s waits for %v", phase, waiting)
		}
	case sagas.Settling, sagas.Refunding:
		if !slices.Equal(waiting, []string{"payment-inquiry"}) {
			t.Fatalf("%s waits for %v", phase, waiting)
		}
	case sagas.Registering, sagas.Fulfilling, sagas.Shipped:
		if w.count(t, "order.registration_requested") != 1 {
			t.Fatalf("%s, but the OMS was not asked", phase)
		}
		if w.order(t).Status == order.Cancelled && !undelivered {
			t.Fatalf("%s, but the order is cancelled", phase)
		}
	case sagas.Completed, sagas.Closed:
		if len(waiting) != 0 {
			t.Fatalf("%s still waits for %v", phase, waiting)
		}
	default:
		t.Fatalf("unknown phase %s", phase)
	}
}

// checkEnd holds when all is done.
func (w *world) checkEnd(t *rapid.T) {
	taken := w.count(t, "payment.approved") > 0
	cancelled := w.order(t).Status == order.Cancelled
	if asked := w.count(t, "payment.refund_requested") > 0; asked != (taken && cancelled) {
		t.Fatalf("refund requested: %v, money taken: %v, order cancelled: %v", asked, taken, cancelled)
	}
	if w.count(t, "payment.refunded") != w.count(t, "payment.refund_requested") {
		t.Fatalf("the refund was not completed")
	}
	if want := (map[bool]sagas.Phase{true: sagas.Closed, false: sagas.Completed})[cancelled]; w.fulfilment(t).Phase != want {
		t.Fatalf("the order is %s, its fulfilment %s", w.order(t).Status, w.fulfilment(t).Phase)
	}
	if !cancelled && (!taken || w.reservation(t).Status != reservation.Consumed) {
		t.Fatalf("delivered, but money taken: %v, reservation %s", taken, w.reservation(t).Status)
	}
	w.CheckFolds(t)
}

func TestInWhateverOrderThingsHappenAllEndsWell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		topic := rapid.SampledFrom(topics)
		t.Repeat(map[string]func(*rapid.T){
			"deliver":          func(t *rapid.T) { w.deliver(t, topic.Draw(t, "topic")) },
			"deliver all":      func(t *rapid.T) { w.deliverAll(t, topic.Draw(t, "first")) },
			"redeliver":        func(t *rapid.T) { w.redeliver(topic.Draw(t, "topic"), rapid.IntRange(0, 8).Draw(t, "from")) },
			"approve":          func(t *rapid.T) { w.decide(t, payment.ChargeApproved) },
			"reject":           func(t *rapid.T) { w.decide(t, payment.ChargeRejected) },
			"report":           func(t *rapid.T) { w.webhook(t) },
			"contradict":       func(t *rapid.T) { w.contradict(t) },
			"complete refund":  func(t *rapid.T) { w.report(t, payment.RefundCompleted) },
			"partner cancels":  func(t *rapid.T) { _ = w.cancel(t) },
			"time passes":      func(t *rapid.T) { w.wait(t, rapid.SampledFrom(pauses).Draw(t, "pause")) },
			"inquiry answered": w.answer,
			"OMS registers": func(t *rapid.T) {
				if w.count(t, "order.registration_requested") > 0 {
					w.register(t)
				}
			},
			"OMS withdraws":   func(t *rapid.T) { w.withdraw(t, true) },
			"OMS is too late": func(t *rapid.T) { w.withdraw(t, false) },
			"goods leave":     func(t *rapid.T) { w.ship(t, false) },
			"goods arrive":    func(t *rapid.T) { w.ship(t, true) },
			"":                w.check,
		})
		if w.says == "" {
			w.says = rapid.SampledFrom([]payment.Kind{payment.ChargeApproved, payment.ChargeRejected}).Draw(t, "decision")
		}
		w.settle(t)
		w.check(t)
		w.checkEnd(t)
	})
}

// pauses include those at which deadlines fall due together.
var pauses = []time.Duration{time.Second, oneMinute, 14 * oneMinute, 15 * oneMinute, time.Hour}

// webhook tells what the gateway decided.
func (w *world) webhook(t *rapid.T) {
	if w.says != "" {
		w.report(t, w.says)
	}
}

// contradict lets the gateway change its mind, which it must not do but may.
func (w *world) contradict(t *rapid.T) {
	switch w.says {
	case payment.ChargeApproved:
		w.report(t, payment.ChargeRejected)
	case payment.ChargeRejected:
		w.report(t, payment.ChargeApproved)
	}
}
