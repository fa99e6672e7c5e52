// Package readmodel holds what every way of reading stock, prices, products and watermarks has in common,
// and what only shows when Redis and PostgreSQL work together.
package readmodel

import (
	"strings"
	"testing"
	"time"

	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/source"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/queries"
	"andes/test/redistest"
)

// Subject is a Reader and the store that its answers come from.
type Subject struct {
	Reader queries.Reader
	Store  eventstore.Store
	// Project brings the streams' states into the read model, as the relay and the projector do; nil
	// where there is no read model between store and reader.
	Project func(t *testing.T, streams ...eventstore.Stream)
}

// Exercise runs the suite. open gives an empty subject for each test.
func Exercise(t *testing.T, open func(t *testing.T) Subject) {
	for name, test := range map[string]func(*testing.T, Subject){
		"stock is what is free to sell":                     readsStock,
		"a price is that of the list that is asked for":     readsPrices,
		"a product comes with its attributes":               readsProducts,
		"what was removed is not there until it comes back": hidesRemoved,
		"a product takes stock and prices with it":          hidesWithProduct,
		"what was replaced by nonsense says since when":     readsDoubts,
		"the watermark is the last complete sync":           readsWatermarks,
		"many SKUs are answered at once":                    readsMany,
		"keys that look alike are not mixed up":             keepsApart,
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

var at = time.Date(2026, 3, 1, 12, 0, 0, 123e6, time.UTC)

// run executes the commands and lets the read model know.
func (s Subject) run(t *testing.T, commands ...eventstore.Command) {
	t.Helper()
	var streams []eventstore.Stream
	for _, command := range commands {
		if _, err := s.Store.Execute(t.Context(), eventstore.Request{Command: command}); err != nil {
			t.Fatalf("%#v: %v", command, err)
		}
		streams = append(streams, command.Needs()...)
	}
	if s.Project != nil {
		s.Project(t, streams...)
	}
}

func (s Subject) stock(t *testing.T, skus ...string) map[string]queries.StockView {
	t.Helper()
	found, err := s.Reader.Stock(t.Context(), skus)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func readsStock(t *testing.T, s Subject) {
	s.run(t, stock.Report{SKU: "A", OnHand: 7, SourceVersion: 1, At: at}, stock.Report{SKU: "B", OnHand: -2, SourceVersion: 1, At: at})
	found := s.stock(t, "A", "B", "unknown")
	if len(found) != 2 || found["B"].Net != -2 || found["A"].Net != 7 || !found["A"].ChangedAt.Equal(at) {
		t.Errorf("found %v", found)
	}
	s.run(t, stock.Report{SKU: "A", OnHand: 3, SourceVersion: 2, At: at.Add(time.Second)})
	if found = s.stock(t, "A"); found["A"].Net != 3 || !found["A"].ChangedAt.Equal(at.Add(time.Second)) {
		t.Errorf("after the change: %v", found)
	}
	if found = s.stock(t); len(found) != 0 {
		t.Errorf("asked for nothing: %v", found)
	}
}

func (s Subject) prices(t *testing.T, list string, skus ...string) map[string]queries.PriceView {
	t.Helper()
	found, err := s.Reader.Prices(t.Context(), list, skus)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func setPrice(list, sku, amount, currency string, version int64) price.Report {
	return price.Report{List: list, SKU: sku, Amount: amount, Currency: currency, SourceVersion: version, At: at}
}

func readsPrices(t *testing.T, s Subject) {
	s.run(t, setPrice("retail", "A", "2.55", "GBP", 1), setPrice("wholesale", "A", "1990", "CLP", 1), setPrice("wholesale", "B", "1", "CLP", 1))
	found := s.prices(t, "retail", "A", "B")
	if len(found) != 1 || found["A"].Price.String() != "2.55 GBP" || !found["A"].ChangedAt.Equal(at) {
		t.Errorf("retail: %v", found)
	}
	if found = s.prices(t, "wholesale", "A", "B"); len(found) != 2 || found["A"].Price.Minor != 1990 || found["A"].Price.Currency != "CLP" {
		t.Errorf("wholesale: %v", found)
	}
	if found = s.prices(t, "nowhere", "A"); len(found) != 0 {
		t.Errorf("a list that is not there: %v", found)
	}
}

func describe(sku string, version int64) product.Report {
	return product.Report{
		SKU: sku, Name: "Holder: 2 lights", Segment: "home", SourceVersion: version, At: at,
		Attributes: map[string]string{"colour": "red 5:ü", "": "", "size": "2 x 3"},
	}
}

func (s Subject) products(t *testing.T, skus ...string) map[string]queries.ProductView {
	t.Helper()
	found, err := s.Reader.Products(t.Context(), skus)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func readsProducts(t *testing.T, s Subject) {
	s.run(t, describe("A", 1), product.Report{SKU: "B", Name: "Bare", SourceVersion: 1, At: at})
	found := s.products(t, "A", "B", "unknown")
	a := found["A"]
	if len(found) != 2 || a.SKU != "A" || a.Name != "Holder: 2 lights" || a.Segment != "home" || !a.ChangedAt.Equal(at) ||
		len(a.Attributes) != 3 || a.Attributes["colour"] != "red 5:ü" || a.Attributes["size"] != "2 x 3" {
		t.Errorf("found %+v", found)
	}
	if b := found["B"]; b.Name != "Bare" || b.Segment != "" || b.Attributes != nil {
		t.Errorf("a product with a name only: %+v", b)
	}
}

func hidesRemoved(t *testing.T, s Subject) {
	s.run(t, describe("A", 1), setPrice("retail", "A", "2.55", "GBP", 1))
	s.products(t, "A")
	s.run(t, product.Report{SKU: "A", SourceVersion: 2, At: at, Removed: true}, price.Report{List: "retail", SKU: "A", SourceVersion: 2, At: at, Removed: true})
	if products, prices := s.products(t, "A"), s.prices(t, "retail", "A"); len(products)+len(prices) != 0 {
		t.Errorf("after the removal: %v %v", products, prices)
	}
	s.run(t, describe("A", 3), setPrice("retail", "A", "2.65", "GBP", 3))
	if products, prices := s.products(t, "A"), s.prices(t, "retail", "A"); len(products) != 1 || prices["A"].Price.Minor != 265 {
		t.Errorf("after the return: %v %v", products, prices)
	}
}

// touched names streams that a command of another stream changes. It changes nothing itself.
func touched(list, sku string) []eventstore.Command {
	return []eventstore.Command{stock.Vanish{SKU: sku, Version: -1}, price.Vanish{List: list, SKU: sku, Version: -1}}
}

func hidesWithProduct(t *testing.T, s Subject) {
	s.run(t, describe("A", 1), setPrice("retail", "A", "2.55", "GBP", 1), stock.Report{SKU: "A", OnHand: 5, SourceVersion: 1, At: at})
	s.run(t, append(touched("retail", "A"), product.Report{SKU: "A", SourceVersion: 2, At: at, Removed: true})...)
	s.run(t, append(touched("retail", "A"), setPrice("retail", "A", "2.65", "GBP", 2))...)
	if levels, prices := s.stock(t, "A"), s.prices(t, "retail", "A"); len(levels)+len(prices) != 0 {
		t.Errorf("after the product went: %v %v", levels, prices)
	}
	s.run(t, append([]eventstore.Command{describe("A", 3)}, touched("retail", "A")...)...)
	if levels, prices := s.stock(t, "A"), s.prices(t, "retail", "A"); levels["A"].Net != 5 || prices["A"].Price.Minor != 265 {
		t.Errorf("after it came back: %v %v", levels, prices)
	}
}

func readsDoubts(t *testing.T, s Subject) {
	since := at.Add(time.Minute)
	s.run(t, setPrice("retail", "A", "2.55", "GBP", 1), stock.Report{SKU: "A", OnHand: 5, SourceVersion: 1, At: at})
	s.run(t, stock.Doubt{SKU: "A", SourceVersion: 2, Code: "RECORD_INVALID", At: since}, price.Doubt{List: "retail", SKU: "A", SourceVersion: 2, Code: "PRICE_INVALID", At: since})
	level, amount := s.stock(t, "A")["A"], s.prices(t, "retail", "A")["A"]
	if level.Net != 5 || !level.DoubtedAt.Equal(since) || !level.ChangedAt.Equal(at) || amount.Price.Minor != 255 || !amount.DoubtedAt.Equal(since) {
		t.Errorf("doubted: %+v %+v", level, amount)
	}
	s.run(t, setPrice("retail", "A", "2.65", "GBP", 3), stock.Report{SKU: "A", OnHand: 6, SourceVersion: 3, At: since})
	level, amount = s.stock(t, "A")["A"], s.prices(t, "retail", "A")["A"]
	if level.Net != 6 || !level.DoubtedAt.IsZero() || amount.Price.Minor != 265 || !amount.DoubtedAt.IsZero() {
		t.Errorf("put right: %+v %+v", level, amount)
	}
}

// watermarkWait bounds how long a reader may go by a watermark that it keeps itself.
const watermarkWait = 10 * time.Second

func readsWatermarks(t *testing.T, s Subject) {
	expect := func(feed string, want time.Time) {
		t.Helper()
		var found time.Time
		arrived := redistest.Eventually(watermarkWait, func() bool {
			var err error
			if found, err = s.Reader.Watermark(t.Context(), feed); err != nil {
				t.Fatal(err)
			}
			return found.Equal(want)
		})
		if !arrived {
			t.Errorf("the watermark of %s is %s, want %s", feed, found, want)
		}
	}
	expect(source.WMSStock, time.Time{}) // before the first sync
	s.run(t, source.Advance{Feed: source.WMSStock, Cursor: "1"})
	expect(source.WMSStock, time.Time{}) // before the first complete one
	s.run(t, source.Advance{Feed: source.WMSStock, SyncedAt: at, Cursor: "2"})
	expect(source.WMSStock, at)
	expect(source.ERPPrices, time.Time{})
	s.run(t, source.Advance{Feed: source.WMSStock, SyncedAt: at.Add(time.Minute), Cursor: "3"})
	expect(source.WMSStock, at.Add(time.Minute))
}

func readsMany(t *testing.T, s Subject) {
	const many = 300
	var commands []eventstore.Command
	var skus []string
	for i := range many {
		sku := "S" + strings.Repeat("x", i%50) + string(rune('0'+i/50))
		skus = append(skus, sku, "not-"+sku)
		commands = append(commands, stock.Report{SKU: sku, OnHand: int64(i), SourceVersion: 1, At: at})
	}
	s.run(t, commands...)
	found := s.stock(t, skus...)
	if len(found) != many {
		t.Errorf("%d found, want %d", len(found), many)
	}
	for i := range many {
		if view := found[skus[2*i]]; view.Net != int64(i) {
			t.Fatalf("%s has %d, want %d", skus[2*i], view.Net, i)
		}
	}
}

func keepsApart(t *testing.T, s Subject) {
	alike := []string{"a", "A", "{a}", "{", "}", "{}", "a b", "a|b", "a:b", "a/b", "%61", "ä", "stock:a", "1:stock:a", "*", "a\\"}
	var commands []eventstore.Command
	for i, sku := range alike {
		commands = append(commands, stock.Report{SKU: sku, OnHand: int64(i), SourceVersion: 1, At: at})
	}
	s.run(t, commands...)
	for i, sku := range alike {
		if found := s.stock(t, sku); len(found) != 1 || found[sku].Net != int64(i) {
			t.Errorf("%q: %v, want %d", sku, found, i)
		}
	}
	s.run(t, setPrice("x", "y|z", "1.00", "GBP", 1))
	if found := s.prices(t, "x", "y|z", "z"); len(found) != 1 || found["y|z"].Price.Minor != 100 {
		t.Errorf("a SKU with a bar: %v", found)
	}
}
