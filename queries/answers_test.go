package queries_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"andes/commands/money"
	"andes/commands/partner"
	"andes/commands/source"
	"andes/queries"
)

var now = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// shelf is a read model with what a test puts on it.
type shelf struct {
	stock    map[string]queries.StockView
	prices   map[string]queries.PriceView // by list|sku
	products map[string]queries.ProductView
	synced   map[string]time.Time
	fails    string   // the call that fails
	asked    []string // the SKUs of the last call
	calls    []string
}

var errAway = errors.New("away")

func (s *shelf) call(name string, skus []string) error {
	s.asked, s.calls = skus, append(s.calls, name)
	if s.fails == name {
		return errAway
	}
	return nil
}

func (s *shelf) Stock(_ context.Context, skus []string) (map[string]queries.StockView, error) {
	return s.stock, s.call("stock", skus)
}

func (s *shelf) Prices(_ context.Context, list string, skus []string) (map[string]queries.PriceView, error) {
	found := map[string]queries.PriceView{}
	for _, sku := range skus {
		if view, known := s.prices[list+"|"+sku]; known {
			found[sku] = view
		}
	}
	return found, s.call("prices", skus)
}

func (s *shelf) Products(_ context.Context, skus []string) (map[string]queries.ProductView, error) {
	return s.products, s.call("products", skus)
}

func (s *shelf) Watermark(_ context.Context, feed string) (time.Time, error) {
	return s.synced[feed], s.call("watermark", nil)
}

func gbp(minor int64) money.Money { return money.Money{Minor: minor, Currency: "GBP"} }

var policy = partner.Policy{PriceList: "retail", Currency: "GBP"}

func TestStockIsAnsweredInTheOrderAskedAndOnceEach(t *testing.T) {
	s := &shelf{stock: map[string]queries.StockView{"A": {Net: 5}, "B": {Net: -3}, "C": {Net: 100}}}
	asked := []string{"C", "x", "A", "C", "a", "B", "x", "A"}
	capped := partner.Policy{SafetyBuffer: 1, VisibleCap: 50}
	answers, notFound, err := queries.Stock(t.Context(), s, capped, queries.DefaultThresholds, now, asked)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, answer := range answers {
		got = append(got, fmt.Sprint(answer.SKU, answer.Available))
	}
	if !slices.Equal(got, []string{"C50", "A4", "B0"}) {
		t.Errorf("answers %v", got)
	}
	if !slices.Equal(notFound, []string{"x", "a"}) {
		t.Errorf("not found %v", notFound)
	}
	if !slices.Equal(s.asked, []string{"C", "x", "A", "a", "B"}) {
		t.Errorf("the read model was asked for %v", s.asked)
	}
}

func TestPricesAreAnsweredInTheOrderAskedAndOnceEach(t *testing.T) {
	s := &shelf{prices: map[string]queries.PriceView{
		"retail|A": {Price: gbp(255)}, "retail|B": {Price: gbp(100)}, "retail|dollars": {Price: money.Money{Minor: 100, Currency: "USD"}},
		"trade|C": {Price: gbp(1)},
	}}
	asked := []string{"B", "C", "A", "B", "dollars", "none", "C"}
	answers, notFound, err := queries.Prices(t.Context(), s, policy, queries.DefaultThresholds, now, asked)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, answer := range answers {
		got = append(got, answer.SKU+" "+answer.Price.String()+" of "+answer.ListPrice.String())
	}
	if !slices.Equal(got, []string{"B 1.00 GBP of 1.00 GBP", "A 2.55 GBP of 2.55 GBP"}) {
		t.Errorf("answers %v", got)
	}
	if !slices.Equal(notFound, []string{"C", "dollars", "none"}) {
		t.Errorf("not found %v", notFound)
	}
}

func TestNothingAskedIsNothingAnswered(t *testing.T) {
	stock, missing, err := queries.Stock(t.Context(), &shelf{}, policy, queries.DefaultThresholds, now, nil)
	if len(stock)+len(missing) > 0 || err != nil {
		t.Errorf("%v, %v, %v", stock, missing, err)
	}
	prices, missing, err := queries.Prices(t.Context(), &shelf{}, policy, queries.DefaultThresholds, now, nil)
	if len(prices)+len(missing) > 0 || err != nil {
		t.Errorf("%v, %v, %v", prices, missing, err)
	}
}

// asOf is the later of the value's own change and the last sync; stale is more than the threshold ago.
func TestAValueIsStaleWhenItWasLastKnownToBeRightTooLongAgo(t *testing.T) {
	limits := queries.Thresholds{Stock: 5 * time.Minute, Price: 30 * time.Minute}
	for name, c := range map[string]struct {
		changed, synced time.Duration // ago; -1: never
		asOf            time.Duration
		stock, price    bool
	}{
		"changed and synced now":         {0, 0, 0, false, false},
		"at the threshold of stock":      {5 * time.Minute, 6 * time.Minute, 5 * time.Minute, false, false},
		"just beyond it":                 {5*time.Minute + 1, 6 * time.Minute, 5*time.Minute + 1, true, false},
		"unchanged but in step":          {24 * time.Hour, time.Minute, time.Minute, false, false},
		"changed after the last sync":    {time.Minute, 24 * time.Hour, time.Minute, false, false},
		"at the threshold of prices":     {31 * time.Minute, 30 * time.Minute, 30 * time.Minute, true, false},
		"just beyond that":               {31 * time.Minute, 30*time.Minute + 1, 30*time.Minute + 1, true, true},
		"never synced":                   {time.Hour, -1, time.Hour, true, true},
		"never synced but changed now":   {0, -1, 0, false, false},
		"from the future, by its clock":  {-time.Minute, time.Hour, -time.Minute, false, false},
		"a sync from the future as well": {time.Hour, -2 * time.Minute, -2 * time.Minute, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(ago time.Duration) time.Time {
				if ago == -1 {
					return time.Time{}
				}
				return now.Add(-ago)
			}
			s := &shelf{
				stock:  map[string]queries.StockView{"A": {ChangedAt: at(c.changed)}},
				prices: map[string]queries.PriceView{"retail|A": {Price: gbp(1), ChangedAt: at(c.changed)}},
				synced: map[string]time.Time{source.WMSStock: at(c.synced), source.ERPPrices: at(c.synced)},
			}
			stock, _, err := queries.Stock(t.Context(), s, policy, limits, now, []string{"A"})
			if err != nil || stock[0].Stale != c.stock || !stock[0].AsOf.Equal(at(c.asOf)) {
				t.Errorf("stock %+v, %v", stock, err)
			}
			prices, _, err := queries.Prices(t.Context(), s, policy, limits, now, []string{"A"})
			if err != nil || prices[0].Stale != c.price || !prices[0].AsOf.Equal(at(c.asOf)) {
				t.Errorf("price %+v, %v", prices, err)
			}
		})
	}
}

// What the source replaced by something that can't be used is no more recent than that.
func TestADoubtedValueIsAsOldAsTheDoubt(t *testing.T) {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		changed, synced, doubted time.Duration // ago
		asOf                     time.Duration
		stale                    bool
	}{
		"doubted a while ago":             {time.Hour, time.Second, 10 * time.Minute, 10 * time.Minute, true},
		"doubted just now":                {time.Hour, time.Second, 2 * time.Second, 2 * time.Second, false},
		"the last sync is before that":    {time.Hour, 20 * time.Minute, 10 * time.Minute, 20 * time.Minute, true},
		"stamped before the known change": {time.Minute, time.Second, 2 * time.Minute, 2 * time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shelf{
				stock:  map[string]queries.StockView{"A": {ChangedAt: ago(c.changed), DoubtedAt: ago(c.doubted)}},
				prices: map[string]queries.PriceView{"retail|A": {Price: gbp(1), ChangedAt: ago(c.changed), DoubtedAt: ago(c.doubted)}},
				synced: map[string]time.Time{source.WMSStock: ago(c.synced), source.ERPPrices: ago(c.synced)},
			}
			limits := queries.Thresholds{Stock: 5 * time.Minute, Price: 5 * time.Minute}
			stock, _, err := queries.Stock(t.Context(), s, policy, limits, now, []string{"A"})
			if err != nil || !stock[0].AsOf.Equal(ago(c.asOf)) || stock[0].Stale != c.stale {
				t.Errorf("stock %+v, %v", stock, err)
			}
			prices, _, err := queries.Prices(t.Context(), s, policy, limits, now, []string{"A"})
			if err != nil || !prices[0].AsOf.Equal(ago(c.asOf)) || prices[0].Stale != c.stale {
				t.Errorf("prices %+v, %v", prices, err)
			}
		})
	}
}

// Stock and prices have feeds of their own: one that stands still makes only its own values stale.
func TestEachValueIsJudgedByItsOwnFeed(t *testing.T) {
	old := now.Add(-time.Hour)
	s := &shelf{
		stock:  map[string]queries.StockView{"A": {ChangedAt: old}},
		prices: map[string]queries.PriceView{"retail|A": {Price: gbp(1), ChangedAt: old}},
		synced: map[string]time.Time{source.WMSStock: now, source.ERPPrices: old, source.ERPProducts: now, source.WMSShipments: now},
	}
	stock, _, _ := queries.Stock(t.Context(), s, policy, queries.DefaultThresholds, now, []string{"A"})
	prices, _, _ := queries.Prices(t.Context(), s, policy, queries.DefaultThresholds, now, []string{"A"})
	if stock[0].Stale || !prices[0].Stale {
		t.Errorf("stock %+v, price %+v", stock, prices)
	}
}

// A watermark that is read after the values may be of a sync that changed them meanwhile.
func TestTheWatermarkIsReadBeforeTheValues(t *testing.T) {
	s := &shelf{}
	_, _, _ = queries.Stock(t.Context(), s, policy, queries.DefaultThresholds, now, []string{"A"})
	_, _, _ = queries.Prices(t.Context(), s, policy, queries.DefaultThresholds, now, []string{"A"})
	if !slices.Equal(s.calls, []string{"watermark", "stock", "watermark", "prices"}) {
		t.Errorf("calls %v", s.calls)
	}
}

func TestDiscountsApplyAtTheTimeOfTheQuestion(t *testing.T) {
	s := &shelf{
		prices:   map[string]queries.PriceView{"retail|A": {Price: gbp(1000)}, "retail|B": {Price: gbp(1000)}},
		products: map[string]queries.ProductView{"A": {Segment: "toys"}},
	}
	sale := policy
	sale.Discounts = []partner.Discount{{Segment: "toys", Percent: "25", From: now, Until: now.Add(time.Hour)}}
	for at, want := range map[time.Duration]int64{-1: 1000, 0: 750, time.Hour - 1: 750, time.Hour: 1000} {
		answers, _, err := queries.Prices(t.Context(), s, sale, queries.DefaultThresholds, now.Add(at), []string{"A", "B"})
		if err != nil || answers[0].Price != gbp(want) || answers[0].ListPrice != gbp(1000) || answers[1].Price != gbp(1000) {
			t.Errorf("%s: %+v, %v", at, answers, err)
		}
	}
}

func TestProductsAreReadOnlyForDiscountsBySegment(t *testing.T) {
	s := &shelf{prices: map[string]queries.PriceView{"retail|A": {Price: gbp(1)}}, fails: "products"}
	plain := policy
	plain.Discounts = []partner.Discount{{SKU: "A", Percent: "1"}}
	if _, _, err := queries.Prices(t.Context(), s, plain, queries.DefaultThresholds, now, []string{"A"}); err != nil {
		t.Errorf("error %v", err)
	}
}

func TestAReadModelThatFailsIsNoEmptyAnswer(t *testing.T) {
	bySegment := policy
	bySegment.Discounts = []partner.Discount{{Segment: "toys", Percent: "25"}}
	for _, call := range []string{"stock", "prices", "products", "watermark"} {
		s := &shelf{fails: call}
		_, _, err := queries.Prices(t.Context(), s, bySegment, queries.DefaultThresholds, now, []string{"A"})
		if failed := errors.Is(err, errAway); failed != (call != "stock") {
			t.Errorf("prices without %s: %v", call, err)
		}
		_, _, err = queries.Stock(t.Context(), s, policy, queries.DefaultThresholds, now, []string{"A"})
		if failed := errors.Is(err, errAway); failed != (call == "stock" || call == "watermark") {
			t.Errorf("stock without %s: %v", call, err)
		}
	}
}
