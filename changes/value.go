package changes

import (
	"context"
	"time"

	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/queries"
)

// value is what the read model has of a stream, before any partner's policy.
type value struct {
	there   bool // false: known not to be there
	stock   queries.StockView
	price   queries.PriceView
	segment string // of a product
}

// read asks for the values, by kind and price list. What source lacks is missing in the map.
func read(ctx context.Context, source queries.Since, needs []need) (map[eventstore.Stream]value, error) {
	stocks, products, prices := map[string]int64{}, map[string]int64{}, map[string]map[string]int64{}
	for _, n := range needs {
		switch n.stream.Category {
		case stock.Aggregate.Name:
			stocks[n.stream.Key] = n.least
		case product.Aggregate.Name:
			products[n.stream.Key] = n.least
		case price.Aggregate.Name:
			list, sku := price.ParseKey(n.stream.Key)
			if prices[list] == nil {
				prices[list] = map[string]int64{}
			}
			prices[list][sku] = n.least
		}
	}
	values := make(map[eventstore.Stream]value, len(needs))
	err := gather(values, stocks, stock.Aggregate.Stream, func() (queries.Copied[queries.StockView], error) { return source.StockSince(ctx, stocks) },
		func(v queries.StockView) value { return value{there: true, stock: v} })
	if err != nil {
		return nil, err
	}
	err = gather(values, products, product.Aggregate.Stream, func() (queries.Copied[queries.ProductView], error) { return source.ProductsSince(ctx, products) },
		func(v queries.ProductView) value { return value{there: true, segment: v.Segment} })
	if err != nil {
		return nil, err
	}
	for list, least := range prices {
		stream := func(sku string) eventstore.Stream { return price.Aggregate.Stream(price.Key(list, sku)) }
		err = gather(values, least, stream, func() (queries.Copied[queries.PriceView], error) { return source.PricesSince(ctx, list, least) },
			func(v queries.PriceView) value { return value{there: true, price: v} })
		if err != nil {
			return nil, err
		}
	}
	return values, nil
}

func gather[V any](
	values map[eventstore.Stream]value, asked map[string]int64, stream func(sku string) eventstore.Stream,
	ask func() (queries.Copied[V], error), keep func(V) value,
) error {
	if len(asked) == 0 {
		return nil
	}
	copied, err := ask()
	if err != nil {
		return err
	}
	lacking := make(map[string]bool, len(copied.Lacking))
	for _, sku := range copied.Lacking {
		lacking[sku] = true
	}
	for sku := range asked {
		if v, found := copied.Found[sku]; found {
			values[stream(sku)] = keep(v)
		} else if !lacking[sku] {
			values[stream(sku)] = value{}
		}
	}
	return nil
}

// Watermarks tells until when feeds are known to be in step with their sources.
type Watermarks interface {
	Watermark(ctx context.Context, feed string) (time.Time, error)
}

// told is a queries.Reader of one page's values.
type told struct {
	Watermarks
	values map[eventstore.Stream]value
}

func (t told) Stock(_ context.Context, skus []string) (map[string]queries.StockView, error) {
	found := make(map[string]queries.StockView, len(skus))
	for _, sku := range skus {
		if v := t.values[stock.Aggregate.Stream(sku)]; v.there {
			found[sku] = v.stock
		}
	}
	return found, nil
}

func (t told) Prices(_ context.Context, list string, skus []string) (map[string]queries.PriceView, error) {
	found := make(map[string]queries.PriceView, len(skus))
	for _, sku := range skus {
		if v := t.values[price.Aggregate.Stream(price.Key(list, sku))]; v.there {
			found[sku] = v.price
		}
	}
	return found, nil
}

func (t told) Products(_ context.Context, skus []string) (map[string]queries.ProductView, error) {
	found := make(map[string]queries.ProductView, len(skus))
	for _, sku := range skus {
		if v := t.values[product.Aggregate.Stream(sku)]; v.there {
			found[sku] = queries.ProductView{SKU: sku, Segment: v.segment}
		}
	}
	return found, nil
}
