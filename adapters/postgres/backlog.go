package postgres

import (
	"context"
	"time"
)

// Waiting is work that is there and not done.
type Waiting struct {
	Count  int64
	Oldest time.Duration // how long the oldest one has waited; 0: none does
}

// Backlog is what waits in the database.
type Backlog struct {
	Events    Waiting // for the relay; burned positions count too
	Orders    Waiting // confirmed ones, for the OMS
	Deadlines Waiting // that were reached, for their process managers
	Refused   bool    // the relay's checkpoint is not of this log: ErrForeignCheckpoint
}

// backlogLimit is up to where orders and deadlines are counted.
const backlogLimit = 100_000

// Backlog measures.
func (db *DB) Backlog(ctx context.Context) (Backlog, error) {
	var b Backlog
	var events, orders, deadlines float64 // seconds
	err := db.pool.QueryRow(ctx, backlog, shard, DefaultRelayConfig().Name, backlogLimit).Scan(
		&b.Events.Count, &events, &b.Orders.Count, &orders, &b.Deadlines.Count, &deadlines, &b.Refused)
	b.Events.Oldest, b.Orders.Oldest, b.Deadlines.Oldest = waited(events), waited(orders), waited(deadlines)
	return b, unavailable(err)
}

// waited turns seconds into a duration. The clocks of instance and server may differ: none has waited
// less than no time.
func waited(seconds float64) time.Duration {
	return max(0, time.Duration(seconds*float64(time.Second)))
}

var published = statement("published")

// Published is the position up to which the relay has published everything; 0 while its checkpoint is refused.
func (db *DB) Published(ctx context.Context) (position int64, err error) {
	err = db.pool.QueryRow(ctx, published, DefaultRelayConfig().Name, shard).Scan(&position)
	return position, unavailable(err)
}
