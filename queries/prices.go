package queries

import (
	"context"
	"time"

	"andes/commands/money"
	"andes/commands/partner"
	"andes/commands/source"
)

// PriceAnswer is a partner's price of one SKU.
type PriceAnswer struct {
	SKU       string
	Price     money.Money // after discounts
	ListPrice money.Money
	AsOf      time.Time
	Stale     bool
}

// Prices answers for each SKU in the order asked, by the partner's price list and discounts, and lists
// the SKUs without a price.
func Prices(ctx context.Context, reader Reader, policy partner.Policy, limits Thresholds, now time.Time, skus []string) (answers []PriceAnswer, notFound []string, err error) {
	asked := unique(skus)
	synced, err := reader.Watermark(ctx, source.ERPPrices) // before the values, as in Stock
	if err != nil {
		return nil, nil, err
	}
	views, err := reader.Prices(ctx, policy.PriceList, asked)
	if err != nil {
		return nil, nil, err
	}
	products := map[string]ProductView{}
	if policy.BySegment() {
		if products, err = reader.Products(ctx, asked); err != nil {
			return nil, nil, err
		}
	}
	answers = make([]PriceAnswer, 0, len(views))
	for _, sku := range asked {
		view, known := views[sku]
		if !known || view.Price.Currency != policy.Currency {
			notFound = append(notFound, sku)
			continue
		}
		at := asOf(view.ChangedAt, synced, view.DoubtedAt)
		answers = append(answers, PriceAnswer{
			SKU: sku, ListPrice: view.Price, Price: policy.Price(view.Price, sku, products[sku].Segment, now),
			AsOf: at, Stale: now.Sub(at) > limits.Price,
		})
	}
	return answers, notFound, nil
}
