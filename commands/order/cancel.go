package order

import (
	"time"

	"andes/commands/reservation"
	"andes/eventstore"
)

// WasCancelled says that the order will not be fulfilled.
type WasCancelled struct {
	Reason Reason    `json:"reason"`
	At     time.Time `json:"at"`
}

var cancelled = eventstore.Define("order.cancelled", func(s *State, e WasCancelled) {
	s.Status, s.Reason, s.UpdatedAt = Cancelled, e.Reason, e.At
}, eventstore.Doc("The order was cancelled and its units were given back."))

// DeregistrationRequested asks the OMS adapter to take a cancelled order off the registry, so that the
// warehouse does not ship it.
type DeregistrationRequested struct {
	OrderID string    `json:"orderId"`
	At      time.Time `json:"at"`
}

var deregistrationRequested = eventstore.Define("order.deregistration_requested", func(*State, DeregistrationRequested) {},
	eventstore.Doc("Command to the OMS: cancel the order, if it was registered."), eventstore.CommandTo("oms"))

// Cancel cancels an order and gives its units back. It is allowed until dispatch, and repeating it
// changes nothing.
type Cancel struct {
	OrderID string
	Partner string // whose order it has to be; empty: anyone's
	Reason  Reason
}

// Needs implements eventstore.Command.
func (c Cancel) Needs() []eventstore.Stream {
	return []eventstore.Stream{Aggregate.Stream(c.OrderID), reservation.Aggregate.Stream(c.OrderID)}
}

// Decide implements eventstore.Command. Its result is the order's State.
func (c Cancel) Decide(u *eventstore.Unit) (any, error) {
	state, version := Aggregate.Load(u, c.OrderID)
	if version == 0 || c.Partner != "" && state.Partner != c.Partner {
		return nil, eventstore.Refuse(CodeNotFound, "there is no such order")
	}
	switch state.Status {
	case Cancelled:
		return state, nil
	case Dispatched, Delivered:
		return nil, eventstore.Refuse(CodeNotCancellable, "the order was already dispatched")
	}
	if c.Reason == PaymentExpired {
		reservation.Expire(u, c.OrderID)
	} else {
		reservation.Release(u, c.OrderID, string(c.Reason))
	}
	events := []any{WasCancelled{Reason: c.Reason, At: u.Now()}}
	if state.Status == Confirmed { // the OMS knows it, or will when it comes to the command before this one
		events = append(events, DeregistrationRequested{OrderID: c.OrderID, At: u.Now()})
	}
	return Aggregate.Append(u, c.OrderID, events...), nil
}
