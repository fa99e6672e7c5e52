// Package legacytest is the bench on which the adapters to legacy systems are tested: a store in memory, the
// simulators of test/lab called without a network, through a real guard. All of it runs in a synctest bubble.
package legacytest

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"andes/adapters/guard"
	"andes/catalogue"
	"andes/commands/order"
	"andes/commands/partner"
	"andes/commands/payment"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/test/lab/labtest"
)

// Bench of one test.
type Bench struct {
	T        *testing.T
	Store    *eventstore.Memory
	Registry *eventstore.Registry
}

// New makes a bench with an empty store.
func New(t *testing.T) *Bench {
	t.Helper()
	registry, err := catalogue.Registry()
	if err != nil {
		t.Fatal(err)
	}
	return &Bench{T: t, Registry: registry, Store: eventstore.NewMemory(registry, time.Now, func() string { return uuid.NewString() })}
}

// Guard makes the guard through which an adapter calls a simulator.
func (b *Bench) Guard(system string, handler http.Handler) *guard.Guard {
	b.T.Helper()
	g, err := guard.New(guard.Config{
		System: system, Settings: guard.Defaults(10), Transport: labtest.Transport{Handler: handler},
	})
	if err != nil {
		b.T.Fatal(err)
	}
	return g
}

// Alone is a lease that nobody else wants.
type Alone struct{}

// Hold implements polling.Lease.
func (Alone) Hold(ctx context.Context, _ string, work func(context.Context) error) error {
	return work(ctx)
}

// step is a command of a test's own making.
type step func(u *eventstore.Unit)

func (step) Needs() []eventstore.Stream { return nil }

func (s step) Decide(u *eventstore.Unit) (any, error) {
	s(u)
	return nil, nil
}

// Do runs what a process manager would.
func (b *Bench) Do(decide func(u *eventstore.Unit)) {
	b.T.Helper()
	b.Execute(step(decide))
}

// Execute runs a command that has to be accepted.
func (b *Bench) Execute(command eventstore.Command) {
	b.T.Helper()
	meta := eventstore.Metadata{CorrelationID: "corr-1", Actor: "test"}
	if _, err := b.Store.Execute(b.T.Context(), eventstore.Request{Command: command, Meta: meta}); err != nil {
		b.T.Fatalf("%T: %v", command, err)
	}
}

// Place places an order of one unit at this price; the SKU and the price list are the currency's name.
func (b *Bench) Place(orderID, partnerID, amount, currency, token string) {
	b.T.Helper()
	at := time.Now()
	b.Execute(partner.Configure{Partner: partner.State{
		ID: partnerID, Name: partnerID, Tier: "gold", Policy: partner.Policy{PriceList: currency, Currency: currency},
	}})
	b.Execute(product.Report{SKU: currency, Name: "thing", SourceVersion: 1, At: at})
	b.Execute(price.Report{List: currency, SKU: currency, Amount: amount, Currency: currency, SourceVersion: at.UnixNano(), At: at})
	b.Execute(stock.Report{SKU: currency, OnHand: 100_000, SourceVersion: 1, At: at})
	b.Execute(order.Place{
		OrderID: orderID, Partner: partnerID, Currency: currency, PriceList: currency, PaymentToken: token,
		Lines:    []order.RequestedLine{{SKU: currency, Quantity: 1}},
		Customer: order.Customer{Name: "Ana Prueba", Email: "ana@example.com"},
	})
}

// RequestCharge asks for an order's charge and gives the event.
func (b *Bench) RequestCharge(orderID, token string) eventstore.Record {
	b.T.Helper()
	placed := b.Order(orderID)
	b.Do(func(u *eventstore.Unit) { payment.Request(u, orderID, placed.Partner, placed.Total, token) })
	return b.Last("payment.requested")
}

// Confirm confirms an order and gives the event that asks the OMS to register it.
func (b *Bench) Confirm(orderID string) eventstore.Record {
	b.T.Helper()
	b.Do(func(u *eventstore.Unit) { order.Confirm(u, orderID) })
	return b.Last("order.registration_requested")
}

// EachState implements polling.States.
func (b *Bench) EachState(ctx context.Context, category string, take func([]eventstore.StateRecord) error) error {
	events, err := b.Store.ReadAll(ctx, 0, maxEvents)
	if err != nil {
		return err
	}
	var streams []eventstore.Stream
	seen := map[eventstore.Stream]bool{}
	for _, event := range events {
		if event.Stream.Category == category && !seen[event.Stream] {
			seen[event.Stream] = true
			streams = append(streams, event.Stream)
		}
	}
	states, err := b.Store.States(ctx, streams)
	if err != nil {
		return err
	}
	for _, stream := range streams {
		if err := take([]eventstore.StateRecord{states[stream]}); err != nil {
			return err
		}
	}
	return nil
}

// maxEvents bounds what a test's store holds.
const maxEvents = 1_000_000

// Events lists the events of a type.
func (b *Bench) Events(eventType string) []eventstore.Record {
	b.T.Helper()
	all, err := b.Store.ReadAll(b.T.Context(), 0, maxEvents)
	if err != nil {
		b.T.Fatal(err)
	}
	var found []eventstore.Record
	for _, record := range all {
		if record.Type == eventType {
			found = append(found, record)
		}
	}
	return found
}

// Last gives the last event of a type.
func (b *Bench) Last(eventType string) eventstore.Record {
	b.T.Helper()
	found := b.Events(eventType)
	if len(found) == 0 {
		b.T.Fatalf("there is no %s", eventType)
	}
	return found[len(found)-1]
}

// Order gives an order's state.
func (b *Bench) Order(id string) order.State { b.T.Helper(); return StateOf(b, order.Aggregate, id) }

// Payment gives a payment's state.
func (b *Bench) Payment(id string) payment.State {
	b.T.Helper()
	return StateOf(b, payment.Aggregate, id)
}

// StateOf gives the state of an aggregate; the zero value if it does not exist.
func StateOf[S any](b *Bench, aggregate *eventstore.Aggregate[S], key string) S {
	b.T.Helper()
	stream := aggregate.Stream(key)
	states, err := b.Store.States(b.T.Context(), []eventstore.Stream{stream})
	if err != nil {
		b.T.Fatal(err)
	}
	state, err := aggregate.Decode(states[stream].State)
	if err != nil {
		b.T.Fatal(fmt.Errorf("state of %s: %w", stream, err))
	}
	return state
}
