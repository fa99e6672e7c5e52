package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"andes/eventstore"
)

// Preview decides commands against the states in the database and writes nothing: its transactions are
// read-only, so the database itself would refuse. What it decided is seen by what it decides next.
type Preview struct {
	*DB
	now   func() time.Time
	newID func() string

	mu      sync.Mutex
	decided map[eventstore.Stream]eventstore.StateRecord
	events  []eventstore.Record
}

// NewPreview begins a preview.
func NewPreview(db *DB, now func() time.Time, newID func() string) *Preview {
	return &Preview{DB: db, now: now, newID: newID, decided: map[eventstore.Stream]eventstore.StateRecord{}}
}

// Take gives the events that were decided since it was last called.
func (p *Preview) Take() []eventstore.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	events := p.events
	p.events = nil
	return events
}

// Execute implements eventstore.Executor. Idempotency keys are taken as free.
func (p *Preview) Execute(ctx context.Context, request eventstore.Request) (eventstore.Outcome, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	request.Idempotency = nil
	batch := eventstore.NewBatch(p.registry, p.now().UTC(), p.newID, []eventstore.Request{request})
	batch.Distrust() // nothing checks afterwards what a command assumes
	outcome := eventstore.Outcome{}
	err := pgx.BeginTxFunc(ctx, p.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		for range eventstore.MaxRounds {
			if err := p.supply(ctx, tx, batch); err != nil {
				return err
			}
			writes, complete := batch.Decide()
			if !complete {
				continue
			}
			p.note(writes)
			return nil
		}
		return fmt.Errorf("command %T asked for further streams %d times", request.Command, eventstore.MaxRounds)
	})
	if err != nil {
		return outcome, unavailable(err)
	}
	return batch.Outcome(0, 0)
}

func (p *Preview) supply(ctx context.Context, tx pgx.Tx, batch *eventstore.Batch) error {
	var unknown []eventstore.Stream
	for _, stream := range batch.Needs() {
		if state, known := p.decided[stream]; known {
			batch.Supply(stream, eventstore.Snapshot{Version: state.Version, Position: state.Position, State: state.State})
			continue
		}
		unknown = append(unknown, stream)
	}
	if len(unknown) == 0 {
		return nil
	}
	states, err := queryStates(ctx, tx, unknown)
	if err != nil {
		return err
	}
	for _, stream := range unknown {
		batch.Supply(stream, eventstore.Snapshot{})
	}
	for _, state := range states {
		batch.Supply(state.Stream, eventstore.Snapshot{Version: state.Version, Position: state.Position, State: state.State})
	}
	return nil
}

func (p *Preview) note(writes eventstore.Writes) {
	p.events = append(p.events, writes.Events...)
	for _, write := range writes.States {
		p.decided[write.Stream] = write.StateRecord
	}
}

// States implements eventstore.Reader, with what was decided here.
func (p *Preview) States(ctx context.Context, streams []eventstore.Stream) (map[eventstore.Stream]eventstore.StateRecord, error) {
	states, err := p.DB.States(ctx, streams)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, stream := range streams {
		if decided, known := p.decided[stream]; known {
			states[stream] = decided
		}
	}
	return states, nil
}

var (
	_ eventstore.Executor = (*Preview)(nil)
	_ eventstore.Reader   = (*Preview)(nil)
)
