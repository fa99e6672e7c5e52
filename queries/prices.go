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
	if answers, notFound, done := glancePrices(reader, policy, limits, now, asked); done {
		return answers, notFound, nil
	}
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
		answers = append(answers, view.answer(sku, products[sku].Segment, policy, limits, now, synced))
	}
	return answers, notFound, nil
}

// glancePrices answers when all of it is at hand. Discounts by segment need the products too, and are left to the
// way that reads them.
func glancePrices(reader Reader, policy partner.Policy, limits Thresholds, now time.Time, asked []string) (answers []PriceAnswer, notFound []string, done bool) {
	quick, able := reader.(Glancer)
	if !able || len(asked) > maxGlance || policy.BySegment() {
		return nil, nil, false
	}
	seen := priceGlances.Get().(*[maxGlance]Seen[PriceView])
	defer priceGlances.Put(seen)
	synced, done := quick.GlancePrices(now, source.ERPPrices, policy.PriceList, asked, seen[:len(asked)])
	if !done {
		return nil, nil, false
	}
	answers = make([]PriceAnswer, 0, len(asked))
	for i, sku := range asked {
		if !seen[i].There || seen[i].View.Price.Currency != policy.Currency {
			notFound = append(notFound, sku)
			continue
		}
		answers = append(answers, seen[i].View.answer(sku, "", policy, limits, now, synced))
	}
	return answers, notFound, true
}

func (v PriceView) answer(sku, segment string, policy partner.Policy, limits Thresholds, now, synced time.Time) PriceAnswer {
	at := asOf(v.ChangedAt, synced, v.DoubtedAt)
	return PriceAnswer{
		SKU: sku, ListPrice: v.Price, Price: policy.Price(v.Price, sku, segment, now),
		AsOf: at, Stale: now.Sub(at) > limits.Price,
	}
}
