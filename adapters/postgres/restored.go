package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	restored           = statement("restored")
	checkpointStanding = statement("checkpoint_standing")
)

// Faults of Restored.
var (
	ErrNothingToMend = errors.New("postgres: the relay's checkpoint is of this log: positions that were published beyond its end are to be told")
	ErrSinceNeeded   = errors.New("postgres: the event that the relay's checkpoint names is not in this log: to what time it was restored is to be told")
	ErrRelayActive   = errors.New("postgres: a relay is active or the log is being written to: stop every process first")
)

// Restoration says what is known of a restored database.
type Restoration struct {
	KnownTo   *int64 // what is behind this position was recorded since the restore; nil: not known
	Published int64  // the last position that Kafka and Redis know; 0: not known
	Actor     string
	Reason    string
	At        time.Time
}

// Restored has relay and positions go on after the database was restored to an earlier time: new positions come
// behind those that were published (goesBehind), and the relay goes on where the log is known to be published
// (goesOn). It ends a refusal of the checkpoint, ErrForeignCheckpoint.
func (db *DB) Restored(ctx context.Context, r Restoration) (goesBehind, goesOn int64, err error) {
	name := DefaultRelayConfig().Name
	var checkpoint int64
	var named, refused bool
	err = db.pool.QueryRow(ctx, checkpointStanding, name, shard).Scan(&checkpoint, &named, &refused)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && !refused && r.Published <= checkpoint:
		return 0, 0, ErrNothingToMend
	case err != nil:
		return 0, 0, unavailable(err)
	case refused && !named && r.KnownTo == nil:
		return 0, 0, ErrSinceNeeded
	}
	err = pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		for _, lock := range []string{relayLock(name), "shard"} { // a relay that refuses has its own for a moment, again and again
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/' || $1, 0))", lock); err != nil {
				return err
			}
		}
		return tx.QueryRow(ctx, restored, name, shard, r.Actor, r.Reason, r.At, r.KnownTo, r.Published).Scan(&goesBehind, &goesOn)
	})
	if refused, is := errors.AsType[*pgconn.PgError](err); is && refused.Code == lockNotAvailable {
		return 0, 0, ErrRelayActive
	}
	return goesBehind, goesOn, unavailable(err)
}

// lockNotAvailable is SQLSTATE 55P03: a lock was waited for as long as the pool allows.
const lockNotAvailable = "55P03"

// CheckRelay gives ErrForeignCheckpoint if the relay refuses to go on, or will when it starts.
func (db *DB) CheckRelay(ctx context.Context) error {
	var checkpoint int64
	var named, refused bool
	err := db.pool.QueryRow(ctx, checkpointStanding, DefaultRelayConfig().Name, shard).Scan(&checkpoint, &named, &refused)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && !refused:
		return nil
	case err != nil:
		return unavailable(err)
	}
	return ErrForeignCheckpoint
}
