// Package oms registers confirmed orders in the order registry: the only code that talks to it.
//
// The registry does not recognise a repeated POST, so the adapter never sends one blindly:
//
//	GET /orders/{ref} ──200──► registered
//	      │404
//	      ▼
//	POST /orders ──201──► registered
//	      │     └──409──► GET again ──200──► registered
//	      ▼
//	no clear answer: it may have been done. The command fails and is delivered again, and until the
//	registry had time to finish (Settle) it is only asked, never posted to.
//
// Commands of one order must come one after the other.
package oms

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"andes/commands/order"
	"andes/eventstore"
)

// System is an order registry.
type System interface {
	// Find gives the registry's id of an order that is registered completely; "" is not found.
	Find(ctx context.Context, orderID string) (omsID string, err error)
	// Post registers an order that was not found, and gives its id. With ErrExists it was there, with an error
	// that is eventstore.Permanent, or says that it can't have arrived, it is certainly not there now.
	Post(ctx context.Context, request order.RegistrationRequested) (omsID string, err error)
	// Cancel takes an order off, if it is found. inTime is false where its goods are leaving.
	Cancel(ctx context.Context, orderID string) (found, inTime bool, err error)
}

// ErrExists is a registry's answer to a second Post, where it notices.
var ErrExists = errors.New("the order is registered already")

// Config of the adapter.
type Config struct {
	URL      string // of the OMS, without a slash at its end
	Caller   Caller
	System   System // nil: the one at URL, called through Caller
	Executor eventstore.Executor
	Reader   eventstore.Reader
	Registry *eventstore.Registry
	Log      *slog.Logger
	Now      func() time.Time // nil: time.Now
	Settle   time.Duration    // how long a POST without an answer may still be at work; 0: DefaultSettle
}

// DefaultSettle is well below the first retry topic's minute.
const DefaultSettle = 30 * time.Second

// ErrUnsettled is the failure of a registration whose POST has no clear answer yet. It may pass, but not
// at once: an immediate repeat is pointless.
var ErrUnsettled = errors.New("the OMS may have registered the order")

// Adapter registers orders. It is safe for concurrent use.
type Adapter struct {
	cfg  Config
	open unsettled
}

// New makes an adapter and reports all that is missing.
func New(cfg Config) (*Adapter, error) {
	var faults []error
	if cfg.System == nil {
		if _, err := url.ParseRequestURI(cfg.URL); err != nil {
			faults = append(faults, fmt.Errorf("oms: %w", err))
		}
		if cfg.Caller == nil {
			faults = append(faults, errors.New("oms: no caller"))
		}
		cfg.System = remote{url: cfg.URL, caller: cfg.Caller}
	}
	if cfg.Executor == nil || cfg.Reader == nil || cfg.Registry == nil {
		faults = append(faults, errors.New("oms: executor, reader and registry are needed"))
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Settle == 0 {
		cfg.Settle = DefaultSettle
	}
	return &Adapter{cfg: cfg}, errors.Join(faults...)
}

// errForeign is the failure of a command that names another order than the one that it is of.
var errForeign = eventstore.MarkPermanent(errors.New("oms: the command is not about its own order"))

// Handle carries out a command to the OMS.
func (a *Adapter) Handle(ctx context.Context, record eventstore.Record) error {
	event, err := a.cfg.Registry.Decode(record)
	if err != nil {
		return eventstore.MarkPermanent(fmt.Errorf("oms: %w", err))
	}
	switch wanted := event.(type) {
	case order.RegistrationRequested:
		if wanted.OrderID != record.Stream.Key {
			return errForeign
		}
		return a.carryOut(ctx, record, wanted)
	case order.CancellationWasRequested:
		if wanted.OrderID != record.Stream.Key {
			return errForeign
		}
		return a.withdraw(ctx, record, wanted)
	}
	return eventstore.MarkPermanent(fmt.Errorf("oms: %s is no command to the OMS", record.Type))
}

// carryOut registers the order and records the OMS's id of it.
func (a *Adapter) carryOut(ctx context.Context, record eventstore.Record, request order.RegistrationRequested) error {
	wanted, err := a.stillWanted(ctx, request.OrderID)
	if err != nil || !wanted {
		return err
	}
	omsID, err := a.register(ctx, request)
	if err != nil {
		return fmt.Errorf("oms: register order %s: %w", request.OrderID, err)
	}
	if err := a.record(ctx, record, order.Register{OrderID: request.OrderID, OMSID: omsID}); err != nil {
		return fmt.Errorf("oms: record the registration of order %s: %w", request.OrderID, err)
	}
	a.open.settled(request.OrderID)
	a.cfg.Log.InfoContext(ctx, "order registered", "orderId", request.OrderID, "omsId", omsID, "correlationId", record.Meta.CorrelationID)
	return nil
}

// record tells the write side what the OMS did because of a record.
func (a *Adapter) record(ctx context.Context, cause eventstore.Record, done eventstore.Command) error {
	_, err := a.cfg.Executor.Execute(ctx, eventstore.Request{Command: done, Meta: eventstore.Metadata{
		CorrelationID: cause.Meta.CorrelationID, CausationID: cause.ID, Actor: "oms", TraceParent: cause.Meta.TraceParent,
	}})
	return err
}

// stillWanted tells whether the order is to be registered: it is not yet, and nobody wants it cancelled.
func (a *Adapter) stillWanted(ctx context.Context, orderID string) (bool, error) {
	stream := order.Aggregate.Stream(orderID)
	states, err := a.cfg.Reader.States(ctx, []eventstore.Stream{stream})
	if err != nil {
		return false, fmt.Errorf("oms: read order %s: %w", orderID, err)
	}
	state, err := order.Aggregate.Decode(states[stream].State)
	if err != nil {
		return false, eventstore.MarkPermanent(fmt.Errorf("oms: read order %s: %w", orderID, err))
	}
	return state.OMSSync != order.OMSRegistered && state.Status != order.Cancelled && state.Cancellation != order.CancellationRequested, nil
}

// register gives the OMS's id of the order.
func (a *Adapter) register(ctx context.Context, request order.RegistrationRequested) (string, error) {
	omsID, err := a.cfg.System.Find(ctx, request.OrderID)
	if err != nil || omsID != "" {
		return omsID, err
	}
	if a.open.since(request.OrderID, a.cfg.Now(), a.cfg.Settle) {
		return "", fmt.Errorf("%w; it is asked again later", ErrUnsettled)
	}
	a.open.begin(request.OrderID, a.cfg.Now())
	omsID, err = a.cfg.System.Post(ctx, request)
	switch {
	case errors.Is(err, ErrExists):
		return a.readBack(ctx, request.OrderID)
	case err != nil && eventstore.Classify(err) != eventstore.Permanent && mayHaveArrived(err):
		return "", fmt.Errorf("post: %w: %w", ErrUnsettled, err)
	case err != nil:
		a.open.settled(request.OrderID)
		return "", fmt.Errorf("post: %w", err)
	}
	return omsID, nil
}

func (a *Adapter) readBack(ctx context.Context, orderID string) (string, error) {
	omsID, err := a.cfg.System.Find(ctx, orderID)
	if err == nil && omsID == "" {
		err = errors.New("the OMS says the order exists and does not find it")
	}
	return omsID, err
}

// mayHaveArrived tells whether a call that failed may have done its work. Only the caller's own word that
// it was never sent counts.
func mayHaveArrived(err error) bool {
	var fault interface {
		error
		MayHaveArrived() bool
	}
	return !errors.As(err, &fault) || fault.MayHaveArrived()
}
