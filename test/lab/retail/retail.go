// Package retail is the data behind the lab: the orders of a gift wholesaler.
//
// Open reads the real set in place (Chen, D. (2015), Online Retail, UCI Machine
// Learning Repository, CC BY 4.0); Generate makes one of the same shape from a
// seed where the real one is absent. Both keep what the source has of odd
// things: SKUs that differ by case, a SKU with a blank, a SKU twice in an
// order, two prices in an order, zero and negative prices, three decimals,
// cancellations that name no original. Nothing is repaired here.
//
// Derive makes of a set what the legacy systems hold: the ERP's products and
// prices and the WMS's stock.
package retail

import (
	"fmt"
	"slices"
	"time"
)

// Kind of an order, as derived from its number and quantities.
type Kind string

// The kinds.
const (
	Sale          Kind = "sale"
	Cancellation  Kind = "cancellation"
	AdjustmentOut Kind = "stock_adjustment_out"
	AdjustmentIn  Kind = "stock_adjustment_in"
	FreeOfCharge  Kind = "free_of_charge"
	BadDebt       Kind = "bad_debt"
)

// Product as the source describes it. Prices are text and may be empty.
type Product struct {
	SKU            string
	Description    string
	Variants       int // different descriptions in the source
	PriceLast      string
	PriceMode      string // most frequent
	UnitsSold      int64
	SaleLines      int
	FirstAt        time.Time
	LastAt         time.Time
	Merchandise    bool   // false: postage, fees, vouchers, bookkeeping
	CaseTwin       string // SKU that differs from this one only by case
	DistinctPrices int    // different prices in the source
}

// Line of an order; the price is text, the quantity may be negative.
type Line struct {
	SKU       string
	Quantity  int64
	UnitPrice string
}

// Order of the source. Times are the shop's local time without a zone, in
// whole minutes; they are held as UTC.
type Order struct {
	InvoiceNo  string
	Kind       Kind
	FirstAt    time.Time
	LastAt     time.Time
	CustomerID string // empty for a quarter of the lines
	Country    string
	LineCount  int
	Lines      []Line // in source order; filled by Set.Orders
}

// Set is one data set.
type Set struct {
	Source   string // where it comes from, for people
	Products []Product
	headers  []Order // without lines, in source order
	lines    lineSource
}

// lineSource calls add for each line of the wanted orders, in source order.
type lineSource interface {
	each(wanted func(invoice string) bool, add func(invoice string, line Line) error) error
}

// DayLayout writes a day.
const DayLayout = "2006-01-02"

// DefaultDay is a busy one near the end: 127 sales, the largest of 721 lines.
const DefaultDay = "2011-12-05"

const maxDays = 400

// Days lists the days with orders.
func (s *Set) Days() []string {
	var days []string
	for _, o := range s.headers {
		if day := o.FirstAt.Format(DayLayout); len(days) == 0 || days[len(days)-1] != day {
			days = append(days, day)
		}
	}
	return days
}

// Headers returns all orders without their lines, in source order.
func (s *Set) Headers() []Order { return slices.Clone(s.headers) }

// Orders returns the orders of n calendar days beginning with day, with their
// lines, in source order.
func (s *Set) Orders(day string, n int) ([]Order, error) {
	from, err := time.Parse(DayLayout, day)
	if err != nil {
		return nil, fmt.Errorf("day: %w", err)
	}
	if n < 1 || n > maxDays {
		return nil, fmt.Errorf("days: %d is outside 1..%d", n, maxDays)
	}
	to := from.AddDate(0, 0, n)
	return s.withLines(func(o Order) bool { return !o.FirstAt.Before(from) && o.FirstAt.Before(to) })
}

// All returns every order with its lines. The real set takes about a second.
func (s *Set) All() ([]Order, error) { return s.withLines(func(Order) bool { return true }) }

func (s *Set) withLines(want func(Order) bool) ([]Order, error) {
	var orders []Order
	at := map[string]int{}
	for _, o := range s.headers {
		if want(o) {
			at[o.InvoiceNo] = len(orders)
			orders = append(orders, o)
		}
	}
	wanted := func(invoice string) bool { _, ok := at[invoice]; return ok }
	err := s.lines.each(wanted, func(invoice string, line Line) error {
		o := &orders[at[invoice]]
		o.Lines = append(o.Lines, line)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, o := range orders {
		if len(o.Lines) != o.LineCount {
			return nil, fmt.Errorf("order %s has %d lines, its header says %d", o.InvoiceNo, len(o.Lines), o.LineCount)
		}
	}
	return orders, nil
}

// memoryLines are the lines of a generated set, beside its headers.
type memoryLines struct{ orders []Order }

func (m memoryLines) each(wanted func(string) bool, add func(string, Line) error) error {
	for _, o := range m.orders {
		if !wanted(o.InvoiceNo) {
			continue
		}
		for _, line := range o.Lines {
			if err := add(o.InvoiceNo, line); err != nil {
				return err
			}
		}
	}
	return nil
}
