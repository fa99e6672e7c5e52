package queries_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"andes/commands/partner"
	"andes/commands/source"
	"andes/queries"
)

// handy is a shelf that has everything at hand but what is far.
type handy struct {
	*shelf
	far string // "": nothing; else a SKU, or "watermark"
}

func (h handy) GlanceStock(_ time.Time, feed string, skus []string, seen []queries.Seen[queries.StockView]) (time.Time, bool) {
	for i, sku := range skus {
		view, there := h.stock[sku]
		seen[i] = queries.Seen[queries.StockView]{View: view, There: there}
	}
	return h.synced[feed], h.has(skus)
}

func (h handy) GlancePrices(_ time.Time, feed, list string, skus []string, seen []queries.Seen[queries.PriceView]) (time.Time, bool) {
	for i, sku := range skus {
		view, there := h.prices[list+"|"+sku]
		seen[i] = queries.Seen[queries.PriceView]{View: view, There: there}
	}
	return h.synced[feed], h.has(skus)
}

func (h handy) GlanceProduct(_ time.Time, sku string) (queries.Seen[queries.ProductView], bool) {
	view, there := h.products[sku]
	return queries.Seen[queries.ProductView]{View: view, There: there}, h.has([]string{sku})
}

func (h handy) has(skus []string) bool { return h.far != "watermark" && !slices.Contains(skus, h.far) }

// filled has SKUs of every kind.
func filled() *shelf {
	return &shelf{
		stock: map[string]queries.StockView{
			"A": {Net: 5, ChangedAt: now.Add(-time.Hour)}, "B": {Net: -3, ChangedAt: now}, "doubted": {Net: 1, ChangedAt: now.Add(-2 * time.Hour), DoubtedAt: now.Add(-time.Hour)},
		},
		prices: map[string]queries.PriceView{
			"retail|A": {Price: gbp(255), ChangedAt: now}, "retail|B": {Price: gbp(1000), ChangedAt: now.Add(-time.Hour)}, "other|C": {Price: gbp(1), ChangedAt: now},
		},
		products: map[string]queries.ProductView{"A": {SKU: "A", Name: "Lamp", Segment: "toys"}},
		synced:   map[string]time.Time{source.WMSStock: now.Add(-time.Minute), source.ERPPrices: now.Add(-40 * time.Minute)},
	}
}

// told is an answer in words.
func told[A any](answers []A, notFound []string, err error) string {
	return fmt.Sprintf("%+v %q %v", answers, notFound, err)
}

func TestAGlanceTellsWhatAskingTells(t *testing.T) {
	asked := []string{"B", "x", "A", "B", "doubted", "C"}
	for _, terms := range []partner.Policy{
		policy, {PriceList: "other", Currency: "GBP", SafetyBuffer: 1, VisibleCap: 2}, {PriceList: "retail", Currency: "EUR"},
		{PriceList: "retail", Currency: "GBP", Discounts: []partner.Discount{{Percent: "10"}}},
	} {
		slow, quick := filled(), filled()
		hand := handy{shelf: quick}
		for name, ask := range map[string]func(queries.Reader) string{
			"stock": func(r queries.Reader) string {
				return told(queries.Stock(t.Context(), r, terms, queries.DefaultThresholds, now, asked))
			},
			"prices": func(r queries.Reader) string {
				return told(queries.Prices(t.Context(), r, terms, queries.DefaultThresholds, now, asked))
			},
			"product": func(r queries.Reader) string {
				view, known, err := queries.Product(t.Context(), r, now, "A")
				return fmt.Sprintf("%+v %v %v", view, known, err)
			},
			"no product": func(r queries.Reader) string {
				view, known, err := queries.Product(t.Context(), r, now, "x")
				return fmt.Sprintf("%+v %v %v", view, known, err)
			},
		} {
			if want, got := ask(slow), ask(hand); got != want {
				t.Errorf("%s by %+v:\n%s\nwant\n%s", name, terms, got, want)
			}
		}
		if len(quick.calls) > 0 {
			t.Errorf("it was asked: %v", quick.calls)
		}
	}
}

func TestWhatIsNotAllAtHandIsAskedFor(t *testing.T) {
	bySegment := partner.Policy{PriceList: "retail", Currency: "GBP", Discounts: []partner.Discount{{Segment: "toys", Percent: "10"}}}
	var many []string
	for i := range 101 {
		many = append(many, fmt.Sprint(i))
	}
	for name, c := range map[string]struct {
		far    string
		skus   []string
		policy partner.Policy
		stock  bool // is asked for, not only the prices
	}{
		"a SKU is far": {"B", []string{"A", "B"}, policy, true}, "the watermark is": {"watermark", []string{"A"}, policy, true},
		"many SKUs": {"", many, policy, true}, "prices by segment": {"", []string{"A"}, bySegment, false},
	} {
		s := filled()
		hand := handy{s, c.far}
		if _, _, err := queries.Stock(t.Context(), hand, c.policy, queries.DefaultThresholds, now, c.skus); err != nil || slices.Contains(s.calls, "stock") != c.stock {
			t.Errorf("%s: %v, %v", name, s.calls, err)
		}
		if _, _, err := queries.Prices(t.Context(), hand, c.policy, queries.DefaultThresholds, now, c.skus); err != nil || !slices.Contains(s.calls, "prices") {
			t.Errorf("%s: %v, %v", name, s.calls, err)
		}
	}
}

// handyCopy is a copy that has what is on the shelf at hand.
type handyCopy struct {
	*fakeCopy
	hand handy
}

func (c handyCopy) GlanceStock(now time.Time, feed string, skus []string, seen []queries.Seen[queries.StockView]) (time.Time, bool) {
	return c.hand.GlanceStock(now, feed, skus, seen)
}

func (c handyCopy) GlancePrices(now time.Time, feed, list string, skus []string, seen []queries.Seen[queries.PriceView]) (time.Time, bool) {
	return c.hand.GlancePrices(now, feed, list, skus, seen)
}

func (c handyCopy) GlanceProduct(now time.Time, sku string) (queries.Seen[queries.ProductView], bool) {
	return c.hand.GlanceProduct(now, sku)
}

func TestAFallbackGlancesAtItsCopyAndCountsIt(t *testing.T) {
	metrics := prometheus.NewRegistry()
	f := newFixture(t, nil)
	f.config.Copy, f.config.Metrics = handyCopy{f.copy, handy{shelf: filled()}}, metrics
	fallback, err := queries.NewFallback(f.config)
	if err != nil {
		t.Fatal(err)
	}
	for _, ask := range []func() error{
		func() error {
			_, _, err := queries.Stock(t.Context(), fallback, policy, queries.DefaultThresholds, now, []string{"A", "x"})
			return err
		},
		func() error {
			_, _, err := queries.Prices(t.Context(), fallback, policy, queries.DefaultThresholds, now, []string{"A"})
			return err
		},
		func() error { _, _, err := queries.Product(t.Context(), fallback, now, "A"); return err },
	} {
		if err := ask(); err != nil {
			t.Error(err)
		}
	}
	if f.copy.times() != 0 || f.states.times() != 0 {
		t.Errorf("the copy was asked %d times, the states %d times", f.copy.times(), f.states.times())
	}
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := 0.0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if label := metric.GetLabel(); len(label) > 0 && label[0].GetValue() == "at_hand" {
				counted = metric.GetCounter().GetValue()
			}
		}
	}
	if counted != 3 {
		t.Errorf("%v answers are counted as at hand, want 3", counted)
	}
}
