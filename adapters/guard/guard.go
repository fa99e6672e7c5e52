// Package guard stands between an adapter and its legacy system, so that neither can hurt the other.
//
//	Call ──► attempts ──► bulkhead ──► timeout ──► HTTP, answer read and checked
//	            ▲                                     │
//	            └── only idempotent calls, only ──────┘
//	                after failure, timeout, throttled
//
// Every attempt has one outcome. An answer that the system meant (2xx to 4xx) is a success, whatever it
// says; 408, 425, 429 and 5xx are not, nor is an answer that is cut off, too long or not the JSON it
// claims to be. A call that its own caller gives up is ignored: it says nothing about the system.
//
// The settings are one immutable value that is swapped atomically.
package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Outcome says how one attempt ended.
type Outcome string

// The outcomes.
const (
	Success   Outcome = "success"
	Failure   Outcome = "failure"   // no connection, 5xx, or an answer that is broken
	Timeout   Outcome = "timeout"   // no complete answer in time
	Throttled Outcome = "throttled" // 429
	Busy      Outcome = "busy"      // no place in the bulkhead; nothing was sent
	Ignored   Outcome = "ignored"   // the caller gave up
)

// Reasons of faults.
var (
	ErrBusy    = errors.New("too many calls are in flight")
	ErrTimeout = errors.New("no complete answer in time")
	ErrBroken  = errors.New("the answer is broken")
	ErrStatus  = errors.New("the system could not answer")
)

// Fault is a call without an answer that the system meant. All faults may pass with time.
type Fault struct {
	System  string
	Outcome Outcome
	Status  int // of the HTTP answer; 0: none
	Err     error
}

func (f *Fault) Error() string {
	if f.Status != 0 {
		return fmt.Sprintf("%s: %s: status %d: %v", f.System, f.Outcome, f.Status, f.Err)
	}
	return fmt.Sprintf("%s: %s: %v", f.System, f.Outcome, f.Err)
}

func (f *Fault) Unwrap() error { return f.Err }

// MayHaveArrived is false when the system certainly never got the request, as its last attempt sent it.
func (f *Fault) MayHaveArrived() bool {
	connection, is := errors.AsType[*net.OpError](f.Err)
	return f.Outcome != Busy && !(is && connection.Op == "dial")
}

// Config of one guard.
type Config struct {
	System    string // as in metrics and errors: erp, wms …
	Settings  Settings
	Transport http.RoundTripper // nil: one of its own with as many idle connections as calls
	Metrics   *Metrics          // nil: counted, but not shown
	Watch     func(Observation) // nil: nobody; must not block
}

// Guard is the only way to one legacy system. It is safe for concurrent use.
type Guard struct {
	system   string
	client   *http.Client
	metrics  *Metrics
	watch    func(Observation)
	settings atomic.Pointer[Settings]
	places   bulkhead
}

// New makes a guard.
func New(cfg Config) (*Guard, error) {
	if cfg.System == "" {
		return nil, errors.New("guard: the system has no name")
	}
	if cfg.Transport == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = max(cfg.Settings.Concurrency, 1)
		cfg.Transport = transport
	}
	if cfg.Metrics == nil {
		cfg.Metrics = unregistered()
	}
	g := &Guard{system: cfg.System, metrics: cfg.Metrics, watch: cfg.Watch}
	// A redirect would carry a charge's token to where nobody meant it to go; it is an answer like any
	// other, and one that no adapter expects.
	g.client = &http.Client{Transport: cfg.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return g, g.Set(cfg.Settings)
}

// Settings gives the settings of this moment.
func (g *Guard) Settings() Settings { return *g.settings.Load() }

// Set replaces the settings for the calls that begin from now on.
func (g *Guard) Set(settings Settings) error {
	if err := settings.Validate(); err != nil {
		return fmt.Errorf("guard of %s: %w", g.system, err)
	}
	g.settings.Store(&settings)
	return nil
}

// Call sends the request and gives the status of an answer that the system meant. The JSON body of a 2xx
// answer is decoded into answer, which may be nil. A request with a body must have GetBody, as
// http.NewRequest sets it.
func (g *Guard) Call(request *http.Request, answer any) (int, error) {
	settings := g.settings.Load()
	schedule := &schedule{settings: settings, ctx: request.Context(), attempts: 1}
	if idempotent(request) {
		schedule.attempts = settings.Attempts
	}
	got, err := backoff.RetryWithData(func() (reply, error) {
		got, err := g.attempt(request, settings)
		schedule.retryAfter = got.retryAfter
		if fault, is := errors.AsType[*Fault](err); is && fault.Outcome != Busy {
			return got, err
		}
		if err != nil {
			return got, backoff.Permanent(err)
		}
		return got, nil
	}, backoff.WithContext(schedule, request.Context()))
	if err != nil {
		return got.status, err
	}
	if answer == nil || got.status/100 != 2 {
		return got.status, nil
	}
	if err := json.Unmarshal(got.body, answer); err != nil {
		return got.status, &Fault{System: g.system, Outcome: Failure, Status: got.status, Err: fmt.Errorf("%w: %w", ErrBroken, err)}
	}
	return got.status, nil
}

// idempotent tells whether the request may be sent twice without doing its work twice.
func idempotent(request *http.Request) bool {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete:
		return true
	}
	return request.Header.Get("Idempotency-Key") != ""
}

type reply struct {
	status     int
	body       []byte
	retryAfter time.Duration
}

// attempt sends the request once and judges what comes of it.
func (g *Guard) attempt(request *http.Request, settings *Settings) (reply, error) {
	ctx := request.Context()
	if err := g.places.enter(ctx, settings.Concurrency, settings.QueueWait); err != nil {
		return reply{}, g.end(ctx, Busy, 0, 0, err)
	}
	defer func() { g.places.leave(g.settings.Load().Concurrency) }()
	flying := g.metrics.inFlight.WithLabelValues(g.system)
	flying.Inc()
	defer flying.Dec()

	limited, cancel := context.WithTimeout(ctx, settings.Timeout)
	defer cancel()
	begun := time.Now()
	got, err := g.send(limited, request, settings.MaxBody)
	took := time.Since(begun)
	switch {
	case err != nil && limited.Err() != nil:
		return got, g.end(ctx, Timeout, got.status, took, ErrTimeout)
	case err != nil:
		return got, g.end(ctx, Failure, got.status, took, err)
	case got.status == http.StatusTooManyRequests:
		return got, g.end(ctx, Throttled, got.status, took, ErrStatus)
	case got.status >= 500 || got.status == http.StatusRequestTimeout || got.status == http.StatusTooEarly:
		return got, g.end(ctx, Failure, got.status, took, ErrStatus)
	}
	if err := whole(got, request.Method); err != nil {
		return got, g.end(ctx, Failure, got.status, took, err)
	}
	g.observe(Success, took)
	return got, nil
}

// end counts an attempt that failed. What the caller gave up is its own affair.
func (g *Guard) end(ctx context.Context, outcome Outcome, status int, took time.Duration, err error) error {
	if ctx.Err() != nil {
		g.observe(Ignored, took)
		return fmt.Errorf("%s: %w", g.system, ctx.Err())
	}
	g.observe(outcome, took)
	if errors.Is(err, context.Canceled) {
		// Not ours: hide it, or it would pass for a shutdown.
		err = errors.New(err.Error())
	}
	return &Fault{System: g.system, Outcome: outcome, Status: status, Err: err}
}

func (g *Guard) send(ctx context.Context, request *http.Request, maxBody int64) (reply, error) {
	once := request.Clone(ctx)
	if request.GetBody != nil {
		body, err := request.GetBody()
		if err != nil {
			return reply{}, fmt.Errorf("body of the request: %w", err)
		}
		once.Body = body
	}
	response, err := g.client.Do(once)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = response.Body.Close() }() // it was read, or it is not wanted
	got := reply{status: response.StatusCode, retryAfter: retryAfter(response.Header, time.Now())}
	got.body, err = io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if err != nil {
		return got, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if int64(len(got.body)) > maxBody {
		return got, fmt.Errorf("%w: it is longer than %d bytes", ErrBroken, maxBody)
	}
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || !isJSON(kind) {
		got.body = nil
	}
	return got, nil
}

func isJSON(kind string) bool { return kind == "application/json" || strings.HasSuffix(kind, "+json") }

// whole checks that the answer is the system's own. A login page with status 200 is none, and neither is
// the 404 of a proxy whose backend is gone: it must not pass for "there is no such order".
func whole(got reply, method string) error {
	if got.status/100 != 2 && got.status != http.StatusNotFound || got.status == http.StatusNoContent || method == http.MethodHead {
		return nil
	}
	if len(bytes.TrimSpace(got.body)) == 0 || !json.Valid(got.body) {
		return fmt.Errorf("%w: it is not JSON", ErrBroken)
	}
	return nil
}
