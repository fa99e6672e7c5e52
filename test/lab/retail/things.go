package retail

import (
	"fmt"
	"math"
	"strings"
)

var (
	adjectives = []string{"RED", "WHITE", "VINTAGE", "RETRO", "PINK", "SMALL", "LARGE", "SET OF 6", "HANGING", "WOODEN", "IVORY", "JUMBO"}
	motifs     = []string{"HEART", "STAR", "SPOTTY", "PAISLEY", "ROSE", "WOODLAND", "CHRISTMAS", "SKULL", "OWL", "PARIS", "DAISY"}
	nouns      = []string{"T-LIGHT HOLDER", "LUNCH BAG", "CAKESTAND", "MUG", "LANTERN", "BUNTING", "DOORMAT", "TEAPOT", "CLOCK", "NAPKINS", "SIGN"}
	usualPrice = []string{"0.42", "0.85", "1.25", "1.65", "2.08", "2.55", "2.95", "3.75", "4.95", "7.95", "12.75", "1.5", "10.0"}
)

const (
	twinEvery   = 36 // one case twin among so many: about 112 pairs of 4,000
	headPerCent = 1
	headWeight  = 0.10 // chance of a line to be of a best seller; levelTopSellers does the rest
	tailOffset  = 50   // flattens the top of the tail's power law
	tailPower   = 0.8
)

// makeThings invents the merchandise. Every oddity of the real descriptions
// is among the first ones.
func (g *generator) makeThings() {
	for len(g.things) < g.cfg.SKUs {
		n := len(g.things)
		sku := fmt.Sprint(20_000 + n)
		if n%3 == 0 {
			sku += string(rune('A' + n/3%26))
		}
		t := thing{price: usualPrice[g.rnd.IntN(len(usualPrice))]}
		t.Product = Product{
			SKU: sku, Description: g.description(n), Variants: 1 + n%3/2, PriceMode: t.price, PriceLast: t.price,
			DistinctPrices: 1, Merchandise: true,
		}
		g.things = append(g.things, t)
		if n%twinEvery == 0 && len(g.things) < g.cfg.SKUs {
			g.addTwin(n)
		}
	}
	g.rnd.Shuffle(len(g.things), func(i, j int) { g.things[i], g.things[j] = g.things[j], g.things[i] })
	g.weigh()
}

// addTwin adds the same code in lower case as another product.
func (g *generator) addTwin(of int) {
	twin := g.things[of]
	if !strings.ContainsAny(twin.SKU, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		return
	}
	twin.SKU = strings.ToLower(twin.SKU)
	twin.CaseTwin = g.things[of].SKU
	g.things[of].CaseTwin = twin.SKU
	g.things = append(g.things, twin)
}

func (g *generator) description(n int) string {
	text := fmt.Sprintf("%s %s %s", adjectives[g.rnd.IntN(len(adjectives))], motifs[g.rnd.IntN(len(motifs))], nouns[g.rnd.IntN(len(nouns))])
	switch n % 40 {
	case 1:
		return `POCKET MIRROR "` + text + `"`
	case 2:
		return text + ", £10.00"
	case 3, 4, 5, 6:
		return text + " "
	case 7:
		return " " + text
	case 8:
		return "TUMBLER, " + text
	case 9:
		return ""
	}
	return text
}

// weigh fills the cumulated weights: an even share for each best seller, a
// power law for the rest.
func (g *generator) weigh() {
	head := len(g.things) * headPerCent / 100
	var tail float64
	for i := head; i < len(g.things); i++ {
		tail += math.Pow(float64(i-head+tailOffset), -tailPower)
	}
	var sum float64
	for i := range g.things {
		if i < head {
			sum += headWeight / float64(head)
		} else {
			sum += (1 - headWeight) * math.Pow(float64(i-head+tailOffset), -tailPower) / tail
		}
		g.weights = append(g.weights, sum)
	}
}

// services are the codes that are no merchandise, as in the real set.
var services = []struct{ sku, description, price, twin string }{
	{"POST", "POSTAGE", "18.0", ""}, {"DOT", "DOTCOM POSTAGE", "3.29", ""}, {"C2", "CARRIAGE", "50.0", ""},
	{"M", "Manual", "1.25", "m"}, {"m", "Manual", "2.55", "M"}, {"D", "Discount", "", ""}, {"S", "SAMPLES", "30.0", ""},
	{"BANK CHARGES", "Bank Charges", "15.0", ""}, {"PADS", "PADS TO MATCH ALL CUSHIONS", "0.001", ""},
	{"AMAZONFEE", "AMAZON FEE", "13541.33", ""}, {"CRUK", "CRUK Commission", "", ""}, {badDebtSKU, "Adjust bad debt", "", ""},
	{"gift_0001_20", "Dotcomgiftshop Gift Voucher £20.00", "16.67", ""},
}

// products counts what was sold and adds the services; the first things that
// nobody bought have no price, as in the real set.
func (g *generator) products() []Product {
	sold := map[string]*Product{}
	out := make([]Product, 0, len(g.things)+len(services))
	for _, t := range g.things {
		out = append(out, t.Product)
	}
	for _, s := range services {
		out = append(out, Product{
			SKU: s.sku, Description: s.description, Variants: 1, PriceMode: s.price, PriceLast: s.price, CaseTwin: s.twin,
		})
	}
	for i := range out {
		out[i].FirstAt, out[i].LastAt = g.first, g.first
		sold[out[i].SKU] = &out[i]
	}
	for _, o := range g.orders {
		for _, line := range o.Lines {
			p := sold[line.SKU]
			p.LastAt = o.FirstAt
			if o.Kind == Sale && line.Quantity > 0 {
				p.UnitsSold += line.Quantity
				p.SaleLines++
			}
		}
	}
	g.dropUnsoldPrices(out)
	return out
}

func (g *generator) dropUnsoldPrices(products []Product) {
	left := len(products) / 30
	for i := range products {
		if p := &products[i]; left > 0 && p.Merchandise && p.SaleLines == 0 {
			p.PriceMode, p.PriceLast, p.DistinctPrices = "", "", 0
			left--
		}
	}
}
