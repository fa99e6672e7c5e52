package retail

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"andes/test/lab/money"
)

// Catalogue is what the legacy systems hold at the start of a day.
type Catalogue struct {
	Products []CatalogueProduct
	Prices   []CataloguePrice
	Stock    []StockLevel
	Short    []string // SKUs whose stock is less than the days' demand, sorted
}

// CatalogueProduct is an ERP article.
type CatalogueProduct struct {
	SKU, Name, Segment string
	Attributes         map[string]string
}

// CataloguePrice is an ERP price. Some are zero, negative or too precise, as
// in the source; whoever reads the ERP has to refuse those.
type CataloguePrice struct{ PriceList, SKU, Amount, Currency string }

// Valid tells whether a price can be sold at: positive, at most 2 decimals.
func (p CataloguePrice) Valid() bool {
	amount, err := money.Parse(p.Amount)
	return err == nil && amount > 0 && money.Decimals(p.Amount) <= 2
}

// StockLevel is a WMS level.
type StockLevel struct {
	SKU    string
	OnHand int64
}

// CatalogueConfig says for which days to stock up.
type CatalogueConfig struct {
	Day       string // default DefaultDay
	Days      int    // default 1
	PriceList string // default "retail"
	Seed      uint64
}

// The price list and currency of the set.
const (
	DefaultPriceList = "retail"
	Currency         = "GBP"
)

// Segments of the derived products.
const (
	SegmentTop     = "top"     // the 1% of the SKUs that sell most units
	SegmentCore    = "core"    // the next 19%
	SegmentTail    = "tail"    // the rest of the merchandise
	SegmentService = "service" // postage, vouchers, fees
)

const (
	shortShare     = 0.01 // of the SKUs in demand: not enough for the day
	shortPart      = 5    // of their demand, a fifth is missing
	minSurplus     = 10   // units above the demand, so that a safety buffer leaves it whole
	maxIdleLevel   = 500  // stock of a SKU without demand is 0..maxIdleLevel
	serviceOnHand  = 1_000_000
	topPercent     = 1
	corePercent    = 20
	zeroPrice      = "0.0" // how the source writes it
	badDebtSKU     = "B"
	badDebtPrice   = "-11062.06" // the source's only negative price
	attributeLimit = 4
)

// bookkeeping are codes that name an entry of the books, not a thing sold:
// manual corrections, discounts, samples, fees, commissions. They are not in
// the catalogue, and an order with one of them is an order of an unknown SKU.
var bookkeeping = map[string]bool{
	"M": true, "m": true, "D": true, "S": true, "AMAZONFEE": true, "CRUK": true, badDebtSKU: true,
}

// Derive makes the catalogue for the days chosen.
func (s *Set) Derive(cfg CatalogueConfig) (Catalogue, error) {
	cfg.Day = cmp.Or(cfg.Day, DefaultDay)
	cfg.Days = cmp.Or(cfg.Days, 1)
	cfg.PriceList = cmp.Or(cfg.PriceList, DefaultPriceList)
	orders, err := s.Orders(cfg.Day, cfg.Days)
	if err != nil {
		return Catalogue{}, fmt.Errorf("derive catalogue: %w", err)
	}
	demand, dayPrice := demandOf(orders), frequentPrices(orders)
	segments := s.segments()
	var c Catalogue
	seen := map[string]bool{}
	for _, p := range s.Products {
		sku := strings.TrimSpace(p.SKU)
		if bookkeeping[sku] || seen[sku] {
			continue
		}
		seen[sku] = true
		c.Products = append(c.Products, CatalogueProduct{
			SKU: sku, Name: strings.TrimSpace(p.Description), Segment: segments[p.SKU], Attributes: attributes(p),
		})
		amount := cmp.Or(dayPrice[p.SKU], p.PriceMode, p.PriceLast, zeroPrice)
		c.Prices = append(c.Prices, CataloguePrice{cfg.PriceList, sku, amount, Currency})
	}
	// A price of something that is no product, and a negative one: both are in the source.
	c.Prices = append(c.Prices, CataloguePrice{cfg.PriceList, badDebtSKU, badDebtPrice, Currency})
	c.stockUp(demand, cfg.Seed)
	return c, nil
}

// demandOf counts the units that the sales ask for.
func demandOf(orders []Order) map[string]int64 {
	demand := map[string]int64{}
	for _, o := range orders {
		if o.Kind != Sale {
			continue
		}
		for _, line := range o.Lines {
			demand[strings.TrimSpace(line.SKU)] += max(line.Quantity, 0)
		}
	}
	return demand
}

// frequentPrices is each SKU's most frequent sellable price; of equally
// frequent ones the lower.
func frequentPrices(orders []Order) map[string]string {
	counts := map[string]map[string]int{}
	for _, o := range orders {
		if o.Kind != Sale {
			continue
		}
		for _, line := range o.Lines {
			if !(CataloguePrice{Amount: line.UnitPrice}).Valid() {
				continue
			}
			if counts[line.SKU] == nil {
				counts[line.SKU] = map[string]int{}
			}
			counts[line.SKU][line.UnitPrice]++
		}
	}
	modes := map[string]string{}
	for sku, prices := range counts {
		best := ""
		for price, n := range prices {
			if best == "" || n > prices[best] || (n == prices[best] && lower(price, best)) {
				best = price
			}
		}
		modes[sku] = best
	}
	return modes
}

func lower(a, b string) bool {
	x, errX := money.Parse(a)
	y, errY := money.Parse(b)
	return errX == nil && errY == nil && x < y
}

func (s *Set) segments() map[string]string {
	ranked := slices.Clone(s.Products)
	slices.SortStableFunc(ranked, func(a, b Product) int { return cmp.Compare(b.UnitsSold, a.UnitsSold) })
	segments := map[string]string{}
	for i, p := range ranked {
		switch percent := i * 100 / len(ranked); {
		case !p.Merchandise:
			segments[p.SKU] = SegmentService
		case percent < topPercent:
			segments[p.SKU] = SegmentTop
		case percent < corePercent:
			segments[p.SKU] = SegmentCore
		default:
			segments[p.SKU] = SegmentTail
		}
	}
	return segments
}

func attributes(p Product) map[string]string {
	a := make(map[string]string, attributeLimit)
	a["firstSold"] = p.FirstAt.Format(DayLayout)
	a["lastSold"] = p.LastAt.Format(DayLayout)
	a["descriptionVariants"] = strconv.Itoa(p.Variants)
	if p.CaseTwin != "" {
		a["caseTwin"] = p.CaseTwin
	}
	return a
}

// stockUp gives each SKU in demand a little more than it needs, but too few
// of some; the others get a seeded level.
func (c *Catalogue) stockUp(demand map[string]int64, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0x73746f636b))
	for _, p := range c.Products {
		need := demand[p.SKU]
		level := StockLevel{SKU: p.SKU, OnHand: need + max(minSurplus, need/10)}
		switch {
		case p.Segment == SegmentService:
			level.OnHand = serviceOnHand
		case need == 0:
			level.OnHand = rnd.Int64N(maxIdleLevel + 1)
		case rnd.Float64() < shortShare:
			level.OnHand = need - max(1, need/shortPart)
			c.Short = append(c.Short, p.SKU)
		}
		c.Stock = append(c.Stock, level)
	}
	slices.Sort(c.Short)
}
