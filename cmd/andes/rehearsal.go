package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"andes/adapters/oms"
	"andes/adapters/payment"
	"andes/adapters/postgres"
	"andes/adapters/webhook"
	"andes/deadletters"
	"andes/eventstore"
	"andes/sagas"
)

// rehearsal is a consumer's handler over a write side that writes nothing and a network that reaches nobody.
type rehearsal struct {
	preview *postgres.Preview
	calls   *rehearsedCalls
	handle  func(ctx context.Context, record eventstore.Record) error
}

// rehearseTimeout bounds a handler.
const rehearseTimeout = 5 * time.Second

// rehearse begins a rehearsal of a consumer. The handlers are those of the roles; what differs is what they
// are given to work with.
func (p *platform) rehearse(_ context.Context, consumer string) (deadletters.Rehearsal, error) {
	r := &rehearsal{preview: postgres.NewPreview(p.store.DB, time.Now, newID), calls: &rehearsedCalls{}}
	quiet := slog.New(slog.DiscardHandler)
	refuse := func(err error) (deadletters.Rehearsal, error) {
		return nil, eventstore.Refuse(deadletters.CodeNotRehearsable, "%s can't be rehearsed here: %v", consumer, err)
	}
	switch consumer {
	case sagaName:
		times := sagas.DefaultFulfilmentTimes
		times.Inquiry, times.Expiry = p.settings.PaymentInquiry, p.settings.PaymentExpiry
		r.handle = sagas.FulfilmentManager{Registry: p.registry, Executor: r.preview, Times: times, Logger: quiet}.Handle
	case omsName:
		adapter, err := oms.New(oms.Config{
			URL: p.settings.OMSURL, Settle: p.settings.OMSSettle, Caller: r.calls, Executor: r.preview, Reader: r.preview, Registry: p.registry, Log: quiet,
		})
		if err != nil {
			return refuse(err)
		}
		r.handle = adapter.Handle
	case paymentName:
		adapter, err := payment.New(payment.Config{
			URL: p.settings.PaymentURL, Caller: r.calls, Executor: r.preview, Reader: r.preview, Registry: p.registry, Log: quiet,
		})
		if err != nil {
			return refuse(err)
		}
		r.handle = adapter.Handle
	case webhookName:
		sender, err := webhook.New(webhook.Config{
			Executor: r.preview, Registry: p.registry, Subscriptions: p.store.Subscriptions, Order: p.store.Order,
			Log: quiet, Development: p.settings.development(), Transport: r.calls,
		})
		if err != nil {
			return refuse(err)
		}
		r.handle = sender.Handle
	default:
		return refuse(errors.New("it has no handler for single events"))
	}
	return r, nil
}

// Handle implements deadletters.Rehearsal.
func (r *rehearsal) Handle(ctx context.Context, record eventstore.Record) (deadletters.Effects, error) {
	ctx, cancel := context.WithTimeout(ctx, rehearseTimeout)
	defer cancel()
	err := r.handle(ctx, record)
	if errors.Is(err, errRehearsed) {
		err = nil // the call says so
	}
	return deadletters.Effects{Events: r.preview.Take(), Calls: r.calls.take()}, err
}

// Close implements deadletters.Rehearsal.
func (r *rehearsal) Close() {}

// errRehearsed ends a handler where it would need the answer of a call that was not made.
var errRehearsed = errors.New("a rehearsal calls nobody")

// rehearsedCalls notes calls instead of making them. As the Caller of a legacy adapter it takes what is
// asked for as not found; at a request that would change something the handler ends. As the network of the
// webhooks it takes every delivery as accepted.
type rehearsedCalls struct {
	mu    sync.Mutex
	calls []deadletters.Call
}

func (c *rehearsedCalls) note(request *http.Request, target, assumed string) {
	size := int(max(request.ContentLength, 0))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, deadletters.Call{Method: request.Method, URL: target, Bytes: size, Assumed: assumed})
}

func (c *rehearsedCalls) take() []deadletters.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}

// Call implements the legacy adapters' Caller.
func (c *rehearsedCalls) Call(request *http.Request, _ any) (int, error) {
	if request.Method == http.MethodGet {
		c.note(request, request.URL.Redacted(), "404, not there yet")
		return http.StatusNotFound, nil
	}
	c.note(request, request.URL.Redacted(), "none; what follows depends on it")
	return 0, errRehearsed
}

// RoundTrip implements http.RoundTripper. A partner's path may hold a secret of its own.
func (c *rehearsedCalls) RoundTrip(request *http.Request) (*http.Response, error) {
	c.note(request, request.URL.Scheme+"://"+request.URL.Host+"/…", "200, accepted")
	if request.Body != nil {
		_ = request.Body.Close()
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(nil)), Request: request,
	}, nil
}
