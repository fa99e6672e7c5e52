package sagas_test

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"andes/commands/money"
	"andes/commands/order"
	"andes/commands/payment"
	"andes/commands/reservation"
	"andes/eventstore"
	"andes/sagas"
	"andes/test/memtest"
)

const (
	orderID   = "o-1"
	ordered   = 3
	onHand    = 10
	lease     = 30 * time.Second
	claims    = 10
	patience  = 500 // rounds in which everything must have come to its end
	oneMinute = time.Minute
)

// world is one order with everything around it: the topics that the process manager reads, the gateway,
// the OMS and the WMS. Nothing happens in it but what a test does.
type world struct {
	*memtest.Store
	manager sagas.FulfilmentManager
	next    map[string]int // of each topic, the record that is delivered next
	asked   int            // inquiries that the gateway answered
	says    payment.Kind   // what the gateway decided; "" while it has not
}

// topics carry the events of the order that the process manager listens to. Each keeps its order; they
// know nothing of each other.
var topics = []string{"order", "payment"}

func newWorld(t memtest.T) *world {
	s := memtest.OpenShop(t, map[string]int64{"A": onHand})
	w := &world{Store: s, next: map[string]int{}}
	w.manager = sagas.FulfilmentManager{Registry: s.Registry, Executor: s, Times: sagas.DefaultFulfilmentTimes, Logger: slog.New(slog.DiscardHandler)}
	_, err := s.Execute(context.Background(), eventstore.Request{
		Command: memtest.Order(orderID, memtest.Line("A", ordered)),
		Meta:    eventstore.Metadata{CorrelationID: "c-1", Actor: memtest.Partner},
	})
	if err != nil {
		t.Fatalf("place: %v", err)
	}
	return w
}

// records gives what was published on a topic so far.
func (w *world) records(t memtest.T, topic string) []eventstore.Record {
	return slices.DeleteFunc(w.Log(t), func(r eventstore.Record) bool {
		return r.Stream != eventstore.Stream{Category: topic, Key: orderID}
	})
}

// deliver hands the next record of a topic to the process manager.
func (w *world) deliver(t memtest.T, topic string) (more bool) {
	t.Helper()
	records := w.records(t, topic)
	if w.next[topic] == len(records) {
		return false
	}
	if err := w.manager.Handle(context.Background(), records[w.next[topic]]); err != nil {
		t.Fatalf("handle %s: %v", records[w.next[topic]].Type, err)
	}
	w.next[topic]++
	return true
}

// deliverAll goes on until the topics, in this order, have nothing new.
func (w *world) deliverAll(t memtest.T, first ...string) {
	t.Helper()
	for range patience {
		delivered := false
		for _, topic := range append(first, topics...) {
			for w.deliver(t, topic) {
				delivered = true
			}
		}
		if !delivered {
			return
		}
	}
	t.Fatalf("the process manager never comes to rest")
}

// redeliver lets a topic be read again from an earlier record on.
func (w *world) redeliver(topic string, from int) { w.next[topic] = min(from, w.next[topic]) }

// wait moves the clock and tells the process manager of what is due.
func (w *world) wait(t memtest.T, pause time.Duration) {
	t.Helper()
	w.Now = w.Now.Add(pause)
	due, err := w.ClaimDue(context.Background(), w.Now, lease, claims)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	for _, deadline := range due {
		command := w.manager.Reaches()[deadline.Saga](deadline)
		if _, err := w.Execute(context.Background(), eventstore.Request{Command: command, Meta: deadline.Meta}); err != nil {
			t.Fatalf("deadline %s: %v", deadline.Name, err)
		}
	}
}

// What the outside does.

func (w *world) total() money.Money { return money.Money{Minor: ordered * 255, Currency: "GBP"} }

func (w *world) report(t memtest.T, kind payment.Kind) {
	t.Helper()
	w.Do(t, payment.Report{OrderID: orderID, Kind: kind, ChargeID: "c-1", RefundID: "r-1", Amount: w.total(), Reason: "no funds"})
}

func (w *world) cancel(t memtest.T) error {
	t.Helper()
	_, err := w.Execute(context.Background(), eventstore.Request{
		Command: order.Cancel{OrderID: orderID, Partner: memtest.Partner, Reason: order.CancelledByPartner},
	})
	if err != nil && eventstore.CodeOf(err) != order.CodeNotCancellable {
		t.Fatalf("cancel: %v", err)
	}
	return err
}

func (w *world) register(t memtest.T) { w.Do(t, order.Register{OrderID: orderID, OMSID: "oms-1"}) }

// withdraw is the OMS's answer to a cancellation.
func (w *world) withdraw(t memtest.T, inTime bool) {
	w.Do(t, order.SettleCancellation{OrderID: orderID, Withdrawn: inTime})
}

func (w *world) ship(t memtest.T, delivered bool) {
	t.Helper()
	_, err := w.Execute(context.Background(), eventstore.Request{
		Command: order.Ship{OrderID: orderID, Delivered: delivered, StockVersions: map[string]int64{"A": 2}},
	})
	if err != nil && eventstore.CodeOf(err) == "" {
		t.Fatalf("ship: %v", err)
	}
}

// What can be seen.

func (w *world) fulfilment(t memtest.T) sagas.FulfilmentState {
	got, _ := memtest.State(t, w.Store, sagas.Fulfilment, orderID)
	return got
}

func (w *world) order(t memtest.T) order.State {
	got, _ := memtest.State(t, w.Store, order.Aggregate, orderID)
	return got
}

func (w *world) payment(t memtest.T) payment.State {
	got, _ := memtest.State(t, w.Store, payment.Aggregate, orderID)
	return got
}

func (w *world) reservation(t memtest.T) reservation.State {
	got, _ := memtest.State(t, w.Store, reservation.Aggregate, orderID)
	return got
}

// count tells how often an event happened.
func (w *world) count(t memtest.T, name string) int {
	n := 0
	for _, record := range w.Log(t) {
		if record.Type == name {
			n++
		}
	}
	return n
}

// waiting names the deadlines that are set.
func (w *world) waiting(t memtest.T) []string {
	var names []string
	for _, deadline := range w.Waiting(t) {
		names = append(names, deadline.Name)
	}
	slices.Sort(names)
	return names
}
