package eventstore

import (
	"context"
	"time"
)

// Command is one decision on the write side.
type Command interface {
	// Needs names the streams that Decide is known to load, so that they are fetched in one go. Decide
	// may load others; that costs a further round.
	Needs() []Stream
	// Decide appends events through the unit and gives the caller's result, or refuses. It is pure and
	// may run more than once.
	Decide(u *Unit) (any, error)
}

// Request is a command on its way through the executor.
type Request struct {
	Command     Command
	Meta        Metadata
	Idempotency *Idempotency // nil: the command is idempotent by its own state
}

// IdempotencyKey is a caller's key in the caller's own scope.
type IdempotencyKey struct {
	Scope string // the partner
	Key   string
}

// Idempotency makes a request repeatable: the first finished answer is kept and given again.
type Idempotency struct {
	IdempotencyKey
	Fingerprint [32]byte // of the canonical request; another one under the same key is refused
	TTL         time.Duration
	// Answer renders the outcome as it is kept. keep false leaves the key free, for faults on our side.
	Answer func(result any, err error) (answer Answer, keep bool)
}

// Answer is a response as it is kept under an idempotency key.
type Answer struct {
	Status int
	Body   []byte
}

// StoredAnswer is a kept answer with what it answered.
type StoredAnswer struct {
	Answer
	Fingerprint [32]byte
}

// Outcome is what became of a request that was committed or refused.
type Outcome struct {
	Result   any
	Answer   Answer // rendered or replayed; only with Idempotency
	Replayed bool
	Position int64 // of the last event that was appended; 0 without events
}

// Executor runs requests. Concurrent requests share a transaction.
type Executor interface {
	// Execute returns when the outcome is durable. The error is a *Refusal, or one of the Err… values.
	// With Idempotency a refusal comes back with its Answer too.
	Execute(ctx context.Context, request Request) (Outcome, error)
}

// Reader reads what was committed.
type Reader interface {
	// ReadStream gives events of one stream with version > after, in order.
	ReadStream(ctx context.Context, stream Stream, after int64, limit int) ([]Record, error)
	// ReadAll gives events with position > after, in order.
	ReadAll(ctx context.Context, after int64, limit int) ([]Record, error)
	// States gives the states of the streams that exist.
	States(ctx context.Context, streams []Stream) (map[Stream]StateRecord, error)
	// StatesOf lists a category's states of one owner with position > after, in position order.
	StatesOf(ctx context.Context, category, owner string, after int64, limit int) ([]StateRecord, error)
}

// Deadlines hands out the deadlines that are due.
type Deadlines interface {
	// ClaimDue claims up to limit deadlines due at now. A claimed one that is not settled by a commit
	// within the lease is handed out again.
	ClaimDue(ctx context.Context, now time.Time, lease time.Duration, limit int) ([]Deadline, error)
}

// Store is a complete event store.
type Store interface {
	Executor
	Reader
	Deadlines
}
