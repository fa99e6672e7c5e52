package retail_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"andes/test/lab/money"
	"andes/test/lab/retail"
)

// realDir is where the real set may lie: LAB_DATA_DIR, or beside the repository.
func realDir() string {
	if dir := os.Getenv("LAB_DATA_DIR"); dir != "" {
		return dir
	}
	return filepath.Join("..", "..", "..", "..", "shared", "data", "online_retail")
}

// loaded is a set with all its orders, read once for all tests.
type loaded struct {
	set    *retail.Set
	orders []retail.Order
}

var load = sync.OnceValues(func() (map[string]loaded, error) {
	generated, err := retail.Generate(retail.GeneratorConfig{Seed: 1})
	if err != nil {
		return nil, err
	}
	sets := map[string]*retail.Set{"generated": generated}
	switch set, err := retail.Open(realDir()); {
	case err == nil:
		sets["real"] = set
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	all := map[string]loaded{}
	for name, set := range sets {
		orders, err := set.All()
		if err != nil {
			return nil, err
		}
		all[name] = loaded{set, orders}
	}
	return all, nil
})

// sets are the real one, if it is there, and a generated one.
func sets(t *testing.T) map[string]loaded {
	t.Helper()
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := all["real"]; ok {
		t.Logf("real set found in %s", realDir())
	} else {
		t.Logf("no real set in %s: the generated one only", realDir())
	}
	return all
}

func each(t *testing.T, test func(t *testing.T, set *retail.Set, orders []retail.Order)) {
	for name, l := range sets(t) {
		t.Run(name, func(t *testing.T) { test(t, l.set, l.orders) })
	}
}

func between(t *testing.T, what string, got, low, high float64) {
	t.Helper()
	if got < low || got > high {
		t.Errorf("%s: %v is outside %v..%v", what, got, low, high)
	}
}

func TestLinesPerOrderKeepTheirShape(t *testing.T) {
	each(t, func(t *testing.T, _ *retail.Set, orders []retail.Order) {
		var counts []int
		for _, o := range orders {
			if o.Kind == retail.Sale {
				counts = append(counts, len(o.Lines))
			}
		}
		slices.Sort(counts)
		at := func(q float64) float64 { return float64(counts[int(q*float64(len(counts)))]) }
		between(t, "median", at(0.5), 13, 16)
		between(t, "p95", at(0.95), 72, 86)
		between(t, "p99", at(0.99), 190, 250)
		between(t, "max", at(0.99999), 1114, 1115)
	})
}

func TestOnePercentOfTheSKUsHoldAboutAFifthOfTheUnits(t *testing.T) {
	each(t, func(t *testing.T, set *retail.Set, orders []retail.Order) {
		units := map[string]int64{}
		var total int64
		for _, o := range orders {
			for _, line := range o.Lines {
				// The two giant orders are an oddity, not the shape.
				if o.Kind == retail.Sale && line.Quantity < 10_000 {
					units[line.SKU] += line.Quantity
					total += line.Quantity
				}
			}
		}
		var sold []int64
		for _, n := range units {
			sold = append(sold, n)
		}
		slices.Sort(sold)
		var top int64
		for _, n := range sold[len(sold)-len(set.Products)/100:] {
			top += n
		}
		between(t, "share of the top 1%", float64(top)/float64(total), 0.15, 0.20)
		between(t, "SKUs", float64(len(set.Products)), 3_900, 4_200)
	})
}

func TestTheBusiestMinuteHasSixOrdersOrMore(t *testing.T) {
	each(t, func(t *testing.T, _ *retail.Set, orders []retail.Order) {
		perMinute := map[time.Time]int{}
		busiest := 0
		for _, o := range orders {
			if o.Kind == retail.Sale {
				perMinute[o.FirstAt]++
				busiest = max(busiest, perMinute[o.FirstAt])
			}
		}
		between(t, "orders in the busiest minute", float64(busiest), 6, 12)
	})
}

// oddities found in a set, by name.
func oddities(set *retail.Set, orders []retail.Order) map[string]int {
	found := map[string]int{}
	note := func(name string, is bool) {
		if is {
			found[name]++
		}
	}
	known := map[string]bool{}
	for _, p := range set.Products {
		known[p.SKU] = true
		note("case twin", p.CaseTwin != "" && strings.EqualFold(p.CaseTwin, p.SKU) && p.CaseTwin != p.SKU)
		note("SKU with a blank", strings.Contains(p.SKU, " "))
		note("description with outer blanks", strings.TrimSpace(p.Description) != p.Description)
		note("description with quotes", strings.Contains(p.Description, `"`))
		note("description with a pound sign", strings.Contains(p.Description, "£"))
		note("description with a comma", strings.Contains(p.Description, ","))
		note("description missing", p.Description == "")
		note("price missing", p.PriceMode == "")
		note("not merchandise", !p.Merchandise)
	}
	minutes := map[time.Time]int{}
	sameSKU := map[string]int{}
	for i, o := range orders {
		minutes[o.FirstAt]++
		note("tie", minutes[o.FirstAt] > 1)
		note("customer missing", o.CustomerID == "")
		note("two timestamps", o.LastAt.After(o.FirstAt))
		note(string(o.Kind), true)
		prices, seen := map[string]string{}, map[retail.Line]bool{}
		for _, line := range o.Lines {
			note("line of an unknown SKU", !known[line.SKU])
			price, repeated := prices[line.SKU]
			note("SKU repeated in an order", repeated)
			note("two prices in an order", repeated && price != line.UnitPrice)
			note("exact duplicate row", seen[line])
			prices[line.SKU], seen[line] = line.UnitPrice, true
			amount, err := money.Parse(line.UnitPrice)
			note("unreadable price", err != nil)
			note("zero price", amount == 0)
			note("negative price", amount < 0)
			note("three decimals", money.Decimals(line.UnitPrice) == 3)
			note("negative quantity", line.Quantity < 0)
			if o.Kind == retail.Sale && len(o.Lines) == 1 {
				sameSKU[o.FirstAt.String()+line.SKU]++
				note("five orders for one SKU in a minute", sameSKU[o.FirstAt.String()+line.SKU] == 5)
			}
			if o.Kind == retail.Sale && line.Quantity > 50_000 {
				note("giant cancelled within 20 minutes", cancelledSoon(o, line, orders[i:]))
			}
		}
	}
	return found
}

func cancelledSoon(o retail.Order, line retail.Line, later []retail.Order) bool {
	return slices.ContainsFunc(later, func(c retail.Order) bool {
		return c.Kind == retail.Cancellation && c.FirstAt.Sub(o.FirstAt) <= 20*time.Minute &&
			slices.ContainsFunc(c.Lines, func(l retail.Line) bool { return l.SKU == line.SKU && l.Quantity == -line.Quantity })
	})
}

func TestEveryOddityOfTheSourceIsThere(t *testing.T) {
	each(t, func(t *testing.T, set *retail.Set, orders []retail.Order) {
		found := oddities(set, orders)
		for _, name := range []string{
			"case twin", "SKU with a blank", "description with outer blanks", "description with quotes",
			"description with a pound sign", "description with a comma", "description missing", "price missing",
			"not merchandise", "tie", "customer missing", "two timestamps", "SKU repeated in an order",
			"two prices in an order", "exact duplicate row", "zero price", "negative price", "three decimals",
			"negative quantity", "giant cancelled within 20 minutes",
			"sale", "cancellation", "stock_adjustment_in", "stock_adjustment_out", "free_of_charge", "bad_debt",
		} {
			if found[name] == 0 {
				t.Errorf("no %s", name)
			}
		}
		if n := found["unreadable price"] + found["line of an unknown SKU"]; n != 0 {
			t.Errorf("%d lines that make no sense", n)
		}
		t.Logf("%s: %v", set.Source, found)
	})
}

func TestTheSameSeedGeneratesTheSameSet(t *testing.T) {
	generate := func(seed uint64) []retail.Order {
		set, err := retail.Generate(retail.GeneratorConfig{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		orders, err := set.Orders(retail.DefaultDay, 1)
		if err != nil {
			t.Fatal(err)
		}
		return orders
	}
	same := func(a, b []retail.Order) bool {
		return slices.EqualFunc(a, b, func(x, y retail.Order) bool {
			return x.InvoiceNo == y.InvoiceNo && slices.Equal(x.Lines, y.Lines)
		})
	}
	if a, b, c := generate(3), generate(3), generate(4); !same(a, b) || same(a, c) {
		t.Fatal("the seed does not decide")
	}
}

func TestABadGeneratorConfigReportsEveryFault(t *testing.T) {
	_, err := retail.Generate(retail.GeneratorConfig{SKUs: 3, Days: 1000, FirstDay: "yesterday"})
	for _, name := range []string{"SKUs", "Days", "yesterday"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v does not name %s", err, name)
		}
	}
}

func TestFindGeneratesOnlyWhenTheSetIsAbsent(t *testing.T) {
	set, err := retail.Find(filepath.Join(t.TempDir(), "nothing"), 5)
	if err != nil || set.Source != "generated with seed 5" {
		t.Fatalf("absent: %v %v", set, err)
	}
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "products.csv"), []byte("a,b\n1,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if set, err := retail.Find(broken, 5); err == nil {
		t.Fatalf("a broken set became %s", set.Source)
	}
}
