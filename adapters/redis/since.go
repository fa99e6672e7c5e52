package redis

import (
	"context"
	"maps"
	"slices"

	"andes/projections"
	"andes/queries"
)

var _ queries.Since = (*Reader)(nil)

// StockSince implements queries.Since.
func (r *Reader) StockSince(ctx context.Context, least map[string]int64) (queries.Copied[queries.StockView], error) {
	return readSince(ctx, r, projections.Stocks.Name, least, projections.StockKey, stockOf)
}

// PricesSince implements queries.Since.
func (r *Reader) PricesSince(ctx context.Context, list string, least map[string]int64) (queries.Copied[queries.PriceView], error) {
	key := func(sku string) string { return projections.PriceKey(list, sku) }
	return readSince(ctx, r, projections.Prices.Name, least, key, priceOf)
}

// ProductsSince implements queries.Since.
func (r *Reader) ProductsSince(ctx context.Context, least map[string]int64) (queries.Copied[queries.ProductView], error) {
	return readSince(ctx, r, projections.Products.Name, least, projections.ProductKey, productOf)
}

// readSince reads from the server itself: what a client keeps may be older.
func readSince[V any](ctx context.Context, r *Reader, model string, least map[string]int64, key func(sku string) string, decode func(value string) (V, error)) (queries.Copied[V], error) {
	copied := queries.Copied[V]{Found: make(map[string]V, len(least))}
	if len(least) == 0 {
		return copied, nil
	}
	client, err := r.client.connection()
	if err != nil {
		return copied, err
	}
	keys, err := client.servingLayout(ctx, model)
	if err != nil {
		return copied, err
	}
	skus := slices.Collect(maps.Keys(least))
	entryKeys := make([]string, len(skus))
	for i, sku := range skus {
		entryKeys[i] = key(sku)
	}
	err = client.get(ctx, keys, entryKeys, func(i int, text string, kept bool) {
		if !kept || projections.PositionOf(text) < least[skus[i]] {
			copied.Lacking = append(copied.Lacking, skus[i])
			return
		}
		value, there := projections.ValueOf(text)
		if !there {
			return
		}
		if view, err := decode(value); err == nil {
			copied.Found[skus[i]] = view
		} else {
			copied.Lacking = append(copied.Lacking, skus[i])
		}
	})
	return copied, err
}
