// Package order is a partner's order.
//
//	PENDING_PAYMENT ──► CONFIRMED ──► DISPATCHED ──► DELIVERED
//	       │                │ cancellation requested ──► refused: it goes on
//	       │                ▼ withdrawn from the OMS
//	       └──────────► CANCELLED   PAYMENT_REJECTED · PAYMENT_EXPIRED ·
//	                                CANCELLED_BY_PARTNER · CANCELLED_BY_OPS
//
// One file per command. Placing reserves the stock and cancelling gives it back in the same transaction
// as the order's own event; payment and the OMS follow by the fulfilment process manager. A confirmed
// order is cancelled when the OMS says that it will not be shipped, and not before: until then its units
// may leave and its money may be earned.
package order

import (
	"time"

	"andes/commands/money"
	"andes/eventstore"
)

// Status is where an order stands.
type Status string

// The statuses.
const (
	PendingPayment Status = "PENDING_PAYMENT"
	Confirmed      Status = "CONFIRMED"
	Dispatched     Status = "DISPATCHED"
	Delivered      Status = "DELIVERED"
	Cancelled      Status = "CANCELLED"
)

// Reason says why an order was cancelled.
type Reason string

// The reasons.
const (
	PaymentRejected    Reason = "PAYMENT_REJECTED"
	PaymentExpired     Reason = "PAYMENT_EXPIRED"
	CancelledByPartner Reason = "CANCELLED_BY_PARTNER"
	CancelledByOps     Reason = "CANCELLED_BY_OPS"
)

// OMSSync says whether the order registry knows a confirmed order.
type OMSSync string

// The states of the registration.
const (
	OMSPending    OMSSync = "pending"
	OMSRegistered OMSSync = "registered"
)

// Cancellation is how far the cancellation of a confirmed order came.
type Cancellation string

// The states of a cancellation that is not done.
const (
	CancellationRequested Cancellation = "requested" // the OMS is asked
	CancellationRefused   Cancellation = "refused"   // the goods are leaving
)

// Line is one line of an order, as the partner sent it.
type Line struct {
	SKU       string      `json:"sku"`
	Quantity  int64       `json:"quantity"`
	UnitPrice money.Money `json:"unitPrice"`
	Amount    money.Money `json:"amount"` // unit price times quantity
}

// State is an order. It holds no personal data: what the partner said of the customer stays in the
// order.placed event.
type State struct {
	ID            string       `json:"id"`
	Partner       string       `json:"partner"`
	PartnerRef    string       `json:"partnerOrderRef,omitempty"`
	Status        Status       `json:"status"`
	Reason        Reason       `json:"reason,omitempty"`
	Cancellation  Cancellation `json:"cancellation,omitempty"`
	CancelFor     Reason       `json:"cancelFor,omitempty"` // why the cancellation was requested
	OMSSync       OMSSync      `json:"omsSync,omitempty"`
	OMSID         string       `json:"omsId,omitempty"`
	Lines         []Line       `json:"lines"`
	Total         money.Money  `json:"total"`
	CorrelationID string       `json:"correlationId"`
	PlacedAt      time.Time    `json:"placedAt"`
	UpdatedAt     time.Time    `json:"updatedAt"`
}

// Aggregate is one stream per order.
var Aggregate = eventstore.NewAggregate(eventstore.Category[State]{
	Name:      "order",
	Published: true,
	Owner:     func(s *State) string { return s.Partner },
	Events:    []eventstore.Definition[State]{placed, confirmed, registrationRequested, registered, dispatched, delivered, cancelled, cancellationRequested, cancellationRefused},
})

// Refusals of orders.
const (
	CodeNotFound            eventstore.Code = "NOT_FOUND"
	CodeNotCancellable      eventstore.Code = "ORDER_NOT_CANCELLABLE"
	CodeDuplicateReference  eventstore.Code = "DUPLICATE_ORDER_REFERENCE"
	CodeUnknownSKU          eventstore.Code = "UNKNOWN_SKU"
	CodeQuantityInvalid     eventstore.Code = "QUANTITY_INVALID"
	CodePaymentTokenInvalid eventstore.Code = "PAYMENT_TOKEN_INVALID"
	CodeCurrencyMismatch    eventstore.Code = "CURRENCY_MISMATCH"
	CodePriceMismatch       eventstore.Code = "PRICE_MISMATCH"
	CodeNoPrice             eventstore.Code = "PRICE_UNKNOWN"
	CodeOrderInvalid        eventstore.Code = "ORDER_INVALID"
	CodeTotalTooLarge       eventstore.Code = "TOTAL_TOO_LARGE"
)
