package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"andes/eventstore"
)

type reply struct {
	status     int
	body       []byte
	retryAfter time.Duration
}

// attempt sends the request once, if it may, and judges what comes of it.
func (g *Guard) attempt(request *http.Request, settings *Settings) (reply, error) {
	ctx := request.Context()
	if !g.breaker.admits() { // nobody queues for a system that is known to be away
		return reply{}, g.notSent(ctx, Refused, ErrOpen)
	}
	if err := g.enter(ctx, settings); err != nil {
		return reply{}, g.notSent(ctx, Busy, err)
	}
	defer func() { g.places.leave(g.settings.Load().Concurrency) }()
	permit, admitted := g.breaker.admit()
	if !admitted {
		return reply{}, g.notSent(ctx, Refused, ErrOpen)
	}
	outcome := Failure
	defer func() { g.breaker.settle(permit, outcome.verdict()) }()
	flying := g.metrics.inFlight.WithLabelValues(g.system)
	flying.Inc()
	defer flying.Dec()

	begun := time.Now()
	got, outcome, err := g.once(request, settings)
	took := time.Since(begun)
	if err == nil {
		if took >= settings.Breaker.SlowAfter {
			outcome = Slow
		}
		g.observe(outcome, took)
		return got, nil
	}
	if ctx.Err() != nil {
		outcome = Ignored
	}
	return got, g.end(ctx, outcome, got.status, took, err)
}

// enter waits for a place in the bulkhead and then for the call's turn, for QueueWait in all.
func (g *Guard) enter(ctx context.Context, settings *Settings) error {
	begun := time.Now()
	err := g.places.enter(ctx, settings.Concurrency, settings.QueueWait)
	waited := time.Since(begun)
	g.metrics.waits.WithLabelValues(g.system, "place").Observe(waited.Seconds())
	if err != nil {
		return err
	}
	err = g.pace.enter(ctx, settings.Rate, settings.QueueWait-waited)
	g.metrics.waits.WithLabelValues(g.system, "turn").Observe((time.Since(begun) - waited).Seconds())
	if err != nil {
		g.places.leave(g.settings.Load().Concurrency)
	}
	return err
}

// once sends the request and reads the answer, within the timeout.
func (g *Guard) once(request *http.Request, settings *Settings) (reply, Outcome, error) {
	limited, cancel := context.WithTimeout(request.Context(), settings.Timeout)
	defer cancel()
	got, err := g.send(limited, request, settings.MaxBody)
	switch {
	case err != nil && limited.Err() != nil:
		return got, Timeout, ErrTimeout
	case err != nil:
		return got, Failure, err
	case got.status == http.StatusTooManyRequests:
		return got, Throttled, ErrStatus
	case got.status >= 500 || got.status == http.StatusRequestTimeout || got.status == http.StatusTooEarly:
		return got, Failure, ErrStatus
	}
	if err := whole(got, request.Method); err != nil {
		return got, Failure, err
	}
	return got, Success, nil
}

// notSent ends an attempt that the system knows nothing of, also if the caller's time ran out meanwhile.
func (g *Guard) notSent(ctx context.Context, outcome Outcome, err error) error {
	return eventstore.MarkUnavailable(g.end(ctx, outcome, 0, 0, err))
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
	got := reply{status: response.StatusCode, retryAfter: asked(response.Header, time.Now())}
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
