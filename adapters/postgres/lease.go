package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// Leases gives work to one instance at a time. A lease is a session lock: it ends with the process or
// its connection, whichever is lost first, and needs no clock.
type Leases struct {
	DB      *DB
	Standby time.Duration // between attempts; default 1 s
	Check   time.Duration // between proofs that the lease still holds; default 2 s
}

// ErrLeaseLost is the cause of the context's end when the lease was lost.
var ErrLeaseLost = errors.New("postgres: the lease was lost")

// ErrLeaseHeld says that another instance has the lease.
var ErrLeaseHeld = errors.New("postgres: another instance has the lease")

// Hold waits for the lease and runs work under it, with a context that ends when the lease is lost.
func (l Leases) Hold(ctx context.Context, name string, work func(ctx context.Context) error) error {
	return l.hold(ctx, work, func(conn *pgx.Conn) error {
		return waitForLock(ctx, conn, "lease/"+name, orDefault(l.Standby, time.Second))
	})
}

// leaseGrace is how long the server may take to notice that a holder has gone.
const leaseGrace = time.Second

// Try is Hold, but gives ErrLeaseHeld soon where another instance has the lease.
func (l Leases) Try(ctx context.Context, name string, work func(ctx context.Context) error) error {
	return l.hold(ctx, work, func(conn *pgx.Conn) error {
		waiting, cancel := context.WithTimeoutCause(ctx, leaseGrace, ErrLeaseHeld)
		defer cancel()
		err := waitForLock(waiting, conn, "lease/"+name, leaseGrace/10)
		if err != nil && errors.Is(context.Cause(waiting), ErrLeaseHeld) {
			return ErrLeaseHeld
		}
		return err
	})
}

func (l Leases) hold(ctx context.Context, work func(ctx context.Context) error, acquire func(*pgx.Conn) error) error {
	conn, err := l.DB.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if err := acquire(conn); err != nil {
		return err
	}
	working, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		l.watch(working, conn, lost)
	}()
	err = work(working)
	lost(nil)
	<-watched
	return err
}

// watch proves the connection alive until the work ends.
func (l Leases) watch(ctx context.Context, conn *pgx.Conn, lost context.CancelCauseFunc) {
	ticker := time.NewTicker(orDefault(l.Check, 2*time.Second))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := ping(ctx, conn); err != nil {
				lost(errors.Join(ErrLeaseLost, err))
				return
			}
		}
	}
}

func orDefault(d, standard time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return standard
}
