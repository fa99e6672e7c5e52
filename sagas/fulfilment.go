package sagas

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"andes/commands/order"
	"andes/commands/payment"
	"andes/commands/reservation"
	"andes/eventstore"
)

// Phase is where the fulfilment of an order stands.
type Phase string

// The phases.
//
//	order.placed ──► AWAITING_PAYMENT ──payment.approved──► REGISTERING ──order.registered──► FULFILLING
//	                  │       │                                │                                  │
//	   payment.rejected   order.cancelled                 order.cancelled                    order.cancelled
//	   (cancel, release)  payment-expiry (cancel, expire)      │                                  │
//	                  │       │                                ▼ (refund)                         │
//	                  │       ▼                                │              order.dispatched    │
//	                  │    SETTLING ──payment.approved──► REFUNDING ◄─────────────────────────────┘
//	                  │       │            (refund)            │                     │
//	                  │    payment.rejected              payment.refunded            ▼
//	                  ▼       ▼                                ▼                  SHIPPED ──order.delivered──► COMPLETED
//	                  └─────CLOSED◄────────────────────────────┘
//
// AWAITING_PAYMENT, SETTLING and REFUNDING ask the gateway again and again (payment-inquiry): a
// fulfilment is never closed while it is unknown whether money was taken. An order that is cancelled
// before its payment is requested is CLOSED at once, without a charge; one that is cancelled before the
// charge has reached the gateway when an inquiry finds none there. An approval that comes after a
// rejection opens a CLOSED fulfilment again for the refund.
const (
	AwaitingPayment Phase = "AWAITING_PAYMENT"
	Registering     Phase = "REGISTERING"
	Fulfilling      Phase = "FULFILLING"
	Shipped         Phase = "SHIPPED"
	Completed       Phase = "COMPLETED"
	Settling        Phase = "SETTLING"
	Refunding       Phase = "REFUNDING"
	Closed          Phase = "CLOSED"
)

// FulfilmentState is a fulfilment's own memory.
type FulfilmentState struct {
	Phase     Phase     `json:"phase"`
	Inquiries int       `json:"inquiries,omitempty"`
	ChangedAt time.Time `json:"changedAt"`
}

// Fulfilment is the process manager of an order: one stream per order.
var Fulfilment = eventstore.NewAggregate(eventstore.Category[FulfilmentState]{
	Name:   "fulfilment",
	Events: []eventstore.Definition[FulfilmentState]{advanced, inquired},
})

// Advanced says that a fulfilment went from one phase to the next.
type Advanced struct {
	From  Phase     `json:"from,omitempty"`
	To    Phase     `json:"to"`
	On    string    `json:"on"`              // the event or deadline
	Cause string    `json:"cause,omitempty"` // the event's id
	At    time.Time `json:"at"`
}

var advanced = eventstore.Define("fulfilment.advanced", func(s *FulfilmentState, e Advanced) {
	s.Phase, s.ChangedAt = e.To, e.At
	if e.From != e.To {
		s.Inquiries = 0
	}
}, eventstore.Doc("The fulfilment of an order entered a phase."))

// Inquired says that the gateway was asked what became of the payment.
type Inquired struct {
	At time.Time `json:"at"`
}

var inquired = eventstore.Define("fulfilment.inquired", func(s *FulfilmentState, _ Inquired) { s.Inquiries++ },
	eventstore.Doc("No word of the gateway came in time; it is asked."))

// Names of the deadlines.
const (
	fulfilmentSaga = "fulfilment"
	paymentInquiry = "payment-inquiry"
	paymentExpiry  = "payment-expiry"
)

// FulfilmentTimes are its deadlines.
type FulfilmentTimes struct {
	Inquiry    time.Duration // without word of the gateway: ask
	MaxInquiry time.Duration // the interval doubles up to here once the order is cancelled
	Expiry     time.Duration // without result: cancel
}

// DefaultFulfilmentTimes are the defaults.
var DefaultFulfilmentTimes = FulfilmentTimes{Inquiry: time.Minute, MaxInquiry: time.Hour, Expiry: 15 * time.Minute}

// FulfilmentManager turns events and deadlines into reactions.
type FulfilmentManager struct {
	Registry *eventstore.Registry
	Executor eventstore.Executor
	Times    FulfilmentTimes
	Logger   *slog.Logger
}

// Handle reacts to an event. It ignores those that it has no transition for.
func (m FulfilmentManager) Handle(ctx context.Context, record eventstore.Record) error {
	if !fulfilmentListens[record.Type] {
		return nil
	}
	event, err := m.Registry.Decode(record)
	if err != nil {
		return eventstore.MarkPermanent(err)
	}
	meta := record.Meta
	meta.CausationID, meta.Actor = record.ID, fulfilmentSaga
	outcome, err := m.Executor.Execute(ctx, eventstore.Request{
		Command: fulfilmentStep{orderID: record.Stream.Key, on: record.Type, cause: record.ID, event: event, times: m.Times},
		Meta:    meta,
	})
	if step, is := outcome.Result.(Advanced); is && err == nil {
		m.Logger.InfoContext(ctx, "fulfilment advanced", "orderId", record.Stream.Key, "on", record.Type,
			"from", step.From, "to", step.To, "correlationId", meta.CorrelationID)
	}
	return err
}

// Reached makes the command for a deadline.
func (m FulfilmentManager) Reached(deadline eventstore.Deadline) eventstore.Command {
	return fulfilmentStep{orderID: deadline.Key, on: deadline.Name, times: m.Times, deadline: &deadline}
}

// Reaches are the deadlines that process managers are told of, by saga.
func (m FulfilmentManager) Reaches() map[string]func(eventstore.Deadline) eventstore.Command {
	return map[string]func(eventstore.Deadline) eventstore.Command{fulfilmentSaga: m.Reached}
}

// fulfilmentStep is one reaction.
type fulfilmentStep struct {
	orderID  string
	on       string
	cause    string
	event    any
	times    FulfilmentTimes
	deadline *eventstore.Deadline
}

// Needs implements eventstore.Command.
func (c fulfilmentStep) Needs() []eventstore.Stream {
	return []eventstore.Stream{
		Fulfilment.Stream(c.orderID), order.Aggregate.Stream(c.orderID),
		payment.Aggregate.Stream(c.orderID), reservation.Aggregate.Stream(c.orderID),
	}
}

// Decide implements eventstore.Command. Its result is the Advanced that it appended, if it did.
func (c fulfilmentStep) Decide(u *eventstore.Unit) (any, error) {
	if c.deadline != nil {
		u.CancelDeadline(*c.deadline)
	}
	state, _ := Fulfilment.Load(u, c.orderID)
	react, listed := fulfilmentTable[trigger{state.Phase, c.on}]
	if !listed {
		return nil, nil
	}
	next, err := react(c, u)
	if err != nil {
		return nil, fmt.Errorf("fulfilment %s in %s on %s: %w", c.orderID, state.Phase, c.on, err)
	}
	if next == state.Phase {
		return nil, nil
	}
	step := Advanced{From: state.Phase, To: next, On: c.on, Cause: c.cause, At: u.Now()}
	Fulfilment.Append(u, c.orderID, step)
	c.wait(u, next)
	return step, nil
}

func (c fulfilmentStep) due(name string, at time.Time) eventstore.Deadline {
	return eventstore.Deadline{Saga: fulfilmentSaga, Key: c.orderID, Name: name, Due: at}
}

// wait sets the deadlines of the phase that was entered and removes those of the one that was left.
func (c fulfilmentStep) wait(u *eventstore.Unit, phase Phase) {
	switch phase {
	case AwaitingPayment:
		u.Schedule(c.due(paymentInquiry, u.Now().Add(c.times.Inquiry)))
		u.Schedule(c.due(paymentExpiry, u.Now().Add(c.times.Expiry)))
	case Settling, Refunding:
		u.Schedule(c.due(paymentInquiry, u.Now().Add(c.times.Inquiry)))
		u.CancelDeadline(c.due(paymentExpiry, time.Time{}))
	default:
		u.CancelDeadline(c.due(paymentInquiry, time.Time{}))
		u.CancelDeadline(c.due(paymentExpiry, time.Time{}))
	}
}

// trigger is a phase and what happens in it.
type trigger struct {
	in Phase
	on string
}

// reaction does what has to be done and gives the next phase.
type reaction func(c fulfilmentStep, u *eventstore.Unit) (Phase, error)

// fulfilmentTable is the process: what is not in it changes nothing.
var fulfilmentTable = map[trigger]reaction{
	{"", "order.placed"}:                  requestPayment,
	{AwaitingPayment, "payment.approved"}: confirmOrRefund,
	{AwaitingPayment, "payment.rejected"}: cancelFor(order.PaymentRejected, Closed),
	{AwaitingPayment, paymentExpiry}:      cancelFor(order.PaymentExpired, Settling),
	{AwaitingPayment, paymentInquiry}:     askGateway(AwaitingPayment),
	{AwaitingPayment, "order.cancelled"}:  enter(Settling),
	{Settling, "payment.approved"}:        refund,
	{Settling, "payment.rejected"}:        enter(Closed),
	{Settling, paymentInquiry}:            askGateway(Settling),
	{Registering, "order.registered"}:     enter(Fulfilling),
	{Registering, "order.dispatched"}:     enter(Shipped),
	{Registering, "order.cancelled"}:      refund,
	{Fulfilling, "order.dispatched"}:      enter(Shipped),
	{Fulfilling, "order.cancelled"}:       refund,
	{Shipped, "order.delivered"}:          enter(Completed),
	{Refunding, "payment.refunded"}:       enter(Closed),
	{Closed, "payment.approved"}:          refundIfTaken,
	{Refunding, paymentInquiry}:           askGateway(Refunding),
}

// fulfilmentListens are the events in the table.
var fulfilmentListens = func() map[string]bool {
	listens := map[string]bool{}
	for row := range fulfilmentTable {
		listens[row.on] = true
	}
	return listens
}()

func enter(phase Phase) reaction {
	return func(fulfilmentStep, *eventstore.Unit) (Phase, error) { return phase, nil }
}

func requestPayment(c fulfilmentStep, u *eventstore.Unit) (Phase, error) {
	placed, ok := c.event.(order.Placed)
	if !ok {
		return "", fmt.Errorf("unexpected event %T", c.event)
	}
	if state, _ := order.Aggregate.Load(u, c.orderID); state.Status == order.Cancelled {
		return Closed, nil
	}
	payment.Request(u, c.orderID, placed.Partner, placed.Total, placed.PaymentToken)
	return AwaitingPayment, nil
}

// confirmOrRefund: the partner may have cancelled while the gateway approved.
func confirmOrRefund(c fulfilmentStep, u *eventstore.Unit) (Phase, error) {
	if order.Confirm(u, c.orderID) {
		return Registering, nil
	}
	return refund(c, u)
}

func cancelFor(reason order.Reason, next Phase) reaction {
	return func(c fulfilmentStep, u *eventstore.Unit) (Phase, error) {
		_, err := order.Cancel{OrderID: c.orderID, Reason: reason}.Decide(u)
		return next, err
	}
}

func refund(c fulfilmentStep, u *eventstore.Unit) (Phase, error) {
	payment.RequestRefund(u, c.orderID)
	return Refunding, nil
}

// refundIfTaken: an approval that was settled long ago may be delivered again.
func refundIfTaken(c fulfilmentStep, u *eventstore.Unit) (Phase, error) {
	if state, _ := payment.Aggregate.Load(u, c.orderID); state.Status != payment.Approved {
		return Closed, nil
	}
	return refund(c, u)
}

// askGateway asks and sets the next question, at doubling intervals.
func askGateway(phase Phase) reaction {
	return func(c fulfilmentStep, u *eventstore.Unit) (Phase, error) {
		payment.Inquire(u, c.orderID)
		state := Fulfilment.Append(u, c.orderID, Inquired{At: u.Now()})
		pause := c.times.Inquiry
		if phase != AwaitingPayment {
			pause = min(c.times.Inquiry<<min(state.Inquiries, 10), c.times.MaxInquiry)
		}
		u.Schedule(c.due(paymentInquiry, u.Now().Add(pause)))
		return phase, nil
	}
}
