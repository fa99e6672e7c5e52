package order

import (
	"time"

	"andes/eventstore"
)

// WasRegistered says that the OMS knows the order.
type WasRegistered struct {
	OMSID string    `json:"omsId"`
	At    time.Time `json:"at"`
}

var registered = eventstore.Define("order.registered", func(s *State, e WasRegistered) {
	s.OMSSync, s.OMSID, s.UpdatedAt = OMSRegistered, e.OMSID, e.At
}, eventstore.Doc("The OMS registered the order."))

// Register records the OMS's id of an order, once.
type Register struct {
	OrderID string
	OMSID   string
}

// Needs implements eventstore.Command.
func (c Register) Needs() []eventstore.Stream {
	return []eventstore.Stream{Aggregate.Stream(c.OrderID)}
}

// Decide implements eventstore.Command.
func (c Register) Decide(u *eventstore.Unit) (any, error) {
	state, version := Aggregate.Load(u, c.OrderID)
	if version == 0 {
		return nil, eventstore.Refuse(CodeNotFound, "there is no such order")
	}
	if state.OMSSync != OMSRegistered {
		Aggregate.Append(u, c.OrderID, WasRegistered{OMSID: c.OMSID, At: u.Now()})
	}
	return nil, nil
}
