package promo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/queries"
)

// States reads the states, also those of all partners.
type States interface {
	queries.States
	// StatesOf gives the states of a category after a position; owner empty: of all.
	StatesOf(ctx context.Context, category, owner string, after int64, limit int) ([]eventstore.StateRecord, error)
}

// Warmer puts a promo's products into the read model and looks at them there. It implements Shelf; a read model that can't be
// reached is an eventstore.ErrUnavailable.
type Warmer struct {
	Copy       queries.Copy
	States     States
	Put        func(ctx context.Context, records []eventstore.StateRecord) error // into the copy
	Thresholds queries.Thresholds
	Now        func() time.Time
}

var _ Shelf = Warmer{}

// Bounds of what is looked at.
const (
	maxLists        = 100 // price lists
	partnersPerPage = 500
	maxPartnerPages = 200
	statesAsked     = 1000 // by one question
)

// Prepare implements Shelf. What was put back is looked at again, so that what it tells is what partners will
// be told.
func (w Warmer) Prepare(ctx context.Context, skus []string) (Look, error) {
	lists, err := w.lists(ctx)
	if err != nil {
		return Look{}, err
	}
	var look Look
	lacking, err := w.lacking(ctx, skus, lists, &look.Keys)
	if err != nil {
		return look, err
	}
	look.Lacked = len(lacking)
	for some := range slices.Chunk(lacking, statesAsked) {
		if err := w.putBack(ctx, some); err != nil {
			return look, err
		}
	}
	if look.Missing, err = w.settled(ctx, skus, lists, look.Lacked); err != nil {
		return look, err
	}
	return look, w.judge(ctx, skus, lists, &look)
}

// What was put back is seen as soon as Redis has told this process that it is new.
const (
	putBackSeen   = 2 * time.Second // at the latest
	putBackGlance = 20 * time.Millisecond
)

// settled gives how many entries are missing yet, after some were put back.
func (w Warmer) settled(ctx context.Context, skus []string, lists []priceList, missing int) (int, error) {
	seen := time.NewTimer(putBackSeen)
	defer seen.Stop()
	glance := time.NewTicker(putBackGlance)
	defer glance.Stop()
	for missing > 0 {
		asked := 0
		lacking, err := w.lacking(ctx, skus, lists, &asked)
		if missing = len(lacking); err != nil || missing == 0 {
			return missing, err
		}
		select {
		case <-ctx.Done():
			return missing, away(ctx.Err())
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
func (w Warmer) lists(ctx context.Context) ([]priceList, error) {
	var lists []priceList
	after := int64(0)
	for range maxPartnerPages {
		page, err := w.States.StatesOf(ctx, partner.Aggregate.Name, "", after, partnersPerPage)
		if err != nil {
			return nil, err
		}
		for _, stored := range page {
			state, err := partner.Aggregate.Decode(stored.State)
			if err != nil {
				return nil, err
			}
			list := priceList{state.Policy.PriceList, state.Policy.Currency}
			if after = stored.Position; !slices.Contains(lists, list) && len(lists) < maxLists {
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
func (w Warmer) lacking(ctx context.Context, skus []string, lists []priceList, asked *int) ([]eventstore.Stream, error) {
	var streams []eventstore.Stream
	note := func(lacking []string, stream func(sku string) eventstore.Stream) {
		*asked += len(skus)
		for _, sku := range lacking {
			streams = append(streams, stream(sku))
		}
	}
	stocks, err := w.Copy.Stock(ctx, skus)
	if err != nil {
		return nil, away(err)
	}
	note(stocks.Lacking, func(sku string) eventstore.Stream { return stock.Aggregate.Stream(sku) })
	products, err := w.Copy.Products(ctx, skus)
	if err != nil {
		return nil, away(err)
	}
	note(products.Lacking, func(sku string) eventstore.Stream { return product.Aggregate.Stream(sku) })
	for _, list := range lists {
		prices, err := w.Copy.Prices(ctx, list.name, skus)
		if err != nil {
			return nil, away(err)
		}
		note(prices.Lacking, func(sku string) eventstore.Stream { return price.Aggregate.Stream(price.Key(list.name, sku)) })
	}
	return streams, nil
}

func (w Warmer) putBack(ctx context.Context, streams []eventstore.Stream) error {
	states, err := w.States.States(ctx, streams)
	if err != nil {
		return err
	}
	records := make([]eventstore.StateRecord, len(streams))
	for i, stream := range streams {
		records[i] = states[stream]
		records[i].Stream = stream // also of one without events, which is then known not to be there
	}
	if err := w.Put(ctx, records); err != nil {
		return away(fmt.Errorf("put %d entries back: %w", len(records), err))
	}
	return nil
}

// judge looks at the values as a partner would be told them.
func (w Warmer) judge(ctx context.Context, skus []string, lists []priceList, look *Look) error {
	reader := queries.CopyReader{Copy: w.Copy}
	now := w.Now()
	stocks, unknown, err := queries.Stock(ctx, reader, partner.Policy{}, w.Thresholds, now, skus)
	if err != nil {
		return away(err)
	}
	products, err := reader.Products(ctx, skus)
	if err != nil {
		return away(err)
	}
	for _, sku := range skus {
		if _, known := products[sku]; !known && !slices.Contains(unknown, sku) {
			unknown = append(unknown, sku)
		}
	}
	look.Unknown = unknown
	for _, answer := range stocks {
		if answer.Stale {
			look.Stale = append(look.Stale, Stale{SKU: answer.SKU, What: "stock", Age: Span(now.Sub(answer.AsOf).Round(time.Second))})
		}
	}
	return w.judgePrices(ctx, skus, lists, look)
}

// judgePrices looks at every price list that a partner has.
func (w Warmer) judgePrices(ctx context.Context, skus []string, lists []priceList, look *Look) error {
	now := w.Now()
	sold, stale := map[string]bool{}, map[string]bool{}
	for _, list := range lists {
		policy := partner.Policy{PriceList: list.name, Currency: list.currency}
		prices, _, err := queries.Prices(ctx, queries.CopyReader{Copy: w.Copy}, policy, w.Thresholds, now, skus)
		if err != nil {
			return away(err)
		}
		for _, answer := range prices {
			sold[answer.SKU] = true
			if answer.Stale && !stale[answer.SKU] {
				stale[answer.SKU] = true
				look.Stale = append(look.Stale, Stale{SKU: answer.SKU, What: "price", Age: Span(now.Sub(answer.AsOf).Round(time.Second))})
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

// away says of an error of the copy that the copy could not be reached.
func away(err error) error { return notReached{fmt.Errorf("the read model: %w", err)} }

// notReached is an eventstore.ErrUnavailable that does not say that it is the event store.
type notReached struct{ error }

func (notReached) Is(target error) bool { return target == eventstore.ErrUnavailable }

func (n notReached) Unwrap() error { return n.error }
