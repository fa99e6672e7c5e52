package retail_test

import (
	"strings"
	"testing"

	"andes/test/lab/retail"
)

func derive(t *testing.T, test func(t *testing.T, set *retail.Set, c retail.Catalogue)) {
	each(t, func(t *testing.T, set *retail.Set, _ []retail.Order) {
		c, err := set.Derive(retail.CatalogueConfig{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		test(t, set, c)
	})
}

func TestSKUsAreUniqueAndWithoutOuterBlanks(t *testing.T) {
	derive(t, func(t *testing.T, _ *retail.Set, c retail.Catalogue) {
		seen := map[string]bool{}
		for _, p := range c.Products {
			if seen[p.SKU] || p.SKU == "" || strings.TrimSpace(p.SKU) != p.SKU || strings.TrimSpace(p.Name) != p.Name {
				t.Errorf("product %+v", p)
			}
			seen[p.SKU] = true
		}
		if seen["M"] || !seen["POST"] || !seen["BANK CHARGES"] {
			t.Error("manual entries are not sold, postage is")
		}
	})
}

func TestNearlyAllPricesAreSellableAndSomeAreOdd(t *testing.T) {
	derive(t, func(t *testing.T, _ *retail.Set, c retail.Catalogue) {
		valid, odd := 0, map[string]int{}
		for _, p := range c.Prices {
			switch {
			case p.Valid():
				valid++
			case strings.HasPrefix(p.Amount, "-"):
				odd["negative"]++
			case strings.Trim(p.Amount, "0.") == "":
				odd["zero"]++
			default:
				odd["three decimals"]++
			}
		}
		if valid*100 < len(c.Prices)*90 || odd["negative"] == 0 || odd["zero"] == 0 || odd["three decimals"] == 0 {
			t.Errorf("%d of %d valid, odd ones %v", valid, len(c.Prices), odd)
		}
	})
}

// An order is all or nothing: one line without stock refuses it, and it then
// takes nothing from the others.
func TestNearlyAllOrdersOfTheDayCanBeMetAndSomeCannot(t *testing.T) {
	derive(t, func(t *testing.T, set *retail.Set, c retail.Catalogue) {
		orders, err := set.Orders(retail.DefaultDay, 1)
		if err != nil {
			t.Fatal(err)
		}
		left := map[string]int64{}
		for _, level := range c.Stock {
			left[level.SKU] = level.OnHand
			if level.OnHand < 0 {
				t.Errorf("level %+v", level)
			}
		}
		met, unknown, short := 0, 0, 0
		for _, o := range orders {
			if o.Kind != retail.Sale {
				continue
			}
			switch outcome := take(left, o); outcome {
			case "met":
				met++
			case "unknown":
				unknown++
			default:
				short++
			}
		}
		if met*100 < (met+unknown+short)*82 || unknown == 0 || short == 0 {
			t.Errorf("%d orders met, %d with an unknown SKU, %d short", met, unknown, short)
		}
		t.Logf("%s: %d orders met, %d with an unknown SKU, %d short; %d SKUs short", set.Source, met, unknown, short, len(c.Short))
	})
}

func take(left map[string]int64, o retail.Order) string {
	need := map[string]int64{}
	for _, line := range o.Lines {
		if _, known := left[line.SKU]; !known {
			return "unknown"
		}
		need[line.SKU] += line.Quantity
	}
	for sku, n := range need {
		if left[sku] < n {
			return "short"
		}
	}
	for sku, n := range need {
		left[sku] -= n
	}
	return "met"
}

func TestSegmentsFollowTheUnitsSold(t *testing.T) {
	derive(t, func(t *testing.T, _ *retail.Set, c retail.Catalogue) {
		count := map[string]int{}
		for _, p := range c.Products {
			count[p.Segment]++
		}
		n := len(c.Products)
		if count[retail.SegmentTop] > n/90 || count[retail.SegmentTop] < n/120 || count[retail.SegmentService] == 0 ||
			count[retail.SegmentCore] > n/4 || count[retail.SegmentTail] < n/2 {
			t.Errorf("segments %v", count)
		}
	})
}

func TestAnUnknownDayOrTooManyAreRefused(t *testing.T) {
	each(t, func(t *testing.T, set *retail.Set, _ []retail.Order) {
		if _, err := set.Orders("5 December", 1); err == nil {
			t.Error("accepted a day that is none")
		}
		if _, err := set.Orders(retail.DefaultDay, 100_000); err == nil {
			t.Error("accepted too many days")
		}
	})
}
