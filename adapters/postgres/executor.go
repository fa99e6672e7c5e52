package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"andes/eventstore"
)

// ExecutorConfig bounds the executor.
type ExecutorConfig struct {
	Committers  int           // connections that commit in turn
	MaxQueue    int           // requests waiting; beyond it callers get ErrOverloaded
	MaxBatch    int           // requests in a transaction
	ReconnectIn time.Duration // pause between attempts to reach a lost database
	Now         func() time.Time
	NewID       func() string
	Logger      *slog.Logger
	Observe     func(BatchStats) // after each batch; may be nil
}

// BatchStats describes one batch for metrics.
type BatchStats struct {
	Requests   int
	Events     int
	Took       time.Duration
	RoundTrips int
	Err        error
}

// DefaultExecutorConfig suits one instance on one database.
func DefaultExecutorConfig() ExecutorConfig {
	return ExecutorConfig{Committers: 2, MaxQueue: 4096, MaxBatch: 256, ReconnectIn: 200 * time.Millisecond}
}

// Executor is the batched unit of work over Postgres.
type Executor struct {
	db     *DB
	config ExecutorConfig
	queue  chan *job
	turn   sync.Mutex // held by the committer that collects and has not sent its writes yet
	flight flight     // the batch that was sent last; guarded by turn

	mu       sync.Mutex
	inFlight map[eventstore.IdempotencyKey][32]byte
}

// job is a request on its way, with the way back.
type job struct {
	ctx     context.Context
	request eventstore.Request
	done    chan struct{}
	outcome eventstore.Outcome
	err     error
}

func (j *job) finish(outcome eventstore.Outcome, err error) {
	j.outcome, j.err = outcome, err
	close(j.done)
}

// NewExecutor prepares an executor; Run makes it work.
func NewExecutor(db *DB, config ExecutorConfig) (*Executor, error) {
	var faults []error
	complain := func(wrong bool, text string) {
		if wrong {
			faults = append(faults, errors.New("postgres executor: "+text))
		}
	}
	complain(config.Committers < 1, "at least one committer is needed")
	complain(config.MaxQueue < 1, "the queue needs room")
	complain(config.MaxBatch < 1, "a batch needs room")
	complain(config.Now == nil || config.NewID == nil || config.Logger == nil, "clock, ids and logger are needed")
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return &Executor{
		db: db, config: config,
		queue:    make(chan *job, config.MaxQueue),
		inFlight: map[eventstore.IdempotencyKey][32]byte{},
	}, nil
}

// Execute implements eventstore.Executor.
func (e *Executor) Execute(ctx context.Context, request eventstore.Request) (eventstore.Outcome, error) {
	if idempotency := request.Idempotency; idempotency != nil {
		if err := e.enter(idempotency); err != nil {
			return eventstore.Outcome{}, err
		}
	}
	j := &job{ctx: ctx, request: request, done: make(chan struct{})}
	select {
	case e.queue <- j:
	default:
		e.leave(request)
		return eventstore.Outcome{}, eventstore.ErrOverloaded
	}
	select {
	case <-j.done:
		return j.outcome, j.err
	case <-ctx.Done():
		// The batch may be on its way: what becomes of it is unknown here, but known to the key.
		return eventstore.Outcome{}, fmt.Errorf("%w: %w", eventstore.ErrOutcomeUnknown, context.Cause(ctx))
	}
}

// enter lets one request per idempotency key in. Between instances the shard's lock does the same.
func (e *Executor) enter(idempotency *eventstore.Idempotency) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	fingerprint, running := e.inFlight[idempotency.IdempotencyKey]
	switch {
	case !running:
		e.inFlight[idempotency.IdempotencyKey] = idempotency.Fingerprint
		return nil
	case fingerprint != idempotency.Fingerprint:
		return eventstore.Refuse(eventstore.CodeIdempotencyKeyReused, "the idempotency key was used for another request")
	default:
		return eventstore.Refuse(eventstore.CodeRequestInProgress, "the first request with this idempotency key is still running")
	}
}

func (e *Executor) leave(request eventstore.Request) {
	if request.Idempotency == nil {
		return
	}
	e.mu.Lock()
	delete(e.inFlight, request.Idempotency.IdempotencyKey)
	e.mu.Unlock()
}

// Run commits until ctx ends, then answers what is still queued with ErrUnavailable. Callers should
// have stopped by then.
func (e *Executor) Run(ctx context.Context) error {
	var committers sync.WaitGroup
	for range e.config.Committers {
		committers.Go(func() { (&committer{executor: e}).run(ctx) })
	}
	committers.Wait()
	for {
		select {
		case j := <-e.queue:
			e.settle(j, eventstore.Outcome{}, eventstore.ErrUnavailable)
		default:
			return nil
		}
	}
}

// flight is a batch on its way.
type flight struct {
	size   int
	landed chan struct{} // closed when it is committed; nil before the first flight
}

// collect waits for a request and takes what else is there. While another batch is on its way it goes on
// collecting until it has as many as that one, or that one has landed: a smaller batch would wait for the
// lock all the same, and its commit costs as much as a large one's.
func (e *Executor) collect(ctx context.Context) []*job {
	var jobs []*job
	select {
	case <-ctx.Done():
		return nil
	case j := <-e.queue:
		jobs = append(jobs, j)
	}
	for under := e.flight; under.landed != nil && len(jobs) < min(under.size, e.config.MaxBatch); {
		select {
		case j := <-e.queue:
			jobs = append(jobs, j)
		case <-under.landed:
			under.size = 0
		}
	}
	runtime.Gosched() // lets callers that are about to ask get in, without a timer
	for len(jobs) < e.config.MaxBatch {
		select {
		case j := <-e.queue:
			jobs = append(jobs, j)
		default:
			return jobs
		}
	}
	return jobs
}

func (e *Executor) settle(j *job, outcome eventstore.Outcome, err error) {
	e.leave(j.request)
	j.finish(outcome, err)
}
