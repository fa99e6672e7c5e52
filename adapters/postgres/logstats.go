package postgres

import (
	"context"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"andes/eventstore"
)

// LogCount is how many events of a type were recorded in a span of time.
type LogCount struct {
	Type   string
	Since  time.Time // the start of the span
	Events int64
	Bytes  int64 // of their payloads
}

// LogCounts is one step of counting.
type LogCounts struct {
	Counts  []LogCount
	Reached int64 // every event up to this position is counted
}

// countPage bounds how many events one statement counts.
const countPage = 20_000

// Count counts the wanted events with positions in (after, to] by type and span of time, page by page. A
// stream in the filter is not looked at.
func (l *Log) Count(ctx context.Context, filter LogFilter, after, to int64, span time.Duration) iter.Seq2[LogCounts, error] {
	return func(yield func(LogCounts, error) bool) {
		for {
			rows, err := l.conn.Query(ctx, logCounts, shard, after, to, countPage, span,
				names(filter.Types), filter.streams(), filter.Correlation, bound(filter.Since), bound(filter.Until), names(filter.Without))
			page, err := collectCounts(rows, err)
			if err != nil {
				yield(LogCounts{}, err)
				return
			}
			if page.Reached == 0 || !yield(page, nil) {
				return
			}
			after = page.Reached
		}
	}
}

func collectCounts(rows pgx.Rows, err error) (LogCounts, error) {
	var page LogCounts
	if err != nil {
		return page, unavailable(err)
	}
	defer rows.Close()
	for rows.Next() {
		var count LogCount
		var position int64
		if err := rows.Scan(&count.Type, &count.Since, &count.Events, &count.Bytes, &position); err != nil {
			return page, unavailable(err)
		}
		page.Reached = max(page.Reached, position)
		if count.Events > 0 {
			page.Counts = append(page.Counts, count)
		}
	}
	return page, unavailable(rows.Err())
}

// StreamSize is a stream and the number of its events.
type StreamSize struct {
	Stream eventstore.Stream
	Events int64
}

// streamPage bounds how many streams one statement gives.
const streamPage = 5000

// Streams gives every stream, or those of a category, page by page.
func (l *Log) Streams(ctx context.Context, category string) iter.Seq2[[]StreamSize, error] {
	return func(yield func([]StreamSize, error) bool) {
		last := eventstore.Stream{}
		for {
			rows, err := l.conn.Query(ctx, logStreams, last.Category, last.Key, category, streamPage)
			if err != nil {
				yield(nil, unavailable(err))
				return
			}
			page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (StreamSize, error) {
				var size StreamSize
				err := row.Scan(&size.Stream.Category, &size.Stream.Key, &size.Events)
				return size, err
			})
			if err != nil {
				yield(nil, unavailable(err))
				return
			}
			if len(page) == 0 || !yield(page, nil) {
				return
			}
			last = page[len(page)-1].Stream
		}
	}
}
