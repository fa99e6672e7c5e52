// Package guard stands between an adapter and its legacy system, so that neither can hurt the other.
//
//	Call ──► attempts ──► bulkhead ──► rate ──► breaker ──► timeout ──► HTTP, answer read and checked
//	            ▲                                                           │
//	            └── only idempotent calls, only after failure, timeout, ────┘
//	                throttled
//
// Every attempt has one outcome. An answer that the system meant (2xx to 4xx) is a success, whatever it
// says, and slow if it took long; 408, 425, 429 and 5xx are not, nor is an answer that is cut off, too long
// or not the JSON it claims to be. A call that its own caller gives up is ignored: it says nothing about the
// system, so a caller should have more time than the call. Neither does one that was not sent, because there was no place for it or the breaker is open:
// such a call is eventstore.Unavailable, "not now", and costs the message behind it no attempt.
//
// The breaker keeps calls from a system that fails, for both their sakes:
//
//	          of the last Window results, at least MinCalls,
//	          FailPercent are failures, and so is this one
//	┌────────┐                                              ┌──────┐
//	│ closed │─────────────────────────────────────────────►│ open │◄───────────────┐
//	└────────┘                                              └──────┘                │
//	     ▲                                                      │ an attempt, a pause after it opened
//	     │                                                      ▼                   │
//	     │                                               ┌───────────┐              │
//	     └───────────────────────────────────────────────│ half-open │──────────────┘
//	          Probes of them succeeded                   └───────────┘  a probe failed, or has no
//	                                                                    result after ProbeWait
//
// The pause is OpenFor, or begins with OpenFirst and doubles up to OpenFor each time that the probes fail: then it is never
// longer than the outage was so far, give or take its first seconds, and a system that stays dead is asked no more often.
//
// Closed lets every attempt through, open none, half-open Probes of them; a probe whose caller gives up
// gives its place back. Each change begins a generation, and the result of an attempt only counts in the
// generation that let it through: what was sent before the breaker opened can't close it. Each process has
// breakers of its own.
//
// Who works through a queue asks Ready first, and so pauses while the breaker is open. The settings are one
// immutable value that is swapped atomically; the breaker always goes by the newest.
package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"andes/eventstore"
)

// Outcome says how one attempt ended.
type Outcome string

// The outcomes.
const (
	Success   Outcome = "success"
	Slow      Outcome = "slow"      // a success that took long
	Failure   Outcome = "failure"   // no connection, 5xx, or an answer that is broken
	Timeout   Outcome = "timeout"   // no complete answer in time
	Throttled Outcome = "throttled" // 429
	Busy      Outcome = "busy"      // no place in the bulkhead or no turn in time; nothing was sent
	Refused   Outcome = "refused"   // the breaker is open; nothing was sent
	Ignored   Outcome = "ignored"   // the caller gave up
)

// sent tells whether the system may have noticed the attempt.
func (o Outcome) sent() bool { return o != Busy && o != Refused }

// verdict is what the outcome says of the system.
func (o Outcome) verdict() verdict {
	switch o {
	case Success:
		return healthy
	case Slow:
		return sluggish
	case Failure, Timeout, Throttled:
		return ill
	}
	return silent
}

// Reasons of faults.
var (
	ErrBusy    = errors.New("too many calls are in flight")
	ErrOpen    = errors.New("the breaker is open")
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
	return f.Outcome.sent() && !(is && connection.Op == "dial")
}

// Config of one guard.
type Config struct {
	System    string // as in metrics and errors: erp, wms …
	Settings  Settings
	Transport http.RoundTripper // nil: one of its own
	Metrics   *Metrics          // nil: counted, but not shown
	Watch     func(Observation) // nil: nobody; must not block
	Log       *slog.Logger      // of the breaker's changes; nil: slog.Default
}

// Guard is the only way to one legacy system. It is safe for concurrent use.
type Guard struct {
	system   string
	client   *http.Client
	metrics  *Metrics
	watch    func(Observation)
	log      *slog.Logger
	settings atomic.Pointer[Settings]
	places   bulkhead
	pace     pace
	breaker  *breaker

	configured Settings // those it started with
}

// New makes a guard.
func New(cfg Config) (*Guard, error) {
	if cfg.System == "" {
		return nil, errors.New("guard: the system has no name")
	}
	if cfg.Transport == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = transport.MaxIdleConns // the calls at once may become more
		cfg.Transport = transport
	}
	if cfg.Metrics == nil {
		cfg.Metrics = unregistered()
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if err := cfg.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("guard of %s: %w", cfg.System, err)
	}
	g := &Guard{system: cfg.System, metrics: cfg.Metrics, watch: cfg.Watch, log: cfg.Log, pace: pace{begun: time.Now()}, configured: cfg.Settings}
	g.settings.Store(&cfg.Settings)
	g.breaker = newBreaker(func() *Breaker { return &g.settings.Load().Breaker }, g.changed)
	g.metrics.show(g.system, Closed)
	// A redirect would carry a charge's token to where nobody meant it to go; it is an answer like any
	// other, and one that no adapter expects.
	g.client = &http.Client{Transport: cfg.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return g, nil
}

// Settings gives the settings of this moment.
func (g *Guard) Settings() Settings { return *g.settings.Load() }

// Change replaces the settings by what change makes of them; it may be asked more than once. Those of one
// call stay as they were when it began, except for the breaker's.
func (g *Guard) Change(change func(Settings) Settings) error {
	for {
		old := g.settings.Load()
		settings := change(*old)
		if err := settings.Validate(); err != nil {
			return fmt.Errorf("guard of %s: %w", g.system, err)
		}
		if g.settings.CompareAndSwap(old, &settings) {
			g.places.widen(settings.Concurrency)
			g.breaker.reconsider()
			return nil
		}
	}
}

// Ready blocks while the breaker is open. When it is time for probes it lets as many go on as there are to
// be made; one of them that makes no call after all holds up the others for ProbeWait. It fails when ctx is
// done.
func (g *Guard) Ready(ctx context.Context) error { return g.breaker.ready(ctx) }

// Away tells whether a call would be refused now because the breaker is open.
func (g *Guard) Away() bool { return !g.breaker.admits() }

// Call sends the request and gives the status of an answer that the system meant. The JSON body of a 2xx
// answer is decoded into answer, which may be nil. A request with a body must have GetBody, as
// http.NewRequest sets it.
func (g *Guard) Call(request *http.Request, answer any) (int, error) {
	settings := g.settings.Load()
	schedule := &schedule{settings: settings, ctx: request.Context(), attempts: 1}
	if idempotent(request) {
		schedule.attempts = settings.Attempts
	}
	var tried tries
	got, err := backoff.RetryWithData(func() (reply, error) {
		got, err := g.attempt(request, settings)
		schedule.retryAfter = got.retryAfter
		return tried.add(got, err)
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

// tries is what the attempts of one call came to.
type tries struct {
	got   reply
	fault *Fault // of the last one that was sent
}

// add takes an attempt, and ends the call where another one makes no sense. A call whose repeat was not sent
// ends as the attempt before it did: it was tried, and is to be blamed for that.
func (t *tries) add(got reply, err error) (reply, error) {
	if err == nil {
		return got, nil
	}
	if fault, is := errors.AsType[*Fault](err); is && fault.Outcome.sent() {
		t.got, t.fault = got, fault
		return got, err
	}
	if t.fault != nil && eventstore.Classify(err) == eventstore.Unavailable {
		got, err = t.got, t.fault
	}
	return got, backoff.Permanent(err)
}

// idempotent tells whether the request may be sent twice without doing its work twice.
func idempotent(request *http.Request) bool {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete:
		return true
	}
	return request.Header.Get("Idempotency-Key") != ""
}
