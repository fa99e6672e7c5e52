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
	s.Status, s.Reason, s.Cancellation, s.UpdatedAt = Cancelled, e.Reason, "", e.At
}, eventstore.Doc("The order was cancelled and its units were given back."))

// CancellationWasRequested asks the OMS adapter to take a confirmed order off the registry. Until the OMS
// has answered, the warehouse may ship it: its units stay held and its money is kept.
type CancellationWasRequested struct {
	OrderID string    `json:"orderId"`
	Reason  Reason    `json:"reason"`
	At      time.Time `json:"at"`
}

var cancellationRequested = eventstore.Define("order.cancellation_requested", func(s *State, e CancellationWasRequested) {
	s.Cancellation, s.CancelFor, s.UpdatedAt = CancellationRequested, e.Reason, e.At
}, eventstore.Doc("A confirmed order shall be cancelled. Command to the OMS: take it off the registry, if it is there."), eventstore.CommandTo("oms"))

// CancellationWasRefused says that the goods are leaving: the order goes on.
type CancellationWasRefused struct {
	At time.Time `json:"at"`
}

var cancellationRefused = eventstore.Define("order.cancellation_refused", func(s *State, e CancellationWasRefused) {
	s.Cancellation, s.UpdatedAt = CancellationRefused, e.At
}, eventstore.Doc("The warehouse was faster than the cancellation: the order goes on."))

// Cancel cancels an order. It is allowed until dispatch, and repeating it changes nothing. An order that
// nobody else knows of is cancelled at once; of a confirmed one the OMS is asked first.
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
	switch {
	case state.Status == Cancelled || state.Cancellation == CancellationRequested:
		return state, nil
	case state.Status == Dispatched || state.Status == Delivered:
		return nil, eventstore.Refuse(CodeNotCancellable, "the order was already dispatched")
	case state.Cancellation == CancellationRefused:
		return nil, eventstore.Refuse(CodeNotCancellable, "the order is being dispatched")
	case state.Status == Confirmed:
		return Aggregate.Append(u, c.OrderID, CancellationWasRequested{OrderID: c.OrderID, Reason: c.Reason, At: u.Now()}), nil
	}
	return finish(u, c.OrderID, c.Reason), nil
}

// SettleCancellation records what became of a cancellation that was requested: the order is withdrawn
// for good, or the warehouse is shipping it.
type SettleCancellation struct {
	OrderID   string
	Withdrawn bool
}

// Needs implements eventstore.Command.
func (c SettleCancellation) Needs() []eventstore.Stream {
	return []eventstore.Stream{Aggregate.Stream(c.OrderID), reservation.Aggregate.Stream(c.OrderID)}
}

// Decide implements eventstore.Command. Its result is the order's State.
func (c SettleCancellation) Decide(u *eventstore.Unit) (any, error) {
	state, _ := Aggregate.Load(u, c.OrderID)
	switch {
	case state.Cancellation != CancellationRequested:
		return state, nil
	case !c.Withdrawn:
		return Aggregate.Append(u, c.OrderID, CancellationWasRefused{At: u.Now()}), nil
	}
	return finish(u, c.OrderID, state.CancelFor), nil
}

// finish cancels the order and gives its units back.
func finish(u *eventstore.Unit, orderID string, reason Reason) State {
	if reason == PaymentExpired {
		reservation.Expire(u, orderID)
	} else {
		reservation.Release(u, orderID, string(reason))
	}
	return Aggregate.Append(u, orderID, WasCancelled{Reason: reason, At: u.Now()})
}
