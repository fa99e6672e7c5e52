package order

import (
	"time"

	"andes/commands/money"
	"andes/eventstore"
)

// WasConfirmed says that the order is paid and will be fulfilled.
type WasConfirmed struct {
	At time.Time `json:"at"`
}

var confirmed = eventstore.Define("order.confirmed", func(s *State, e WasConfirmed) {
	s.Status, s.OMSSync, s.UpdatedAt = Confirmed, OMSPending, e.At
}, eventstore.Doc("The order is paid and will be fulfilled."))

// RegistrationRequested asks the OMS adapter to register the order.
type RegistrationRequested struct {
	OrderID string      `json:"orderId"`
	Partner string      `json:"partner"`
	Lines   []Line      `json:"lines"`
	Total   money.Money `json:"total"`
	At      time.Time   `json:"at"`
}

var registrationRequested = eventstore.Define("order.registration_requested", func(*State, RegistrationRequested) {},
	eventstore.Doc("Command to the OMS: register the confirmed order, once."), eventstore.CommandTo("oms"))

// Confirm confirms a pending order and asks the OMS to register it. It tells whether the order is
// confirmed now; a cancelled order stays cancelled.
func Confirm(u *eventstore.Unit, orderID string) bool {
	state, version := Aggregate.Load(u, orderID)
	if version == 0 || state.Status == Cancelled {
		return false
	}
	if state.Status == PendingPayment {
		Aggregate.Append(u, orderID, WasConfirmed{At: u.Now()}, RegistrationRequested{
			OrderID: orderID, Partner: state.Partner, Lines: state.Lines, Total: state.Total, At: u.Now(),
		})
	}
	return true
}
