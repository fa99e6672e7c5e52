package retail

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// GeneratorConfig of a set of the same shape as the real one.
type GeneratorConfig struct {
	Seed        uint64
	SKUs        int    // default 4,000
	FirstDay    string // default 2011-12-01
	Days        int    // default 9
	SalesPerDay int    // default 127
}

// Bounds of the generator; below the lower ones its shape cannot be kept.
const (
	minSKUs, maxSKUs   = 1_500, 50_000
	minSales, maxSales = 20, 5_000
	minDays, maxDaysG  = 2, 60
)

func (c GeneratorConfig) withDefaults() GeneratorConfig {
	c.SKUs = cmp.Or(c.SKUs, 4_000)
	c.FirstDay = cmp.Or(c.FirstDay, "2011-12-01")
	c.Days = cmp.Or(c.Days, 9)
	c.SalesPerDay = cmp.Or(c.SalesPerDay, 127)
	return c
}

func (c GeneratorConfig) validate() error {
	var faults []error
	if c.SKUs < minSKUs || c.SKUs > maxSKUs {
		faults = append(faults, fmt.Errorf("SKUs: %d is outside %d..%d", c.SKUs, minSKUs, maxSKUs))
	}
	if c.SalesPerDay < minSales || c.SalesPerDay > maxSales {
		faults = append(faults, fmt.Errorf("SalesPerDay: %d is outside %d..%d", c.SalesPerDay, minSales, maxSales))
	}
	if c.Days < minDays || c.Days > maxDaysG {
		faults = append(faults, fmt.Errorf("Days: %d is outside %d..%d", c.Days, minDays, maxDaysG))
	}
	return errors.Join(faults...)
}

// Shape of the real set, which the generator keeps.
const (
	topShare        = 0.18 // of the units, held by 1% of the SKUs
	largestOrder    = 1_114
	burst           = 6 // orders in the busiest minute
	openMinute      = 8 * 60
	openMinutes     = 10 * 60
	withoutCustomer = 0.12 // of the orders
	cancelledShare  = 0.12 // cancellations per sale
	customers       = 4_300
)

// lineQuantiles are (standard normal z, lines) of the real orders; between
// them the logarithm is linear.
var lineQuantiles = []struct{ z, lines float64 }{
	{-1.645, 1}, {0, 15}, {1.645, 79}, {2.326, 220}, {4, 1_000},
}

type generator struct {
	cfg     GeneratorConfig
	rnd     *rand.Rand
	first   time.Time
	things  []thing // sellable merchandise, the best sellers first
	weights []float64
	number  int // of the next invoice
	orders  []Order
}

// thing is a product with what the generator sells it for.
type thing struct {
	Product
	price string
}

// Generate makes a set; the same configuration makes the same set.
func Generate(cfg GeneratorConfig) (*Set, error) {
	cfg = cfg.withDefaults()
	first, errDay := time.Parse(DayLayout, cfg.FirstDay)
	if err := errors.Join(cfg.validate(), errDay); err != nil {
		return nil, fmt.Errorf("generate data set: %w", err)
	}
	g := &generator{cfg: cfg, rnd: rand.New(rand.NewPCG(cfg.Seed, 0x72657461696c)), first: first, number: 536_365}
	g.makeThings()
	g.makeSales()
	g.levelTopSellers()
	g.addOddities()
	g.addCancellations()
	g.addAdjustments()
	slices.SortStableFunc(g.orders, func(a, b Order) int { return a.FirstAt.Compare(b.FirstAt) })
	return g.finish(), nil
}

func (g *generator) finish() *Set {
	s := &Set{Source: fmt.Sprintf("generated with seed %d", g.cfg.Seed), lines: memoryLines{g.orders}}
	for i := range g.orders {
		g.orders[i].LineCount = len(g.orders[i].Lines)
		header := g.orders[i]
		header.Lines = nil
		s.headers = append(s.headers, header)
	}
	s.Products = g.products()
	return s
}

// makeSales spreads the line counts over the orders by strata, so that the
// quantiles are met at any number of orders.
func (g *generator) makeSales() {
	total := g.cfg.Days * g.cfg.SalesPerDay
	counts := make([]int, total)
	for i := range counts {
		counts[i] = linesAt((float64(i) + 0.5) / float64(total))
	}
	counts[total-1] = largestOrder
	g.rnd.Shuffle(total, func(i, j int) { counts[i], counts[j] = counts[j], counts[i] })
	for i, n := range counts {
		day := i / g.cfg.SalesPerDay
		minute := openMinute + g.rnd.IntN(openMinutes)
		if inDay := i % g.cfg.SalesPerDay; inDay < burst {
			minute = openMinute + 60 + day // one burst a day
		}
		g.orders = append(g.orders, g.sale(g.at(day, minute), n))
	}
}

func (g *generator) at(day, minute int) time.Time {
	return g.first.AddDate(0, 0, day).Add(time.Duration(minute) * time.Minute)
}

// linesAt is the quantile function of the lines per order.
func linesAt(p float64) int {
	z := math.Sqrt2 * math.Erfinv(2*p-1)
	q := lineQuantiles
	i := 1
	for i < len(q)-1 && z > q[i].z {
		i++
	}
	share := (z - q[i-1].z) / (q[i].z - q[i-1].z)
	log := math.Log(q[i-1].lines) + share*(math.Log(q[i].lines)-math.Log(q[i-1].lines))
	return min(max(int(math.Round(math.Exp(log))), 1), largestOrder-1)
}

func (g *generator) nextInvoice(prefix string) string {
	g.number++
	return fmt.Sprintf("%s%d", prefix, g.number)
}

func (g *generator) sale(at time.Time, lines int) Order {
	o := Order{InvoiceNo: g.nextInvoice(""), Kind: Sale, FirstAt: at, LastAt: at, Country: g.country()}
	if g.rnd.Float64() >= withoutCustomer {
		o.CustomerID = fmt.Sprint(12_346 + g.rnd.IntN(customers))
	}
	if g.rnd.Float64() < 0.002 { // a till that crossed a minute
		o.LastAt = at.Add(time.Minute)
	}
	taken := map[int]bool{}
	for len(o.Lines) < lines {
		i := g.pick(taken)
		taken[i] = true
		o.Lines = append(o.Lines, Line{SKU: g.things[i].SKU, Quantity: g.quantity(), UnitPrice: g.things[i].price})
	}
	return o
}

func (g *generator) country() string {
	if g.rnd.Float64() < 0.91 {
		return "United Kingdom"
	}
	return []string{"Germany", "France", "EIRE", "Netherlands", "Spain"}[g.rnd.IntN(5)]
}

// pick draws a thing by weight that the order has not got; when luck fails,
// the next free one in rank.
func (g *generator) pick(taken map[int]bool) int {
	const tries = 20
	i := 0
	for range tries {
		i, _ = slices.BinarySearch(g.weights, g.rnd.Float64()*g.weights[len(g.weights)-1])
		if i = min(i, len(g.things)-1); !taken[i] {
			return i
		}
	}
	for taken[i] {
		i = (i + 1) % len(g.things)
	}
	return i
}

func (g *generator) quantity() int64 {
	usual := []int64{1, 1, 1, 2, 2, 2, 3, 4, 6, 6, 8, 10, 12, 12, 24, 48}
	return usual[g.rnd.IntN(len(usual))]
}

// levelTopSellers scales the units of the best sellers to their share.
func (g *generator) levelTopSellers() {
	top := map[string]bool{}
	for _, t := range g.things[:g.cfg.SKUs/100] {
		top[t.SKU] = true
	}
	var ofTop, ofRest int64
	for _, o := range g.orders {
		for _, line := range o.Lines {
			if top[line.SKU] {
				ofTop += line.Quantity
			} else {
				ofRest += line.Quantity
			}
		}
	}
	factor := topShare / (1 - topShare) * float64(ofRest) / float64(ofTop)
	for _, o := range g.orders {
		for i, line := range o.Lines {
			if top[line.SKU] {
				o.Lines[i].Quantity = max(1, int64(math.Round(float64(line.Quantity)*factor)))
			}
		}
	}
}
