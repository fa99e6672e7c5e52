package postgres

import (
	"context"
	"time"

	"andes/commands/order"
	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/source"
	"andes/commands/stock"
	"andes/commands/subscription"
	"andes/eventstore"
	"andes/queries"
)

// Stock implements queries.Reader.
func (db *DB) Stock(ctx context.Context, skus []string) (map[string]queries.StockView, error) {
	return views(ctx, db, stock.Aggregate, skus, func(sku string) string { return sku },
		queries.ViewOfStock)
}

// Prices implements queries.Reader.
func (db *DB) Prices(ctx context.Context, list string, skus []string) (map[string]queries.PriceView, error) {
	return views(ctx, db, price.Aggregate, skus, func(sku string) string { return price.Key(list, sku) },
		queries.ViewOfPrice)
}

// Products implements queries.Reader.
func (db *DB) Products(ctx context.Context, skus []string) (map[string]queries.ProductView, error) {
	return views(ctx, db, product.Aggregate, skus, func(sku string) string { return sku },
		queries.ViewOfProduct)
}

// views loads the states of the SKUs and turns each into what a query needs of it.
func views[S, V any](ctx context.Context, db *DB, aggregate *eventstore.Aggregate[S], skus []string, key func(sku string) string, view func(S) (V, bool)) (map[string]V, error) {
	streams := make([]eventstore.Stream, len(skus))
	for i, sku := range skus {
		streams[i] = aggregate.Stream(key(sku))
	}
	states, err := db.States(ctx, streams)
	if err != nil {
		return nil, err
	}
	found := make(map[string]V, len(states))
	for i, sku := range skus {
		stored, exists := states[streams[i]]
		if !exists || stored.State == nil {
			continue
		}
		state, err := aggregate.Decode(stored.State)
		if err != nil {
			return nil, err
		}
		if v, visible := view(state); visible {
			found[sku] = v
		}
	}
	return found, nil
}

// Watermark implements queries.Reader.
func (db *DB) Watermark(ctx context.Context, feed string) (time.Time, error) {
	state, _, err := one(ctx, db, source.Aggregate, feed)
	return state.SyncedAt, err
}

// Order implements queries.Orders.
func (db *DB) Order(ctx context.Context, id string) (order.State, bool, error) {
	return one(ctx, db, order.Aggregate, id)
}

// OrdersOf implements queries.Orders.
func (db *DB) OrdersOf(ctx context.Context, partnerID string, after int64, limit int) ([]queries.OrderAt, error) {
	states, err := db.StatesOf(ctx, order.Aggregate.Name, partnerID, after, limit)
	if err != nil {
		return nil, err
	}
	list := make([]queries.OrderAt, len(states))
	for i, stored := range states {
		state, err := order.Aggregate.Decode(stored.State)
		if err != nil {
			return nil, err
		}
		list[i] = queries.OrderAt{State: state, Position: stored.Position}
	}
	return list, nil
}

// Partner implements queries.Partners.
func (db *DB) Partner(ctx context.Context, id string) (partner.State, bool, error) {
	return one(ctx, db, partner.Aggregate, id)
}

// How many subscriptions of one partner are looked at. Those that were removed are among them.
const (
	subscriptionPage     = 100
	maxSubscriptionPages = 100
)

// Subscriptions lists a partner's subscriptions that are not removed.
func (db *DB) Subscriptions(ctx context.Context, partnerID string) ([]subscription.State, error) {
	var list []subscription.State
	after := int64(0)
	for range maxSubscriptionPages {
		states, err := db.StatesOf(ctx, subscription.Aggregate.Name, partnerID, after, subscriptionPage)
		if err != nil {
			return nil, err
		}
		for _, stored := range states {
			state, err := subscription.Aggregate.Decode(stored.State)
			if err != nil {
				return nil, err
			}
			if after = stored.Position; !state.Removed {
				list = append(list, state)
			}
		}
		if len(states) < subscriptionPage {
			break
		}
	}
	return list, nil
}

func one[S any](ctx context.Context, db *DB, aggregate *eventstore.Aggregate[S], key string) (S, bool, error) {
	var none S
	stream := aggregate.Stream(key)
	states, err := db.States(ctx, []eventstore.Stream{stream})
	if err != nil {
		return none, false, err
	}
	stored, exists := states[stream]
	if !exists {
		return none, false, nil
	}
	state, err := aggregate.Decode(stored.State)
	return state, true, err
}
