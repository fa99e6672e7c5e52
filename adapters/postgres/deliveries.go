package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	deliveriesMade = statement("deliveries_made")
	deliveryMade   = statement("delivery_made")
)

// Deliveries remembers which webhooks were delivered, among the answers that are kept for their keys: a delivery is
// one that its subscriber gave. It implements webhook.Deliveries.
type Deliveries struct{ DB *DB }

// deliveriesKept is longer than events wait in Kafka.
const deliveriesKept = 60 * 24 * time.Hour

// Made implements webhook.Deliveries.
func (d Deliveries) Made(ctx context.Context, ids []string) (map[string]bool, error) {
	rows, err := d.DB.pool.Query(ctx, deliveriesMade, ids)
	if err != nil {
		return nil, unavailable(err)
	}
	made := map[string]bool{}
	var id string
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		made[id] = true
		return nil
	})
	return made, unavailable(err)
}

// Remember implements webhook.Deliveries.
func (d Deliveries) Remember(ctx context.Context, ids []string) error {
	_, err := d.DB.pool.Exec(ctx, deliveryMade, ids, deliveriesKept)
	return unavailable(err)
}
