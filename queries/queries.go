// Package queries answers the partners' questions. One file per question; each is a pure computation on
// values that a Reader gives: the read model in Redis, or the states in Postgres when Redis can't.
package queries

import (
	"context"
	"time"

	"andes/commands/money"
	"andes/commands/order"
	"andes/commands/partner"
)

// StockView is what the read model keeps of a SKU's stock, before any partner's policy.
type StockView struct {
	Net       int64 // units free to sell; may be below zero
	ChangedAt time.Time
	DoubtedAt time.Time // since when the source has something else that can't be used; zero: it has not
}

// PriceView is what the read model keeps of a price.
type PriceView struct {
	Price     money.Money
	ChangedAt time.Time
	DoubtedAt time.Time // as in StockView
}

// ProductView is what the read model keeps of a product.
type ProductView struct {
	SKU        string            `json:"sku"`
	Name       string            `json:"name"`
	Segment    string            `json:"segment,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	ChangedAt  time.Time         `json:"changedAt"`
}

// Reader gives what the read model keeps. A SKU that is not there is missing in the map. Removed
// products and prices are not there, nor are stock and prices of products that are sold no more.
type Reader interface {
	Stock(ctx context.Context, skus []string) (map[string]StockView, error)
	Prices(ctx context.Context, list string, skus []string) (map[string]PriceView, error)
	Products(ctx context.Context, skus []string) (map[string]ProductView, error)
	// Watermark is when the feed was last known to be in step with its source; zero: never.
	Watermark(ctx context.Context, feed string) (time.Time, error)
}

// Orders reads orders, which are never cached.
type Orders interface {
	Order(ctx context.Context, id string) (order.State, bool, error)
	// OrdersOf lists the partner's orders changed after the cursor, oldest change first.
	OrdersOf(ctx context.Context, partner string, after int64, limit int) ([]OrderAt, error)
}

// OrderAt is an order and the position of its last change.
type OrderAt struct {
	order.State
	Position int64
}

// Partners reads partners. An implementation may keep a policy for a minute.
type Partners interface {
	Partner(ctx context.Context, id string) (partner.State, bool, error)
}

// Thresholds say when a value counts as stale.
type Thresholds struct {
	Stock time.Duration
	Price time.Duration
}

// DefaultThresholds are those of the freshness objective.
var DefaultThresholds = Thresholds{Stock: 5 * time.Minute, Price: 30 * time.Minute}

// asOf is when a value was last known to be right: when it changed, or since then its source was in step;
// but never later than the source replaced it by something that can't be used.
func asOf(changed, synced, doubted time.Time) time.Time {
	known := changed
	if synced.After(known) {
		known = synced
	}
	if !doubted.IsZero() && known.After(doubted) {
		return doubted
	}
	return known
}
