package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"andes/commands/stock"
)

var (
	stockOversold      = statement("stock_oversold")
	stockOversoldCount = statement("stock_oversold_count")
	stockHolders       = statement("stock_holders")
)

// Bounds of what is told of SKUs that are oversold.
const (
	maxOversoldCount = 10_000 // up to where they are counted
	maxHolders       = 50     // orders of a SKU that are told
	maxHolderEvents  = 5000   // of a SKU's last events, among which its orders are looked for
)

// CountOversold counts the SKUs of which orders hold more units than there are.
func (db *DB) CountOversold(ctx context.Context) (count int64, err error) {
	err = db.pool.QueryRow(ctx, stockOversoldCount, maxOversoldCount).Scan(&count)
	return count, unavailable(err)
}

// Oversold lists the SKUs of which orders hold more units than there are, after one, with the orders.
func (db *DB) Oversold(ctx context.Context, after string, limit int) ([]stock.Oversold, error) {
	rows, err := db.pool.Query(ctx, stockOversold, after, limit)
	states, err := collectStates(rows, err)
	if err != nil {
		return nil, err
	}
	list := make([]stock.Oversold, 0, len(states))
	versions := make([]int64, 0, len(states))
	for _, stored := range states {
		state, err := stock.Aggregate.Decode(stored.State)
		if err != nil {
			return nil, err
		}
		if of, oversold := state.Oversold(stored.Stream.Key); oversold {
			list, versions = append(list, of), append(versions, stored.Version)
		}
	}
	return list, db.addHolders(ctx, list, versions)
}

// addHolders looks for the orders that hold units of the SKUs, whose streams were at the versions.
func (db *DB) addHolders(ctx context.Context, list []stock.Oversold, versions []int64) error {
	streams, places := make([]string, len(list)), make(map[string]int, len(list))
	for i, of := range list {
		streams[i] = stock.Aggregate.Stream(of.SKU).String()
		places[streams[i]] = i
	}
	rows, err := db.pool.Query(ctx, stockHolders, streams, versions, maxHolderEvents, maxHolders)
	if err != nil {
		return unavailable(err)
	}
	var stream string
	var holder stock.Holder
	_, err = pgx.ForEachRow(rows, []any{&stream, &holder.OrderID, &holder.Quantity, &holder.HeldAt}, func() error {
		holder.HeldAt = holder.HeldAt.UTC()
		of := &list[places[stream]]
		of.Orders = append(of.Orders, holder)
		return nil
	})
	for i := range list {
		list[i].More = held(list[i].Orders) < list[i].Reserved
	}
	return unavailable(err)
}

func held(orders []stock.Holder) (units int64) {
	for _, order := range orders {
		units += order.Quantity
	}
	return units
}
