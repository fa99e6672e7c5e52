package main

import (
	"fmt"
	"strings"
	"time"

	"andes/test/lab/money"
	"andes/test/lab/retail"
)

const (
	maxGap        = 30 * time.Minute // a longer quiet (a night) is cut to this
	rejectedEvery = 25               // every 25th sale pays with a card that is refused
	silentSale    = 3                // this sale's payment is decided but never told
)

// plan is the days as a list of things to do, in the order they happened.
type plan struct {
	tasks       []task
	sales       int
	cancels     int
	noOriginal  int
	deliveries  int // stock that came in
	losses      int // stock that went out without a sale: not replayed
	length      time.Duration
	odd         int
	rejectedPay int
}

// task is one of sale, cancel, delivery.
type task struct {
	offset   time.Duration // since the first task, quiet hours cut
	sale     *sale
	cancel   *sale // of the sale to cancel
	delivery []retail.Line
}

// sale is an order of the source on its way through the platform.
type sale struct {
	retail.Order
	number int
	token  string
	odd    string        // why it must be refused; empty: it may be accepted
	done   chan struct{} // closed when the answer is known
	placed *placed       // nil: refused
}

func newPlan(orders []retail.Order) plan {
	var p plan
	var last time.Time
	for i, o := range orders {
		if i > 0 {
			p.length += min(o.FirstAt.Sub(last), maxGap)
		}
		last = o.FirstAt
		switch o.Kind {
		case retail.Sale, retail.FreeOfCharge, retail.BadDebt:
			p.addSale(o)
		case retail.Cancellation:
			p.addCancellation(o)
		case retail.AdjustmentIn:
			p.deliveries++
			p.tasks = append(p.tasks, task{offset: p.length, delivery: o.Lines})
		case retail.AdjustmentOut:
			// Orders may hold these units; taking them would oversell by the lab's own hand.
			p.losses++
		}
	}
	return p
}

func (p *plan) addSale(o retail.Order) {
	p.sales++
	s := &sale{Order: o, number: p.sales, token: "tok_visa", odd: oddInput(o), done: make(chan struct{})}
	switch {
	case p.sales%rejectedEvery == 0:
		s.token = "tok_reject_card"
		p.rejectedPay++
	case p.sales == silentSale:
		s.token = "tok_silent_card"
	}
	if s.odd != "" {
		p.odd++
	}
	p.tasks = append(p.tasks, task{offset: p.length, sale: s})
}

// oddInput names what no platform may accept, whatever its catalogue.
func oddInput(o retail.Order) string {
	for _, line := range o.Lines {
		if fault := oddLine(line); fault != "" {
			return fault
		}
	}
	return ""
}

func oddLine(line retail.Line) string {
	amount, err := money.Parse(line.UnitPrice)
	switch {
	case err != nil:
		return "unreadable price"
	case amount == 0:
		return "price of zero"
	case amount < 0:
		return "negative price"
	case money.Decimals(line.UnitPrice) > 2:
		return "price of 3 decimals"
	case line.Quantity <= 0:
		return "negative quantity"
	}
	return ""
}

func (p *plan) addCancellation(o retail.Order) {
	original := p.originalOf(o)
	if original == nil {
		p.noOriginal++
		return
	}
	p.cancels++
	p.tasks = append(p.tasks, task{offset: p.length, cancel: original})
}

// originalOf is the customer's latest sale that has all of the SKUs.
func (p *plan) originalOf(c retail.Order) *sale {
	if c.CustomerID == "" {
		return nil
	}
	for i := len(p.tasks) - 1; i >= 0; i-- {
		if s := p.tasks[i].sale; s != nil && s.CustomerID == c.CustomerID && hasAll(s.Lines, c.Lines) {
			return s
		}
	}
	return nil
}

func hasAll(lines, wanted []retail.Line) bool {
	has := map[string]bool{}
	for _, line := range lines {
		has[line.SKU] = true
	}
	for _, line := range wanted {
		if !has[line.SKU] {
			return false
		}
	}
	return true
}

// String sums the plan up.
func (p plan) String() string {
	parts := []string{
		fmt.Sprintf("%d sales", p.sales),
		fmt.Sprintf("%d cancellations (%d more name no original)", p.cancels, p.noOriginal),
		fmt.Sprintf("%d stock receipts (%d losses left out)", p.deliveries, p.losses),
	}
	return strings.Join(parts, ", ")
}
