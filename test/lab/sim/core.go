package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Config is what every simulator is given.
type Config struct {
	Name string           // as shown in stats: erp, wms …
	Seed uint64           // of every random decision; the same seed decides alike
	Now  func() time.Time // the system's clock; nil is time.Now
}

// Core is the part of a simulator that is the same for all of them. Build it
// with NewCore, add routes, then serve Handler. Close it at the end.
type Core[K KnobSet] struct {
	name  string
	now   func() time.Time
	knobs atomic.Pointer[K]
	turn  sync.Mutex // serialises changes of the knobs
	calls callCounter
	since atomic.Int64

	api      *http.ServeMux
	lab      *http.ServeMux
	business func() any
	onReset  func()
	onTurn   func(K)

	randMu sync.Mutex
	rand   *rand.Rand

	gate     gate
	inFlight atomic.Int64

	timeline *timeline
	ctx      context.Context
	stop     context.CancelFunc
	workers  sync.WaitGroup
}

// NewCore starts the timeline; initial must be valid.
func NewCore[K KnobSet](cfg Config, initial K) *Core[K] {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Core[K]{
		name: cfg.Name, now: cfg.Now,
		api: http.NewServeMux(), lab: http.NewServeMux(),
		rand:     rand.New(rand.NewPCG(cfg.Seed, 0x616e646573)),
		timeline: newTimeline(), ctx: ctx, stop: stop,
	}
	c.knobs.Store(&initial)
	c.since.Store(cfg.Now().UnixNano())
	c.labRoutes()
	c.Go(func(ctx context.Context) { c.timeline.run(ctx) })
	return c
}

// Handle adds a route of the simulated system; faults apply to it.
func (c *Core[K]) Handle(pattern string, h http.HandlerFunc) { c.api.HandleFunc(pattern, h) }

// Lab adds a route of the lab, below /_lab/; no fault applies to it.
func (c *Core[K]) Lab(pattern string, h http.HandlerFunc) { c.lab.HandleFunc(pattern, h) }

// OnStats gives the business part of GET /_lab/stats.
func (c *Core[K]) OnStats(f func() any) { c.business = f }

// OnReset is called by POST /_lab/reset.
func (c *Core[K]) OnReset(f func()) { c.onReset = f }

// OnTurn is called after each change of the knobs.
func (c *Core[K]) OnTurn(f func(K)) { c.onTurn = f }

// Knobs returns the settings of this moment.
func (c *Core[K]) Knobs() K { return *c.knobs.Load() }

// Turn changes knobs in process; it fails, changing nothing, if the result is
// not valid.
func (c *Core[K]) Turn(change func(*K)) error {
	return c.replaceKnobs(func(current K) (K, error) {
		change(&current)
		return current, current.Validate()
	})
}

func (c *Core[K]) replaceKnobs(next func(K) (K, error)) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	k, err := next(*c.knobs.Load())
	if err != nil {
		return err
	}
	c.knobs.Store(&k)
	if c.onTurn != nil {
		c.onTurn(k)
	}
	return nil
}

// Now is the simulated system's clock.
func (c *Core[K]) Now() time.Time { return c.now() }

// Chance decides with the given probability.
func (c *Core[K]) Chance(rate float64) bool {
	if rate <= 0 {
		return false
	}
	c.randMu.Lock()
	defer c.randMu.Unlock()
	return c.rand.Float64() < rate
}

func (c *Core[K]) jitter(maxMs int) time.Duration {
	if maxMs <= 0 {
		return 0
	}
	c.randMu.Lock()
	defer c.randMu.Unlock()
	return time.Duration(c.rand.Int64N(int64(Millis(maxMs)) + 1))
}

// ErrFull says that a bounded store or queue of a simulator has no room.
var ErrFull = errors.New("simulator is full")

// After runs work on the simulator's own goroutine once the delay is over.
// Work must not block. It fails with ErrFull when too much is waiting.
func (c *Core[K]) After(delay time.Duration, work func()) error {
	if !c.timeline.add(time.Now().Add(delay), work) {
		return ErrFull
	}
	return nil
}

// Waiting is how many delayed pieces of work there are.
func (c *Core[K]) Waiting() int { return c.timeline.len() }

// Go starts a worker that Close stops and waits for.
func (c *Core[K]) Go(work func(ctx context.Context)) {
	c.workers.Go(func() { work(c.ctx) })
}

// Close releases every waiting call, stops the workers and waits for them.
// Delayed work that is not due yet is dropped.
func (c *Core[K]) Close() {
	c.stop()
	c.workers.Wait()
}
