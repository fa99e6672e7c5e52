package sim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxBodyBytes     = 4 << 20
	maxCallsInFlight = 20_000
	maxQueueWait     = 5 * time.Second
)

type verdict int

const (
	verdictWork verdict = iota
	verdictCut
	verdictLeft
	verdictBusy
	verdictFail
)

// Handler serves the simulated system and the lab's door.
func (c *Core[K]) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/_lab/") {
			r.Body = http.MaxBytesReader(w, r.Body, maxLabBodyBytes)
			c.lab.ServeHTTP(w, r)
			return
		}
		c.serve(w, r)
	})
}

func (c *Core[K]) serve(w http.ResponseWriter, r *http.Request) {
	c.calls.arrive(time.Now())
	_, route := c.api.Handler(r)
	if route == "" {
		route = "unknown"
	}
	if c.inFlight.Add(1) > maxCallsInFlight {
		c.inFlight.Add(-1)
		c.refuse(w, route, http.StatusServiceUnavailable, "too many calls in flight")
		return
	}
	defer c.inFlight.Add(-1)
	// The whole body is read before anything else: only then does net/http
	// notice that the client of a hanging call has left.
	if err := bufferBody(w, r); err != nil {
		c.refuse(w, route, http.StatusRequestEntityTooLarge, "body cannot be read: "+err.Error())
		return
	}
	switch c.pass(r.Context()) {
	case verdictCut:
		c.calls.finish(route, outcomeCut)
		cut(w)
	case verdictLeft:
		c.calls.finish(route, outcomeLeft)
		cut(w)
	case verdictBusy:
		c.refuse(w, route, http.StatusServiceUnavailable, "over capacity")
	case verdictFail:
		c.refuse(w, route, http.StatusInternalServerError, "internal error (failureRate)")
	case verdictWork:
		c.work(w, r, route)
	}
}

func (c *Core[K]) work(w http.ResponseWriter, r *http.Request, route string) {
	if c.Chance(c.Knobs().CommonFaults().ResponseLostRate) {
		c.api.ServeHTTP(&voidWriter{header: http.Header{}}, r)
		c.calls.finish(route, outcomeLost)
		cut(w)
		return
	}
	rec := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	c.api.ServeHTTP(rec, r)
	c.calls.finish(route, strconv.Itoa(rec.status))
}

func (c *Core[K]) refuse(w http.ResponseWriter, route string, status int, reason string) {
	c.calls.finish(route, strconv.Itoa(status))
	Refuse(w, status, "%s", reason)
}

// pass takes a call through the faults and says what becomes of it.
func (c *Core[K]) pass(ctx context.Context) verdict {
	f := c.Knobs().CommonFaults()
	if f.Outage {
		return verdictCut
	}
	if f.Hang {
		c.wait(ctx, -1)
		return verdictLeft
	}
	slot, ok := c.gate.take(time.Now(), f.CapacityPerSecond)
	if !c.wait(ctx, slot) {
		return verdictLeft
	}
	if !ok {
		return verdictBusy
	}
	if !c.wait(ctx, Millis(f.LatencyMs)+c.jitter(f.JitterMs)) {
		return verdictLeft
	}
	// An outage that began meanwhile takes the waiting calls with it.
	if c.Knobs().CommonFaults().Outage {
		return verdictCut
	}
	if c.Chance(f.FailureRate) {
		return verdictFail
	}
	return verdictWork
}

// wait returns false if the caller left or the simulator was closed; a
// negative duration waits for just that.
func (c *Core[K]) wait(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	var due <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
		return true
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	return false
}

// gate hands out evenly spaced slots: the queue of a system that can do so
// many calls a second.
type gate struct {
	mu   sync.Mutex
	next time.Time
}

// take returns how long to wait for the slot; not ok is a caller that waits
// the longest wait for nothing.
func (g *gate) take(now time.Time, perSecond float64) (time.Duration, bool) {
	if perSecond <= 0 {
		return 0, true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.next.Before(now) {
		g.next = now
	}
	wait := g.next.Sub(now)
	if wait > maxQueueWait {
		return maxQueueWait, false
	}
	g.next = g.next.Add(time.Duration(float64(time.Second) / perSecond))
	return wait, true
}

func bufferBody(w http.ResponseWriter, r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if err != nil {
		return errors.Join(err, r.Body.Close())
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// cut closes the connection without an answer.
func cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		// HTTP/2 and recorders cannot be hijacked; this aborts them as well.
		panic(http.ErrAbortHandler)
	}
	// The peer sees the end of the connection either way.
	_ = conn.Close()
}

type statusWriter struct {
	http.ResponseWriter
	status int
	wrote  bool
}

func (w *statusWriter) WriteHeader(status int) {
	if !w.wrote {
		w.status, w.wrote = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// voidWriter lets the work be done with nobody listening.
type voidWriter struct{ header http.Header }

func (w *voidWriter) Header() http.Header         { return w.header }
func (w *voidWriter) Write(b []byte) (int, error) { return len(b), nil }
func (w *voidWriter) WriteHeader(int)             {}
