package retail

import (
	"fmt"
	"slices"
	"time"
)

// addOddities makes each thing that a naive system rejects or corrupts happen
// at least once on every day.
func (g *generator) addOddities() {
	for day := range g.cfg.Days {
		today := g.orders[day*g.cfg.SalesPerDay : (day+1)*g.cfg.SalesPerDay]
		g.repeatSKUs(today)
		g.sellOddLines(today)
	}
	// Only now are orders appended, which moves the slice.
	for day := range g.cfg.Days {
		g.rushForOneSKU(day)
	}
	// The real set's two giants, on the first and on the middle day.
	g.giant(0, 0, 74_215, 16*time.Minute)
	g.giant(g.cfg.Days/2, 1, 80_995, 12*time.Minute)
	g.addGiftsAndBadDebts()
}

// repeatSKUs puts a SKU twice into every seventh order: with another
// quantity, as an exact copy, or at another price.
func (g *generator) repeatSKUs(today []Order) {
	for i := 0; i < len(today); i += 7 {
		o := &today[i]
		line := o.Lines[g.rnd.IntN(len(o.Lines))]
		switch i / 7 % 3 {
		case 0:
			line.Quantity++
		case 2:
			line.UnitPrice = otherPrice(line.UnitPrice)
		}
		o.Lines = append(o.Lines, line)
	}
}

func otherPrice(price string) string {
	if price == usualPrice[0] {
		return usualPrice[1]
	}
	return usualPrice[0]
}

// sellOddLines adds postage, vouchers, manual entries, and prices of zero and
// of three decimals to some of the day's orders.
func (g *generator) sellOddLines(today []Order) {
	odd := []Line{
		{"POST", 1, "18.0"}, {"M", 1, "1.25"}, {"BANK CHARGES", 1, "0.001"}, {"PADS", 1, "0.001"},
		{"gift_0001_20", 1, "16.67"}, {"DOT", 1, "3.29"}, {"C2", 1, "50.0"}, {"m", 1, "2.55"},
	}
	for i, line := range odd {
		o := &today[(3+i*5)%len(today)]
		o.Lines = append(o.Lines, line)
	}
	free := &today[1]
	free.Lines = append(free.Lines, Line{SKU: g.things[g.rnd.IntN(len(g.things))].SKU, Quantity: 1, UnitPrice: zeroPrice})
}

// rushForOneSKU: five orders for one SKU in one minute.
func (g *generator) rushForOneSKU(day int) {
	t := g.things[day%len(g.things)]
	for range 5 {
		o := g.sale(g.at(day, openMinute+300), 1)
		o.Lines = []Line{{SKU: t.SKU, Quantity: 1 + g.rnd.Int64N(3), UnitPrice: t.price}}
		g.orders = append(g.orders, o)
	}
}

// giant sells a whole warehouse and takes it back minutes later.
func (g *generator) giant(day, rank int, units int64, cancelledAfter time.Duration) {
	t := g.things[len(g.things)-1-rank]
	o := g.sale(g.at(day, openMinute+90), 1)
	o.CustomerID = fmt.Sprint(16_446 + rank)
	o.Lines = []Line{{SKU: t.SKU, Quantity: units, UnitPrice: t.price}}
	g.orders = append(g.orders, o, g.cancellation(o, o.FirstAt.Add(cancelledAfter), len(o.Lines)))
}

func (g *generator) addGiftsAndBadDebts() {
	gift := g.sale(g.at(0, openMinute+120), 2)
	gift.Kind = FreeOfCharge
	for i := range gift.Lines {
		gift.Lines[i].UnitPrice = zeroPrice
	}
	g.orders = append(g.orders, gift)
	for i, price := range []string{"11062.06", badDebtPrice} {
		debt := g.sale(g.at(1, openMinute+200+i), 1)
		debt.InvoiceNo, debt.Kind, debt.CustomerID = g.nextInvoice("A"), BadDebt, ""
		debt.Lines = []Line{{SKU: badDebtSKU, Quantity: 1, UnitPrice: price}}
		g.orders = append(g.orders, debt)
	}
}

func (g *generator) cancellation(of Order, at time.Time, lines int) Order {
	c := Order{
		InvoiceNo: g.nextInvoice("C"), Kind: Cancellation, FirstAt: at, LastAt: at,
		CustomerID: of.CustomerID, Country: of.Country,
	}
	for _, line := range of.Lines[:lines] {
		line.Quantity = -line.Quantity
		c.Lines = append(c.Lines, line)
	}
	return c
}

// addCancellations takes back sales of the same day, in whole or in part;
// every third one names no original that could be found.
func (g *generator) addCancellations() {
	sales := slices.DeleteFunc(slices.Clone(g.orders), func(o Order) bool { return o.Kind != Sale || len(o.Lines) == 0 })
	n := int(float64(len(sales)) * cancelledShare)
	for i := range n {
		of := sales[g.rnd.IntN(len(sales))]
		at := of.FirstAt.Add(time.Duration(1+g.rnd.IntN(30)) * time.Minute)
		c := g.cancellation(of, at, 1+g.rnd.IntN(len(of.Lines)))
		if i%3 == 0 {
			c.CustomerID = ""
			c.Lines = c.Lines[:1]
			c.Lines[0].SKU = g.things[g.rnd.IntN(len(g.things))].SKU
		}
		g.orders = append(g.orders, c)
	}
}

func (g *generator) addAdjustments() {
	for day := range g.cfg.Days {
		for i := range 8 {
			o := g.sale(g.at(day, openMinute+g.rnd.IntN(openMinutes)), 1)
			o.CustomerID, o.Kind = "", AdjustmentIn
			o.Lines[0].UnitPrice = zeroPrice
			if i%3 == 0 {
				o.Kind = AdjustmentOut
				o.Lines[0].Quantity = -o.Lines[0].Quantity
			}
			g.orders = append(g.orders, o)
		}
	}
}
