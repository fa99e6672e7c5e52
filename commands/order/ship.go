package order

import (
	"time"

	"andes/commands/reservation"
	"andes/eventstore"
)

// WasDispatched says that the goods left the warehouse.
type WasDispatched struct {
	At time.Time `json:"at"`
}

var dispatched = eventstore.Define("order.dispatched", func(s *State, e WasDispatched) {
	s.Status, s.UpdatedAt = Dispatched, e.At
	if s.Cancellation == CancellationRequested {
		s.Cancellation = CancellationRefused
	}
}, eventstore.Doc("The goods left the warehouse."))

// WasDelivered says that the goods arrived.
type WasDelivered struct {
	At time.Time `json:"at"`
}

var delivered = eventstore.Define("order.delivered", func(s *State, e WasDelivered) {
	s.Status, s.UpdatedAt = Delivered, e.At
}, eventstore.Doc("The goods arrived."))

// CodeShippedAfterCancel marks goods that left although the order was cancelled: a person must look.
const CodeShippedAfterCancel eventstore.Code = "SHIPPED_AFTER_CANCEL"

// Ship records what the WMS reports of an order: dispatched or, with Delivered, arrived. Reports may
// come twice or out of order; a delivery of an order that was not seen to be dispatched is both.
type Ship struct {
	OrderID       string
	Delivered     bool
	StockVersions map[string]int64 // of the WMS, per SKU, after the units were taken off
}

// Needs implements eventstore.Command.
func (c Ship) Needs() []eventstore.Stream {
	return []eventstore.Stream{Aggregate.Stream(c.OrderID), reservation.Aggregate.Stream(c.OrderID)}
}

// Decide implements eventstore.Command.
func (c Ship) Decide(u *eventstore.Unit) (any, error) {
	state, version := Aggregate.Load(u, c.OrderID)
	switch {
	case version == 0:
		return nil, eventstore.Refuse(CodeNotFound, "there is no such order")
	case state.Status == Cancelled:
		return nil, eventstore.Refuse(CodeShippedAfterCancel, "the warehouse shipped a cancelled order")
	case state.Status == PendingPayment:
		return nil, eventstore.Refuse(CodeOrderInvalid, "the warehouse shipped an order that is not confirmed")
	}
	if state.Status == Confirmed {
		reservation.Consume(u, c.OrderID, c.StockVersions)
		state = Aggregate.Append(u, c.OrderID, WasDispatched{At: u.Now()})
	}
	if c.Delivered && state.Status == Dispatched {
		Aggregate.Append(u, c.OrderID, WasDelivered{At: u.Now()})
	}
	return nil, nil
}
