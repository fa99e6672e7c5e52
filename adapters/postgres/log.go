package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"andes/eventstore"
)

// Log reads the event log for people: in pages, on one connection that the server lets read only. The
// log only grows at its end, so the pages of a walk need no common snapshot.
type Log struct {
	conn *pgx.Conn
}

// OpenLog connects. The schema has to be there.
func OpenLog(ctx context.Context, config Config) (*Log, error) {
	settings, err := config.connConfig()
	if err != nil {
		return nil, err
	}
	settings.RuntimeParams["default_transaction_read_only"] = "on"
	conn, err := pgx.ConnectConfig(ctx, settings)
	if err != nil {
		return nil, unavailable(err)
	}
	var migrated bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('events') IS NOT NULL").Scan(&migrated); err != nil || !migrated {
		_ = conn.Close(ctx)
		if err != nil {
			return nil, unavailable(err)
		}
		return nil, ErrNotMigrated
	}
	return &Log{conn: conn}, nil
}

// Close ends the connection.
func (l *Log) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	_ = l.conn.Close(ctx)
}

// LogFilter says which events are wanted. The zero value wants all.
type LogFilter struct {
	Category    string
	Types       []string // empty: all
	Without     []string // types that are not wanted
	Stream      eventstore.Stream
	Correlation string
	Since       time.Time // recorded then or later
	Until       time.Time // recorded then or earlier
}

// names gives a list that is not null.
func names(types []string) []string {
	if types == nil {
		return []string{}
	}
	return types
}

// streams gives what the names of the wanted streams start with.
func (f LogFilter) streams() string {
	if f.Category == "" {
		return ""
	}
	return f.Category + "/"
}

func bound(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

// LogPage is one step of a walk.
type LogPage struct {
	Records []eventstore.Record // that are wanted; may be none
	Reached int64               // every event up to this position was looked at
}

// Bounds of a page. Its bytes are those of the payloads.
const (
	logPage      = 1000
	logPageBytes = 8 << 20
)

// Walk gives the wanted events with positions in (after, to], in the order of the log, page by page. It
// ends with the last one or with an error.
func (l *Log) Walk(ctx context.Context, filter LogFilter, after, to int64) iter.Seq2[LogPage, error] {
	if filter.Stream != (eventstore.Stream{}) {
		return l.walkStream(ctx, filter, after, to)
	}
	return func(yield func(LogPage, error) bool) {
		for {
			rows, err := l.conn.Query(ctx, logPageQuery, shard, after, to, logPage, logPageBytes,
				names(filter.Types), filter.streams(), filter.Correlation, bound(filter.Since), bound(filter.Until), names(filter.Without))
			records, last, err := collectJudged(rows, err)
			if err != nil {
				yield(LogPage{}, err)
				return
			}
			if last == nil || !yield(LogPage{records, last.Position}, nil) {
				return
			}
			after = last.Position
		}
	}
}

func (l *Log) walkStream(ctx context.Context, filter LogFilter, after, to int64) iter.Seq2[LogPage, error] {
	return func(yield func(LogPage, error) bool) {
		for version := int64(0); ; {
			rows, err := l.conn.Query(ctx, logStreamPage, filter.Stream.String(), version, logPage, logPageBytes,
				names(filter.Types), after, to, filter.Correlation, bound(filter.Since), bound(filter.Until), names(filter.Without))
			records, last, err := collectJudged(rows, err)
			if err != nil {
				yield(LogPage{}, err)
				return
			}
			if last == nil || !yield(LogPage{records, last.Position}, nil) || last.Position >= to {
				return
			}
			version = last.Version
		}
	}
}

// collectJudged gives the wanted records and the last one, wanted or not.
func collectJudged(rows pgx.Rows, err error) (wanted []eventstore.Record, last *eventstore.Record, _ error) {
	if err != nil {
		return nil, nil, unavailable(err)
	}
	defer rows.Close()
	for rows.Next() {
		var record eventstore.Record
		var is bool
		var stream string
		var meta []byte
		err := rows.Scan(&is, &record.Shard, &record.Position, &stream, &record.Version, &record.ID, &record.Type,
			&record.Schema, &record.Data, &meta, &record.RecordedAt)
		if err != nil {
			return nil, nil, unavailable(err)
		}
		if record.Stream, err = eventstore.ParseStream(stream); err != nil {
			return nil, nil, err
		}
		if err := json.Unmarshal(meta, &record.Meta); err != nil {
			return nil, nil, fmt.Errorf("metadata at position %d: %w", record.Position, err)
		}
		if is {
			wanted = append(wanted, record)
		}
		last = &record
	}
	return wanted, last, unavailable(rows.Err())
}

// End gives the position of the last event; 0 for an empty log.
func (l *Log) End(ctx context.Context) (int64, error) {
	var end int64
	err := l.conn.QueryRow(ctx, "SELECT coalesce(max(position), 0) FROM events WHERE shard = $1", shard).Scan(&end)
	return end, unavailable(err)
}

// Behind gives the position behind which the last n events lie.
func (l *Log) Behind(ctx context.Context, n int) (int64, error) {
	var position int64
	err := l.conn.QueryRow(ctx, "SELECT position FROM events WHERE shard = $1 ORDER BY position DESC OFFSET $2 LIMIT 1", shard, n).Scan(&position)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return position, unavailable(err)
}

// clockSkew is how far the clocks of the instances, which stamp the events, may be apart.
const clockSkew = time.Minute

// Between gives bounds of positions outside of which no event was recorded in [since, until], so that a
// walk need not look at the whole log. A zero time bounds nothing.
func (l *Log) Between(ctx context.Context, since, until time.Time) (after, to int64, err error) {
	to, err = l.End(ctx)
	if err == nil && !since.IsZero() {
		after, err = l.before(ctx, since.Add(-clockSkew), to)
	}
	if err == nil && !until.IsZero() {
		to, err = l.before(ctx, until.Add(clockSkew), to)
	}
	return after, to, err
}

// Next gives the place of the first event behind a position; found is false when there is none.
func (l *Log) Next(ctx context.Context, after int64) (position int64, recorded time.Time, found bool, err error) {
	err = l.conn.QueryRow(ctx, "SELECT position, recorded_at FROM events WHERE shard = $1 AND position > $2 ORDER BY position LIMIT 1",
		shard, after).Scan(&position, &recorded)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, time.Time{}, false, nil
	}
	return position, recorded, err == nil, unavailable(err)
}

// before finds, by bisection, a position up to which every event was recorded before the time. There is
// no index by time: positions follow it, but for the clocks' skew.
func (l *Log) before(ctx context.Context, at time.Time, end int64) (int64, error) {
	low, high := int64(0), end // recorded before: up to low; not before: behind high
	for low < high {
		middle := low + (high-low)/2
		position, recorded, found, err := l.Next(ctx, middle)
		switch {
		case err != nil:
			return 0, err
		case found && recorded.Before(at):
			low = position
		default:
			high = middle
		}
	}
	return min(low, end), nil
}
