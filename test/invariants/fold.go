package invariants

import (
	"bytes"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"andes/catalogue"
	"andes/eventstore"
)

// unfolded compares the state of every stream with what its events say, in one snapshot of the database.
func unfolded(ctx context.Context, db *pgx.Conn) ([]string, error) {
	registry, err := catalogue.Registry()
	if err != nil {
		return nil, err
	}
	f := folding{registry: registry}
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, db, snapshot, func(tx pgx.Tx) error {
		if err := f.readStates(ctx, tx); err != nil {
			return err
		}
		return f.readEvents(ctx, tx)
	})
	for stream := range f.states {
		f.violate("%s has a state and no event", stream)
	}
	return f.violations, err
}

// folding goes through the events stream by stream.
type folding struct {
	registry   *eventstore.Registry
	states     map[string][]byte // by stream, of those that were not compared yet
	stream     string            // under way
	records    []eventstore.Record
	violations []string
}

func (f *folding) violate(format string, arguments ...any) {
	if len(f.violations) < maxViolations {
		f.violations = append(f.violations, fmt.Sprintf(format, arguments...))
	}
}

func (f *folding) readStates(ctx context.Context, tx pgx.Tx) error {
	f.states = map[string][]byte{}
	rows, err := tx.Query(ctx, "SELECT category || '/' || key, state FROM states")
	if err != nil {
		return err
	}
	var stream string
	var state []byte
	_, err = pgx.ForEachRow(rows, []any{&stream, &state}, func() error {
		f.states[stream] = bytes.Clone(state)
		return nil
	})
	return err
}

func (f *folding) readEvents(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, "SELECT stream, split_part(stream, '/', 1), version, type, schema, data FROM events ORDER BY stream, version")
	if err != nil {
		return err
	}
	var stream, category string
	var record eventstore.Record
	var data []byte
	_, err = pgx.ForEachRow(rows, []any{&stream, &category, &record.Version, &record.Type, &record.Schema, &data}, func() error {
		if stream != f.stream {
			f.compare()
			f.stream, f.records = stream, nil
		}
		record.Stream = eventstore.Stream{Category: category, Key: stream[len(category)+1:]}
		record.Data = bytes.Clone(data)
		f.records = append(f.records, record)
		return nil
	})
	f.compare()
	return err
}

// compare judges the stream whose events were read.
func (f *folding) compare() {
	if f.stream == "" {
		return
	}
	state, there := f.states[f.stream]
	delete(f.states, f.stream)
	folded, err := f.registry.Fold(f.records[0].Stream.Category, f.records)
	switch {
	case err != nil:
		f.violate("%v", err)
	case !there:
		f.violate("%s has events and no state", f.stream)
	case !bytes.Equal(folded, state):
		f.violate("%s: the state is %.500s, its events say %.500s", f.stream, state, folded)
	}
}
