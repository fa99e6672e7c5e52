package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"andes/deadletters"
	"andes/eventstore"
)

var (
	eventsByID  = statement("events_by_id")
	orderOwners = statement("order_owners")
)

// EventsByID implements deadletters.Events.
func (db *DB) EventsByID(ctx context.Context, ids []string) (map[string]eventstore.Record, error) {
	wanted := make([]string, 0, len(ids))
	written := map[string]string{} // as it was asked for, by its canonical form
	for _, id := range ids {
		if parsed, err := uuid.Parse(id); err == nil {
			wanted = append(wanted, parsed.String())
			written[parsed.String()] = id
		}
	}
	found := make(map[string]eventstore.Record, len(wanted))
	if len(wanted) == 0 {
		return found, nil
	}
	rows, err := db.pool.Query(ctx, eventsByID, wanted)
	records, err := collectRecords(rows, err)
	for _, record := range records {
		found[written[record.ID]] = record
	}
	return found, err
}

// Owners implements deadletters.Events.
func (db *DB) Owners(ctx context.Context, keys []string) (map[string]string, error) {
	owners := make(map[string]string, len(keys))
	if len(keys) == 0 {
		return owners, nil
	}
	rows, err := db.pool.Query(ctx, orderOwners, keys)
	if err != nil {
		return nil, unavailable(err)
	}
	var key, owner string
	_, err = pgx.ForEachRow(rows, []any{&key, &owner}, func() error {
		owners[key] = owner
		return nil
	})
	return owners, unavailable(err)
}

var _ deadletters.Events = (*DB)(nil)
