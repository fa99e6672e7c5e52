package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"andes/adapters/postgres"
	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/promo"
	"andes/queries"
)

// promoShelf is the read model with a promo's products. It implements promo.Shelf.
type promoShelf struct {
	copy       queries.Copy
	states     *postgres.DB
	put        func(ctx context.Context, records []eventstore.StateRecord) error
	thresholds queries.Thresholds
	now        func() time.Time
}

// Bounds of what is looked at.
const (
	maxPromoLists    = 100 // price lists
	partnersPerPage  = 500
	maxPartnerPages  = 200
	promoStatesAsked = 1000 // by one question
)

// Prepare implements promo.Shelf. What was put back is looked at again, so that what it tells is what partners will
// be told.
func (s *promoShelf) Prepare(ctx context.Context, skus []string) (promo.Look, error) {
	lists, err := s.lists(ctx)
	if err != nil {
		return promo.Look{}, err
	}
	var look promo.Look
	lacking, err := s.lacking(ctx, skus, lists, &look.Keys)
	if err != nil {
		return look, err
	}
	look.Lacked = len(lacking)
	for some := range slices.Chunk(lacking, promoStatesAsked) {
		if err := s.putBack(ctx, some); err != nil {
			return look, err
		}
	}
	if look.Missing, err = s.settled(ctx, skus, lists, look.Lacked); err != nil {
		return look, err
	}
	return look, s.judge(ctx, skus, lists, &look)
}

// What was put back is seen as soon as Redis has told this process that it is new.
const (
	putBackSeen   = 2 * time.Second // at the latest
	putBackGlance = 20 * time.Millisecond
)

// settled gives how many entries are missing yet, after some were put back.
func (s *promoShelf) settled(ctx context.Context, skus []string, lists []priceList, missing int) (int, error) {
	seen := time.NewTimer(putBackSeen)
	defer seen.Stop()
	glance := time.NewTicker(putBackGlance)
	defer glance.Stop()
	for missing > 0 {
		asked := 0
		lacking, err := s.lacking(ctx, skus, lists, &asked)
		if missing = len(lacking); err != nil || missing == 0 {
			return missing, err
		}
		select {
		case <-ctx.Done():
			return missing, ctx.Err()
		case <-seen.C:
			return missing, nil
		case <-glance.C:
		}
	}
	return missing, nil
}

// priceList is one that a partner has, with the currency in which it buys.
type priceList struct{ name, currency string }

// lists are the price lists of all partners.
func (s *promoShelf) lists(ctx context.Context) ([]priceList, error) {
	var lists []priceList
	after := int64(0)
	for range maxPartnerPages {
		page, err := s.states.StatesOf(ctx, partner.Aggregate.Name, "", after, partnersPerPage)
		if err != nil {
			return nil, err
		}
		for _, stored := range page {
			state, err := partner.Aggregate.Decode(stored.State)
			if err != nil {
				return nil, err
			}
			list := priceList{state.Policy.PriceList, state.Policy.Currency}
			if after = stored.Position; !slices.Contains(lists, list) && len(lists) < maxPromoLists {
				lists = append(lists, list)
			}
		}
		if len(page) < partnersPerPage {
			break
		}
	}
	return lists, nil
}

// lacking gives the streams that the read model knows nothing of, and counts what was asked.
func (s *promoShelf) lacking(ctx context.Context, skus []string, lists []priceList, asked *int) ([]eventstore.Stream, error) {
	var streams []eventstore.Stream
	note := func(lacking []string, stream func(sku string) eventstore.Stream) {
		*asked += len(skus)
		for _, sku := range lacking {
			streams = append(streams, stream(sku))
		}
	}
	stocks, err := s.copy.Stock(ctx, skus)
	if err != nil {
		return nil, err
	}
	note(stocks.Lacking, func(sku string) eventstore.Stream { return stock.Aggregate.Stream(sku) })
	products, err := s.copy.Products(ctx, skus)
	if err != nil {
		return nil, err
	}
	note(products.Lacking, func(sku string) eventstore.Stream { return product.Aggregate.Stream(sku) })
	for _, list := range lists {
		prices, err := s.copy.Prices(ctx, list.name, skus)
		if err != nil {
			return nil, err
		}
		note(prices.Lacking, func(sku string) eventstore.Stream { return price.Aggregate.Stream(price.Key(list.name, sku)) })
	}
	return streams, nil
}

func (s *promoShelf) putBack(ctx context.Context, streams []eventstore.Stream) error {
	states, err := s.states.States(ctx, streams)
	if err != nil {
		return err
	}
	records := make([]eventstore.StateRecord, len(streams))
	for i, stream := range streams {
		records[i] = states[stream]
		records[i].Stream = stream // also of one without events, which is then known not to be there
	}
	if err := s.put(ctx, records); err != nil {
		return fmt.Errorf("put %d entries back: %w", len(records), err)
	}
	return nil
}

// judge looks at the values as a partner would be told them.
func (s *promoShelf) judge(ctx context.Context, skus []string, lists []priceList, look *promo.Look) error {
	reader := copyReader{s.copy}
	now := s.now()
	stocks, unknown, err := queries.Stock(ctx, reader, partner.Policy{}, s.thresholds, now, skus)
	if err != nil {
		return err
	}
	products, err := reader.Products(ctx, skus)
	if err != nil {
		return err
	}
	for _, sku := range skus {
		if _, known := products[sku]; !known && !slices.Contains(unknown, sku) {
			unknown = append(unknown, sku)
		}
	}
	look.Unknown = unknown
	for _, answer := range stocks {
		if answer.Stale {
			look.Stale = append(look.Stale, promo.Stale{SKU: answer.SKU, What: "stock", Age: promo.Span(now.Sub(answer.AsOf).Round(time.Second))})
		}
	}
	return s.judgePrices(ctx, skus, lists, look)
}

// judgePrices looks at every price list that a partner has.
func (s *promoShelf) judgePrices(ctx context.Context, skus []string, lists []priceList, look *promo.Look) error {
	now := s.now()
	sold, stale := map[string]bool{}, map[string]bool{}
	for _, list := range lists {
		policy := partner.Policy{PriceList: list.name, Currency: list.currency}
		prices, _, err := queries.Prices(ctx, copyReader{s.copy}, policy, s.thresholds, now, skus)
		if err != nil {
			return err
		}
		for _, answer := range prices {
			sold[answer.SKU] = true
			if answer.Stale && !stale[answer.SKU] {
				stale[answer.SKU] = true
				look.Stale = append(look.Stale, promo.Stale{SKU: answer.SKU, What: "price", Age: promo.Span(now.Sub(answer.AsOf).Round(time.Second))})
			}
		}
	}
	for _, sku := range skus {
		if !sold[sku] && !slices.Contains(look.Unknown, sku) {
			look.Unsold = append(look.Unsold, sku)
		}
	}
	return nil
}

// copyReader asks the read model alone.
type copyReader struct{ queries.Copy }

// Stock implements queries.Reader.
func (r copyReader) Stock(ctx context.Context, skus []string) (map[string]queries.StockView, error) {
	copied, err := r.Copy.Stock(ctx, skus)
	return copied.Found, err
}

// Prices implements queries.Reader.
func (r copyReader) Prices(ctx context.Context, list string, skus []string) (map[string]queries.PriceView, error) {
	copied, err := r.Copy.Prices(ctx, list, skus)
	return copied.Found, err
}

// Products implements queries.Reader.
func (r copyReader) Products(ctx context.Context, skus []string) (map[string]queries.ProductView, error) {
	copied, err := r.Copy.Products(ctx, skus)
	return copied.Found, err
}

// Watermark implements queries.Reader.
func (r copyReader) Watermark(ctx context.Context, feed string) (time.Time, error) {
	at, _, err := r.Copy.Watermark(ctx, feed)
	return at, err
}
