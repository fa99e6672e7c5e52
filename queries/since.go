package queries

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/eventstore"
)

// Since reads values that have to be at least as new as a position, by SKU. What can't be given that new is
// lacking.
type Since interface {
	StockSince(ctx context.Context, least map[string]int64) (Copied[StockView], error)
	PricesSince(ctx context.Context, list string, least map[string]int64) (Copied[PriceView], error)
	ProductsSince(ctx context.Context, least map[string]int64) (Copied[ProductView], error)
}

// errOlder can't be while the states are written with the events.
var errOlder = errors.New("a state is older than its event")

// StockSince implements Since: nothing is lacking. What the copy has older is read from the states and put back.
func (f *Fallback) StockSince(ctx context.Context, least map[string]int64) (Copied[StockView], error) {
	return since(ctx, f, least, func(ctx context.Context, copied Since) (Copied[StockView], error) {
		return copied.StockSince(ctx, least)
	},
		stock.Aggregate, func(sku string) string { return sku }, ViewOfStock)
}

// PricesSince implements Since, as StockSince.
func (f *Fallback) PricesSince(ctx context.Context, list string, least map[string]int64) (Copied[PriceView], error) {
	return since(ctx, f, least, func(ctx context.Context, copied Since) (Copied[PriceView], error) {
		return copied.PricesSince(ctx, list, least)
	},
		price.Aggregate, func(sku string) string { return price.Key(list, sku) }, ViewOfPrice)
}

// ProductsSince implements Since, as StockSince.
func (f *Fallback) ProductsSince(ctx context.Context, least map[string]int64) (Copied[ProductView], error) {
	return since(ctx, f, least, func(ctx context.Context, copied Since) (Copied[ProductView], error) {
		return copied.ProductsSince(ctx, least)
	},
		product.Aggregate, func(sku string) string { return sku }, ViewOfProduct)
}

// sinceReads is how often states are read: a read that was joined may have begun before the change.
const sinceReads = 2

func since[S, V any](
	ctx context.Context, f *Fallback, least map[string]int64, copied func(ctx context.Context, copied Since) (Copied[V], error),
	aggregate *eventstore.Aggregate[S], key func(sku string) string, view func(S) (V, bool),
) (Copied[V], error) {
	answer, asked := fromCopy(ctx, f, slices.Collect(maps.Keys(least)), func(ctx context.Context, skus []string) (Copied[V], error) {
		if source, able := f.config.Copy.(Since); able {
			return copied(ctx, source)
		}
		return Copied[V]{Lacking: skus}, nil
	})
	if answer.Found == nil {
		answer.Found = map[string]V{}
	}
	for range sinceReads {
		if err := ctx.Err(); err != nil || len(answer.Lacking) == 0 {
			return answer, err
		}
		streams := make([]eventstore.Stream, len(answer.Lacking))
		for i, sku := range answer.Lacking {
			streams[i] = aggregate.Stream(key(sku))
		}
		records, err := f.states(ctx, streams, asked)
		if err != nil {
			return answer, err
		}
		var older []string
		for i, sku := range answer.Lacking {
			record := records[streams[i]]
			if record.Position < least[sku] {
				older = append(older, sku)
				continue
			}
			if record.State == nil {
				continue
			}
			state, err := aggregate.Decode(record.State)
			if err != nil {
				return answer, err
			}
			if v, visible := view(state); visible {
				answer.Found[sku] = v
			}
		}
		answer.Lacking = older
	}
	if len(answer.Lacking) > 0 {
		return answer, fmt.Errorf("queries: %w: %s %q", errOlder, aggregate.Name, answer.Lacking[0])
	}
	return answer, nil
}
