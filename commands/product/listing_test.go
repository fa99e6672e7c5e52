package product_test

import (
	"testing"
	"time"

	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/test/memtest"
)

// shown tells of a SKU what is shown of its product, its stock and its prices on two lists.
func shown(t *testing.T, s *memtest.Store) [4]bool {
	t.Helper()
	described, version := memtest.State(t, s, product.Aggregate, "A")
	level, _ := memtest.State(t, s, stock.Aggregate, "A")
	retail, _ := memtest.State(t, s, price.Aggregate, "retail|A")
	trade, _ := memtest.State(t, s, price.Aggregate, "trade|A")
	return [4]bool{version > 0 && !described.Removed, level.SourceVersion > 0 && !level.Delisted, retail.Shown(), trade.Shown()}
}

func TestAProductTakesItsStockAndPricesWithItAndBringsThemBack(t *testing.T) {
	all, none := [4]bool{true, true, true, true}, [4]bool{}
	set := func(list string, version int64) price.Report {
		return price.Report{List: list, SKU: "A", Amount: "2.55", Currency: "GBP", SourceVersion: version, At: memtest.Start}
	}
	level := func(onHand, version int64) stock.Report {
		return stock.Report{SKU: "A", OnHand: onHand, SourceVersion: version, At: memtest.Start}
	}
	described := func(version int64) product.Report {
		return product.Report{SKU: "A", Name: "A", SourceVersion: version, At: memtest.Start}
	}
	removed := func(version int64) product.Report {
		return product.Report{SKU: "A", Removed: true, SourceVersion: version, At: memtest.Start.Add(time.Hour)}
	}
	s := memtest.Open(t)
	s.Now = memtest.Start.Add(time.Hour)
	want := func(what string, want [4]bool) {
		t.Helper()
		if got := shown(t, s); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	s.Do(t, described(1))
	s.Do(t, level(5, 1))
	s.Do(t, set("retail", 1))
	s.Do(t, set("trade", 1))
	want("sold", all)
	s.Do(t, removed(2))
	want("removed", none)
	if was, _ := memtest.State(t, s, price.Aggregate, "trade|A"); !was.ChangedAt.Equal(memtest.Start) {
		t.Errorf("the price is of %s, though nobody said anything of it", was.ChangedAt)
	}
	s.Do(t, level(7, 2))
	s.Do(t, set("retail", 2))
	want("a level and a price that come later", none)
	s.Do(t, described(3))
	want("sold again", all)
	s.Do(t, product.Vanish{SKU: "A", Version: 3, At: memtest.Start})
	want("not listed any more", none)
	again := described(3)
	s.Do(t, again)
	want("read again by a late answer", none)
	again.Compared = memtest.Start
	s.Do(t, again)
	want("listed again, without a new version", all)
	s.CheckFolds(t)
}

func TestAPriceThatComesAfterItsProductWentIsNotShown(t *testing.T) {
	s := memtest.Open(t)
	s.Do(t, product.Report{SKU: "A", Removed: true, SourceVersion: 2, At: memtest.Start})
	s.Do(t, stock.Report{SKU: "A", OnHand: 5, SourceVersion: 1, At: memtest.Start})
	s.Do(t, price.Report{List: "retail", SKU: "A", Amount: "2.55", Currency: "GBP", SourceVersion: 1, At: memtest.Start})
	if got := shown(t, s); got != ([4]bool{}) {
		t.Errorf("shown: %v", got)
	}
	s.Do(t, product.Report{SKU: "A", Name: "A", SourceVersion: 3, At: memtest.Start})
	if got := shown(t, s); got != ([4]bool{true, true, true, false}) {
		t.Errorf("shown when it is sold: %v", got)
	}
}

// A comparison reads what is there now, so it may say another thing at the same version; what changed since
// the SKU was missed stays.
func TestAComparisonMendsWhatNoVersionTells(t *testing.T) {
	s := memtest.Open(t)
	s.Do(t, product.Report{SKU: "A", Name: "one", SourceVersion: 4, At: memtest.Start})
	for _, c := range []struct {
		report product.Report
		want   string
	}{
		{product.Report{Name: "two", SourceVersion: 4}, "one"},
		{product.Report{Name: "three", SourceVersion: 3, Compared: memtest.Start}, "one"},
		{product.Report{Name: "four", SourceVersion: 4, Compared: memtest.Start}, "four"},
		{product.Report{Name: "four", SourceVersion: 4, Compared: memtest.Start}, "four"},
		{product.Report{Name: "five", SourceVersion: 5}, "five"},
	} {
		c.report.SKU, c.report.At = "A", memtest.Start
		s.Do(t, c.report)
		if got, _ := memtest.State(t, s, product.Aggregate, "A"); got.Name != c.want {
			t.Errorf("after %+v: %q, want %q", c.report, got.Name, c.want)
		}
	}
	s.Do(t, product.Vanish{SKU: "A", Version: 4, At: memtest.Start})
	s.Do(t, product.Vanish{SKU: "B", Version: 0, At: memtest.Start})
	if got, _ := memtest.State(t, s, product.Aggregate, "A"); got.Removed {
		t.Error("it was taken for gone although it changed since it was missed")
	}
	if n := len(s.Events(t, product.Aggregate.Stream("A"))); n != 3 {
		t.Errorf("%d events", n)
	}
	s.Do(t, product.Vanish{SKU: "A", Version: 5, At: memtest.Start})
	s.Do(t, product.Report{SKU: "A", Name: "back", SourceVersion: 1, At: memtest.Start, Compared: memtest.Start}) // it counts from one again
	s.Do(t, product.Report{SKU: "A", Name: "and on", SourceVersion: 2, At: memtest.Start})
	if got, _ := memtest.State(t, s, product.Aggregate, "A"); got.Removed || got.Name != "and on" {
		t.Errorf("it came back as %+v", got)
	}
}
