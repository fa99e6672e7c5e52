package payment

import (
	"fmt"
	"strings"

	"andes/commands/money"
	"andes/eventstore"
)

// Kind is what a report of the gateway says.
type Kind string

// The reports.
const (
	ChargeApproved  Kind = "charge.approved"
	ChargeRejected  Kind = "charge.rejected"
	RefundCompleted Kind = "refund.completed"
)

// maxText bounds what is kept of the gateway's own words.
const maxText = 200

// maxAnomalies bounds how many reports that don't fit are kept for one order.
const maxAnomalies = 100

// Report records what the gateway says of an order's payment, by webhook or when asked.
type Report struct {
	OrderID  string
	Kind     Kind
	ChargeID string
	RefundID string
	Amount   money.Money
	Reason   string
}

// Needs implements eventstore.Command.
func (c Report) Needs() []eventstore.Stream {
	return []eventstore.Stream{Aggregate.Stream(c.OrderID)}
}

// Decide implements eventstore.Command.
func (c Report) Decide(u *eventstore.Unit) (any, error) {
	state, version := Aggregate.Load(u, c.OrderID)
	if version == 0 || state.Status == "" {
		c.keepAnomaly(u, state, "no payment was requested for this order")
		return nil, nil
	}
	if c.Kind != ChargeRejected && c.Amount != state.Amount {
		c.keepAnomaly(u, state, fmt.Sprintf("the amount is %s, not %s", c.Amount, state.Amount))
		return nil, nil
	}
	switch c.Kind {
	case ChargeApproved:
		c.charge(u, state, WasApproved{OrderID: c.OrderID, Partner: state.Partner, ChargeID: c.ChargeID, Amount: c.Amount, At: u.Now()})
	case ChargeRejected:
		c.charge(u, state, WasRejected{OrderID: c.OrderID, Partner: state.Partner, ChargeID: c.ChargeID, Reason: clip(c.Reason), At: u.Now()})
	case RefundCompleted:
		c.refund(u, state)
	default:
		c.keepAnomaly(u, state, "unknown report")
	}
	return nil, nil
}

// settledAs lists the statuses in which a charge report is only a repetition.
var settledAs = map[Kind][]Status{
	ChargeApproved: {Approved, RefundRequested, Refunded},
	ChargeRejected: {Rejected},
}

func (c Report) charge(u *eventstore.Unit, state State, event any) {
	if state.Status == Requested {
		Aggregate.Append(u, c.OrderID, event)
		return
	}
	if state.Status == Rejected && c.Kind == ChargeApproved {
		Aggregate.Append(u, c.OrderID, event)
	}
	for _, status := range settledAs[c.Kind] {
		if state.Status == status && state.ChargeID == c.ChargeID {
			return
		}
	}
	c.keepAnomaly(u, state, fmt.Sprintf("the payment is %s by charge %s", state.Status, state.ChargeID))
}

func (c Report) refund(u *eventstore.Unit, state State) {
	switch {
	case state.Status == RefundRequested:
		Aggregate.Append(u, c.OrderID, WasRefunded{OrderID: c.OrderID, Partner: state.Partner, RefundID: c.RefundID, Amount: c.Amount, At: u.Now()})
	case state.Status == Refunded && state.RefundID == c.RefundID:
	default:
		c.keepAnomaly(u, state, fmt.Sprintf("no refund is open: the payment is %s", state.Status))
	}
}

func (c Report) keepAnomaly(u *eventstore.Unit, state State, detail string) {
	if state.Anomalies < maxAnomalies {
		Aggregate.Append(u, c.OrderID, Anomaly{Report: clip(string(c.Kind) + " " + c.ChargeID + " " + c.RefundID), Detail: detail, At: u.Now()})
	}
}

func clip(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}
