package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"andes/changes"
	"andes/eventstore"
)

// ChangeLog is the log as the followers of changes read it. It implements changes.Log.
type ChangeLog struct{ DB *DB }

var _ changes.Log = ChangeLog{}

var (
	changeEnd     = statement("change_end")
	changePage    = statement("change_page")
	changeBefore  = statement("change_before")
	streamChanged = statement("stream_changed")
)

// End implements changes.Log.
func (l ChangeLog) End(ctx context.Context) (end, published int64, err error) {
	err = l.DB.pool.QueryRow(ctx, changeEnd, shard, DefaultRelayConfig().Name).Scan(&end, &published)
	return end, published, unavailable(err)
}

// Read implements changes.Log.
func (l ChangeLog) Read(ctx context.Context, after, to int64, limit int) (changes.Slice, error) {
	part := changes.Slice{Reached: after}
	rows, err := l.DB.pool.Query(ctx, changePage, shard, after, to, limit)
	if err != nil {
		return part, unavailable(err)
	}
	defer rows.Close()
	count := 0
	for ; rows.Next(); count++ {
		var position int64
		var name string
		if err := rows.Scan(&position, &name); err != nil {
			return part, unavailable(err)
		}
		stream, err := eventstore.ParseStream(name)
		if err != nil {
			return part, err
		}
		if part.Reached = position; changes.Concerns(stream) {
			part.Changes = append(part.Changes, changes.Change{Position: position, Stream: stream})
		}
	}
	part.More = count == limit
	return part, unavailable(rows.Err())
}

// Changed implements changes.Log.
func (l ChangeLog) Changed(ctx context.Context, stream eventstore.Stream) (time.Time, error) {
	var at time.Time
	err := l.DB.pool.QueryRow(ctx, streamChanged, shard, stream.Category, stream.Key).Scan(&at)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, nil
	}
	return at, unavailable(err)
}

// Before implements changes.Log.
func (l ChangeLog) Before(ctx context.Context, at time.Time) (position int64, err error) {
	err = l.DB.pool.QueryRow(ctx, changeBefore, shard, at).Scan(&position)
	return position, unavailable(err)
}

// Listen implements changes.Log.
func (l ChangeLog) Listen(ctx context.Context, woken func()) error {
	conn, err := l.DB.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{"andes_" + l.DB.config.Schema}.Sanitize()); err != nil {
		return unavailable(err)
	}
	woken() // for what was committed before
	for {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return unavailable(err)
		}
		woken()
	}
}
