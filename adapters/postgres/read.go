package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"andes/eventstore"
)

// Store is an event store: the executor that writes and the pool that reads.
type Store struct {
	*Executor
	*DB
}

// ReadStream implements eventstore.Reader.
func (db *DB) ReadStream(ctx context.Context, stream eventstore.Stream, after int64, limit int) ([]eventstore.Record, error) {
	rows, err := db.pool.Query(ctx, readStream, stream.String(), after, limit)
	return collectRecords(rows, err)
}

// ReadAll implements eventstore.Reader.
func (db *DB) ReadAll(ctx context.Context, after int64, limit int) ([]eventstore.Record, error) {
	rows, err := db.pool.Query(ctx, readAll, shard, after, limit)
	return collectRecords(rows, err)
}

// States implements eventstore.Reader.
func (db *DB) States(ctx context.Context, streams []eventstore.Stream) (map[eventstore.Stream]eventstore.StateRecord, error) {
	states, err := queryStates(ctx, db.pool, streams)
	if err != nil {
		return nil, err
	}
	found := make(map[eventstore.Stream]eventstore.StateRecord, len(states))
	for _, state := range states {
		found[state.Stream] = state
	}
	return found, nil
}

// StatesSince counts, by category, the states that changed after a position.
func (db *DB) StatesSince(ctx context.Context, position int64) (map[string]int64, error) {
	rows, err := db.pool.Query(ctx, "SELECT category, count(*) FROM states WHERE position > $1 GROUP BY category", position)
	if err != nil {
		return nil, unavailable(err)
	}
	counts := map[string]int64{}
	var category string
	var count int64
	_, err = pgx.ForEachRow(rows, []any{&category, &count}, func() error {
		counts[category] = count
		return nil
	})
	return counts, unavailable(err)
}

// querier is a pool or a connection.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func queryStates(ctx context.Context, from querier, streams []eventstore.Stream) ([]eventstore.StateRecord, error) {
	categories, keys := make([]string, len(streams)), make([]string, len(streams))
	for i, stream := range streams {
		categories[i], keys[i] = stream.Category, stream.Key
	}
	rows, err := from.Query(ctx, loadStates, categories, keys)
	return collectStates(rows, err)
}

// StatesOf implements eventstore.Reader.
func (db *DB) StatesOf(ctx context.Context, category, owner string, after int64, limit int) ([]eventstore.StateRecord, error) {
	rows, err := db.pool.Query(ctx, statesOf, category, owner, after, limit)
	return collectStates(rows, err)
}

// ClaimDue implements eventstore.Deadlines.
func (db *DB) ClaimDue(ctx context.Context, now time.Time, lease time.Duration, limit int) ([]eventstore.Deadline, error) {
	rows, err := db.pool.Query(ctx, claimDeadlines, now, now.Add(lease), limit)
	if err != nil {
		return nil, unavailable(err)
	}
	due, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (eventstore.Deadline, error) {
		var deadline eventstore.Deadline
		var meta []byte
		if err := row.Scan(&deadline.Saga, &deadline.Key, &deadline.Name, &deadline.Due, &meta); err != nil {
			return deadline, err
		}
		return deadline, json.Unmarshal(meta, &deadline.Meta)
	})
	return due, unavailable(err)
}

// SweepAnswers deletes up to limit answers that expired, and tells how many it deleted.
func (db *DB) SweepAnswers(ctx context.Context, now time.Time, limit int) (int64, error) {
	tag, err := db.pool.Exec(ctx, sweepAnswers, now, limit)
	return tag.RowsAffected(), unavailable(err)
}

func collectRecords(rows pgx.Rows, err error) ([]eventstore.Record, error) {
	if err != nil {
		return nil, unavailable(err)
	}
	records, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (eventstore.Record, error) {
		var record eventstore.Record
		var stream string
		var meta []byte
		err := row.Scan(&record.Shard, &record.Position, &stream, &record.Version, &record.ID, &record.Type,
			&record.Schema, &record.Data, &meta, &record.RecordedAt)
		if err != nil {
			return record, err
		}
		if record.Stream, err = eventstore.ParseStream(stream); err != nil {
			return record, err
		}
		return record, json.Unmarshal(meta, &record.Meta)
	})
	return records, unavailable(err)
}

func collectStates(rows pgx.Rows, err error) ([]eventstore.StateRecord, error) {
	if err != nil {
		return nil, unavailable(err)
	}
	states, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (eventstore.StateRecord, error) {
		return scanState(row)
	})
	return states, unavailable(err)
}

func scanState(row interface{ Scan(...any) error }) (eventstore.StateRecord, error) {
	var state eventstore.StateRecord
	err := row.Scan(&state.Stream.Category, &state.Stream.Key, &state.Version, &state.Position, &state.Owner, &state.State)
	return state, err
}

// unavailable marks a failed read, unless what was asked for can't be asked: text with a NUL, say.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	if fault, told := errors.AsType[*pgconn.PgError](err); told && fault.Code[:2] == "22" {
		return err
	}
	return fmt.Errorf("%w: %w", eventstore.ErrUnavailable, err)
}
