package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var restored = statement("restored")

// Faults of Restored.
var (
	ErrNotAhead    = errors.New("postgres: the relay's checkpoint is within the log: there is nothing to mend")
	ErrRelayActive = errors.New("postgres: a relay is active or the log is being written to: stop every process first")
)

// Restored mends what ErrCheckpointAhead is about: the database was restored to an earlier time than the relay had
// published up to. Positions go on behind the old checkpoint, and the relay at the end of the log, but not behind a
// position: what is behind that was recorded since the restore, and never published.
func (db *DB) Restored(ctx context.Context, notBehind int64, actor, reason string, at time.Time) (checkpoint, end int64, err error) {
	name := DefaultRelayConfig().Name
	err = db.pool.QueryRow(ctx,
		"SELECT position, (SELECT coalesce(max(position), 0) FROM events WHERE shard = $2) FROM checkpoints WHERE name = $1 AND shard = $2",
		name, shard).Scan(&checkpoint, &end)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && checkpoint <= end:
		return checkpoint, end, ErrNotAhead
	case err != nil:
		return 0, 0, unavailable(err)
	}
	err = pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		for _, lock := range []string{relayLock(name), "shard"} { // a relay that refuses has its own for a moment, again and again
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/' || $1, 0))", lock); err != nil {
				return err
			}
		}
		return tx.QueryRow(ctx, restored, name, shard, actor, reason, at, notBehind).Scan(&checkpoint, &end)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return checkpoint, end, ErrNotAhead // somebody else did it meanwhile
	}
	if refused, is := errors.AsType[*pgconn.PgError](err); is && refused.Code == lockNotAvailable {
		return checkpoint, end, ErrRelayActive
	}
	return checkpoint, end, unavailable(err)
}

// lockNotAvailable is SQLSTATE 55P03: a lock was waited for as long as the pool allows.
const lockNotAvailable = "55P03"
