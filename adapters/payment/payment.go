// Package payment charges and refunds orders at the payment gateway: the only code that talks to it.
//
// Every effect carries an idempotency key made of the order's id, so that a repeat, whatever its cause, is
// the same charge. The gateway decides later and tells by webhook; an inquiry asks instead, and sends the
// request again if the gateway never got it. What the gateway says is recorded by payment.Report, which
// decides whether it counts.
//
//	payment.requested         ──► POST /charges
//	payment.inquiry_requested ──► GET /charges/{key} or GET /refunds/{key}; 404: POST again
//	payment.refund_requested  ──► POST /refunds
package payment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"

	"andes/commands/order"
	"andes/commands/payment"
	"andes/eventstore"
)

// Caller makes one guarded call: it gives the status of an answer that the system meant and decodes the
// JSON of a 2xx answer; everything else is an error. It repeats calls with an Idempotency-Key by itself.
type Caller interface {
	Call(request *http.Request, answer any) (status int, err error)
}

// Config of the adapter.
type Config struct {
	URL      string // of the gateway, without a slash at its end
	Caller   Caller
	Executor eventstore.Executor
	Reader   eventstore.Reader
	Registry *eventstore.Registry
	Log      *slog.Logger
}

// Adapter talks to the gateway. It is safe for concurrent use.
type Adapter struct{ cfg Config }

// New makes an adapter and reports all that is missing.
func New(cfg Config) (*Adapter, error) {
	var faults []error
	if _, err := url.ParseRequestURI(cfg.URL); err != nil {
		faults = append(faults, fmt.Errorf("payment: %w", err))
	}
	if cfg.Caller == nil || cfg.Executor == nil || cfg.Reader == nil || cfg.Registry == nil {
		faults = append(faults, errors.New("payment: caller, executor, reader and registry are needed"))
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Adapter{cfg: cfg}, errors.Join(faults...)
}

// Handle carries out a command to the gateway.
func (a *Adapter) Handle(ctx context.Context, record eventstore.Record) error {
	event, err := a.cfg.Registry.Decode(record)
	if err != nil {
		return eventstore.MarkPermanent(fmt.Errorf("payment: %w", err))
	}
	job := job{Adapter: a, meta: eventstore.Metadata{
		CorrelationID: record.Meta.CorrelationID, CausationID: record.ID, Actor: "payment", TraceParent: record.Meta.TraceParent,
	}}
	switch command := event.(type) {
	case payment.ChargeRequested:
		job.orderID = command.OrderID
		err = job.chargeFor(ctx, command)
	case payment.InquiryRequested:
		job.orderID = command.OrderID
		err = job.inquire(ctx)
	case payment.RefundWasRequested:
		job.orderID = command.OrderID
		err = job.refundFor(ctx)
	default:
		err = eventstore.MarkPermanent(fmt.Errorf("%s is no command to the gateway", record.Type))
	}
	if err != nil {
		return fmt.Errorf("payment: order %s: %w", job.orderID, err)
	}
	return nil
}

// job is one command of one order.
type job struct {
	*Adapter
	orderID string
	meta    eventstore.Metadata
}

func (j job) chargeFor(ctx context.Context, command payment.ChargeRequested) error {
	state, err := j.state(ctx)
	if err != nil || state.Status != payment.Requested {
		return err // decided already, by a webhook that was faster than the command's repeat
	}
	return j.charge(ctx, command)
}

func (j job) refundFor(ctx context.Context) error {
	state, err := j.state(ctx)
	if err != nil || state.Status != payment.RefundRequested {
		return err
	}
	return j.refund(ctx, state)
}

// inquire asks for what is open: the charge, or the refund.
func (j job) inquire(ctx context.Context) error {
	state, err := j.state(ctx)
	if err != nil {
		return err
	}
	switch state.Status {
	case payment.Requested:
		return j.inquireCharge(ctx)
	case payment.RefundRequested:
		return j.inquireRefund(ctx, state)
	}
	return nil
}

func (j job) state(ctx context.Context) (payment.State, error) {
	stream := payment.Aggregate.Stream(j.orderID)
	states, err := j.cfg.Reader.States(ctx, []eventstore.Stream{stream})
	if err != nil {
		return payment.State{}, fmt.Errorf("read the payment: %w", err)
	}
	state, err := payment.Aggregate.Decode(states[stream].State)
	if err != nil {
		return payment.State{}, eventstore.MarkPermanent(fmt.Errorf("read the payment: %w", err))
	}
	if state.Status == "" {
		return state, errors.New("the payment is not there yet")
	}
	return state, nil
}

// cancelled tells whether the order was cancelled, so that a late command must not charge it any more.
func (j job) cancelled(ctx context.Context) (bool, error) {
	stream := order.Aggregate.Stream(j.orderID)
	states, err := j.cfg.Reader.States(ctx, []eventstore.Stream{stream})
	if err != nil {
		return false, fmt.Errorf("read the order: %w", err)
	}
	state, err := order.Aggregate.Decode(states[stream].State)
	if err != nil {
		return false, eventstore.MarkPermanent(fmt.Errorf("read the order: %w", err))
	}
	return state.Status == order.Cancelled, nil
}

// request finds the command that asked for the charge: only it has the token.
func (j job) request(ctx context.Context) (payment.ChargeRequested, error) {
	records, err := j.cfg.Reader.ReadStream(ctx, payment.Aggregate.Stream(j.orderID), 0, requestWithin)
	if err != nil {
		return payment.ChargeRequested{}, fmt.Errorf("read the payment's events: %w", err)
	}
	for _, record := range records {
		event, err := j.cfg.Registry.Decode(record)
		if err != nil {
			return payment.ChargeRequested{}, eventstore.MarkPermanent(err)
		}
		if command, is := event.(payment.ChargeRequested); is {
			return command, nil
		}
	}
	return payment.ChargeRequested{}, eventstore.MarkPermanent(errors.New("the payment has no request for a charge"))
}

// requestWithin is within how many events of its stream a charge is requested. Only anomalies, which are
// bounded too, can come before it.
const requestWithin = 200

// report records what the gateway said.
func (j job) report(ctx context.Context, report payment.Report) error {
	report.OrderID = j.orderID
	if _, err := j.cfg.Executor.Execute(ctx, eventstore.Request{Command: report, Meta: j.meta}); err != nil {
		return fmt.Errorf("record %s: %w", report.Kind, err)
	}
	j.cfg.Log.InfoContext(ctx, "the gateway answered", "orderId", j.orderID, "report", report.Kind,
		"chargeId", report.ChargeID, "refundId", report.RefundID, "correlationId", j.meta.CorrelationID)
	return nil
}

// undecided leaves it to the webhook, or to a later inquiry, to tell the result.
func (j job) undecided(ctx context.Context, name, id string) error {
	j.cfg.Log.InfoContext(ctx, "the gateway will tell later", "orderId", j.orderID, name, id, "correlationId", j.meta.CorrelationID)
	return nil
}
