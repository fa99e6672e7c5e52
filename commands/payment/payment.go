// Package payment is the charge of one order and its refund.
//
//	REQUESTED ──► APPROVED ──► REFUND_REQUESTED ──► REFUNDED
//	    │             ▲
//	    └─► REJECTED ─┘
//
// What the gateway says decides nothing by itself: a report counts only where the table above has an
// arrow for it. A repeated report changes nothing; one that contradicts what is known (another amount,
// another charge, approval and rejection of one charge) is kept as payment.anomaly for a person to look
// at. An approval counts even after a rejection, because it says that money was taken: whichever of the
// two came first, the payment ends as approved, and the fulfilment gives the money back if the order is
// no more.
package payment

import (
	"time"

	"andes/commands/money"
	"andes/eventstore"
)

// Status is where a payment stands.
type Status string

// The statuses.
const (
	Requested       Status = "REQUESTED"
	Approved        Status = "APPROVED"
	Rejected        Status = "REJECTED"
	RefundRequested Status = "REFUND_REQUESTED"
	Refunded        Status = "REFUNDED"
)

// State is a payment. The payment token is not in it.
type State struct {
	OrderID   string      `json:"orderId"`
	Partner   string      `json:"partner"`
	Status    Status      `json:"status"`
	Amount    money.Money `json:"amount"`
	ChargeID  string      `json:"chargeId,omitempty"`
	RefundID  string      `json:"refundId,omitempty"`
	Anomalies int         `json:"anomalies,omitempty"`
	ChangedAt time.Time   `json:"changedAt"`
}

// Aggregate is one stream per order.
var Aggregate = eventstore.NewAggregate(eventstore.Category[State]{
	Name: "payment",
	Events: []eventstore.Definition[State]{
		requested, inquiryRequested, approved, rejected, refundRequested, refunded, anomaly,
	},
})

// ChargeKey is the idempotency key of an order's one charge at the gateway.
func ChargeKey(orderID string) string { return "charge:" + orderID }

// RefundKey is the idempotency key of an order's one refund at the gateway.
func RefundKey(orderID string) string { return "refund:" + orderID }

// ChargeRequested asks the payment adapter to charge the order.
type ChargeRequested struct {
	OrderID string      `json:"orderId"`
	Partner string      `json:"partner"`
	Amount  money.Money `json:"amount"`
	Token   string      `json:"token" sensitive:"true"`
	At      time.Time   `json:"at"`
}

var requested = eventstore.Define("payment.requested", func(s *State, e ChargeRequested) {
	*s = State{OrderID: e.OrderID, Partner: e.Partner, Status: Requested, Amount: e.Amount, ChangedAt: e.At, Anomalies: s.Anomalies}
}, eventstore.Doc("Command to the gateway: charge the order, once."), eventstore.CommandTo("payment"))

// InquiryRequested asks the payment adapter what became of the charge.
type InquiryRequested struct {
	OrderID string    `json:"orderId"`
	At      time.Time `json:"at"`
}

var inquiryRequested = eventstore.Define("payment.inquiry_requested", func(*State, InquiryRequested) {},
	eventstore.Doc("Command to the gateway: what became of the charge or the refund?"), eventstore.CommandTo("payment"))

// WasApproved says that the order's amount was captured.
type WasApproved struct {
	OrderID  string      `json:"orderId"`
	Partner  string      `json:"partner"`
	ChargeID string      `json:"chargeId"`
	Amount   money.Money `json:"amount"`
	At       time.Time   `json:"at"`
}

var approved = eventstore.Define("payment.approved", func(s *State, e WasApproved) {
	s.Status, s.ChargeID, s.ChangedAt = Approved, e.ChargeID, e.At
}, eventstore.Doc("The gateway captured the order's amount."))

// WasRejected says that the gateway will not charge the order.
type WasRejected struct {
	OrderID  string    `json:"orderId"`
	Partner  string    `json:"partner"`
	ChargeID string    `json:"chargeId"`
	Reason   string    `json:"reason,omitempty"`
	At       time.Time `json:"at"`
}

var rejected = eventstore.Define("payment.rejected", func(s *State, e WasRejected) {
	s.Status, s.ChargeID, s.ChangedAt = Rejected, e.ChargeID, e.At
}, eventstore.Doc("The gateway rejected the charge."))

// RefundWasRequested asks the payment adapter to give the money back.
type RefundWasRequested struct {
	OrderID  string      `json:"orderId"`
	Partner  string      `json:"partner"`
	ChargeID string      `json:"chargeId"`
	Amount   money.Money `json:"amount"`
	At       time.Time   `json:"at"`
}

var refundRequested = eventstore.Define("payment.refund_requested", func(s *State, e RefundWasRequested) {
	s.Status, s.ChangedAt = RefundRequested, e.At
}, eventstore.Doc("Command to the gateway: give the captured amount back, once."), eventstore.CommandTo("payment"))

// WasRefunded says that the money was given back.
type WasRefunded struct {
	OrderID  string      `json:"orderId"`
	Partner  string      `json:"partner"`
	RefundID string      `json:"refundId"`
	Amount   money.Money `json:"amount"`
	At       time.Time   `json:"at"`
}

var refunded = eventstore.Define("payment.refunded", func(s *State, e WasRefunded) {
	s.Status, s.RefundID, s.ChangedAt = Refunded, e.RefundID, e.At
}, eventstore.Doc("The gateway gave the captured amount back."))

// Anomaly is a report of the gateway that does not fit what is known.
type Anomaly struct {
	Report string    `json:"report"`
	Detail string    `json:"detail"`
	At     time.Time `json:"at"`
}

var anomaly = eventstore.Define("payment.anomaly", func(s *State, _ Anomaly) { s.Anomalies++ },
	eventstore.Doc("The gateway reported something that does not fit; a person must look."))

// Request asks for the order's charge, once.
func Request(u *eventstore.Unit, orderID, partner string, amount money.Money, token string) {
	if state, _ := Aggregate.Load(u, orderID); state.Status == "" {
		Aggregate.Append(u, orderID, ChargeRequested{OrderID: orderID, Partner: partner, Amount: amount, Token: token, At: u.Now()})
	}
}

// Inquire asks the gateway what became of the charge or refund.
func Inquire(u *eventstore.Unit, orderID string) {
	Aggregate.Append(u, orderID, InquiryRequested{OrderID: orderID, At: u.Now()})
}

// RequestRefund asks for the captured amount to be given back, once.
func RequestRefund(u *eventstore.Unit, orderID string) {
	state, _ := Aggregate.Load(u, orderID)
	if state.Status == Approved {
		Aggregate.Append(u, orderID, RefundWasRequested{OrderID: orderID, Partner: state.Partner, ChargeID: state.ChargeID, Amount: state.Amount, At: u.Now()})
	}
}
