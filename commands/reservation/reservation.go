// Package reservation holds an order's units until they are dispatched or given back.
//
//	         ┌──────────► CONSUMED   dispatched
//	HELD ────┼──────────► RELEASED   cancelled, payment rejected
//	         └──────────► EXPIRED    no payment in time
//
// Each transition changes the reservation and the stock of all of its SKUs in one transaction, so no
// unit can be lost or given back twice between two steps.
package reservation

import (
	"slices"
	"strings"
	"time"

	"andes/commands/stock"
	"andes/eventstore"
)

// Status is where a reservation stands.
type Status string

// The statuses.
const (
	Held     Status = "HELD"
	Consumed Status = "CONSUMED"
	Released Status = "RELEASED"
	Expired  Status = "EXPIRED"
)

// Line is units of one SKU. A reservation has one line a SKU, whatever the order repeats.
type Line struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
}

// State is a reservation.
type State struct {
	Status    Status    `json:"status"`
	Lines     []Line    `json:"lines"`
	ChangedAt time.Time `json:"changedAt"`
}

// Aggregate is one stream per order.
var Aggregate = eventstore.NewAggregate(eventstore.Category[State]{
	Name:   "reservation",
	Events: []eventstore.Definition[State]{held, consumed, released, expired},
})

// UnitsHeld says that the units are held for the order.
type UnitsHeld struct {
	Lines []Line    `json:"lines"`
	At    time.Time `json:"at"`
}

var held = eventstore.Define("reservation.held", func(s *State, e UnitsHeld) {
	*s = State{Status: Held, Lines: e.Lines, ChangedAt: e.At}
}, eventstore.Doc("The order's units are held."))

// UnitsConsumed says that the units left the warehouse.
type UnitsConsumed struct {
	At time.Time `json:"at"`
}

var consumed = eventstore.Define("reservation.consumed", func(s *State, e UnitsConsumed) {
	s.Status, s.ChangedAt = Consumed, e.At
}, eventstore.Doc("The held units left the warehouse."))

// UnitsReleased says that the units were given back.
type UnitsReleased struct {
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

var released = eventstore.Define("reservation.released", func(s *State, e UnitsReleased) {
	s.Status, s.ChangedAt = Released, e.At
}, eventstore.Doc("The held units were given back."))

// UnitsExpired says that the units were given back because no payment came in time.
type UnitsExpired struct {
	At time.Time `json:"at"`
}

var expired = eventstore.Define("reservation.expired", func(s *State, e UnitsExpired) {
	s.Status, s.ChangedAt = Expired, e.At
}, eventstore.Doc("The held units were given back: no payment came in time."))

// CodeInsufficientStock refuses what is not there.
const CodeInsufficientStock eventstore.Code = "INSUFFICIENT_STOCK"

// Shortage is a SKU that can't be held.
type Shortage struct {
	SKU       string `json:"sku"`
	Requested int64  `json:"requested"`
	Available int64  `json:"available"`
}

// Hold holds the lines for a new order, or nothing at all. available tells what the caller may take of a
// SKU with this net stock.
func Hold(u *eventstore.Unit, orderID string, lines []Line, available func(net int64) int64) error {
	merged := Merge(lines)
	var shortages []Shortage
	for _, line := range merged {
		level, _ := stock.Aggregate.Load(u, line.SKU)
		if free := min(available(level.Net()), max(0, level.Net())); free < line.Quantity {
			shortages = append(shortages, Shortage{SKU: line.SKU, Requested: line.Quantity, Available: free})
		}
	}
	if len(shortages) > 0 {
		return &eventstore.Refusal{
			Code: CodeInsufficientStock, Detail: "there is not enough stock for the order; nothing was reserved",
			Extra: map[string]any{"shortages": shortages},
		}
	}
	Aggregate.Append(u, orderID, UnitsHeld{Lines: merged, At: u.Now()})
	for _, line := range merged {
		stock.Aggregate.Append(u, line.SKU, stock.Reserved{OrderID: orderID, Quantity: line.Quantity, At: u.Now()})
	}
	return nil
}

// Merge adds up the lines of the same SKU, sorted by SKU.
func Merge(lines []Line) []Line {
	merged := slices.Clone(lines)
	slices.SortStableFunc(merged, func(a, b Line) int { return strings.Compare(a.SKU, b.SKU) })
	last := 0
	for i := 1; i < len(merged); i++ {
		if merged[i].SKU == merged[last].SKU {
			merged[last].Quantity += merged[i].Quantity
			continue
		}
		last++
		merged[last] = merged[i]
	}
	return merged[:min(last+1, len(merged))]
}

// Release gives the units back, once. reason goes into the event.
func Release(u *eventstore.Unit, orderID, reason string) {
	if giveBack(u, orderID) {
		Aggregate.Append(u, orderID, UnitsReleased{Reason: reason, At: u.Now()})
	}
}

// Expire gives the units back because no payment came in time, once.
func Expire(u *eventstore.Unit, orderID string) {
	if giveBack(u, orderID) {
		Aggregate.Append(u, orderID, UnitsExpired{At: u.Now()})
	}
}

func giveBack(u *eventstore.Unit, orderID string) bool {
	state, _ := Aggregate.Load(u, orderID)
	if state.Status != Held {
		return false
	}
	prefetch(u, state)
	for _, line := range state.Lines {
		stock.Aggregate.Append(u, line.SKU, stock.Released{OrderID: orderID, Quantity: line.Quantity, At: u.Now()})
	}
	return true
}

// Consume takes the units as dispatched, once. stockVersions are the WMS's versions of each SKU's stock
// after it took the units off; without one, the units count as not yet taken off until the next level
// comes, for units sold twice are worse than units sold late.
func Consume(u *eventstore.Unit, orderID string, stockVersions map[string]int64) {
	state, _ := Aggregate.Load(u, orderID)
	if state.Status != Held {
		return
	}
	prefetch(u, state)
	for _, line := range state.Lines {
		version, told := stockVersions[line.SKU]
		if !told {
			level, _ := stock.Aggregate.Load(u, line.SKU)
			version = level.SourceVersion + 1
		}
		stock.Aggregate.Append(u, line.SKU, stock.Shipped{
			OrderID: orderID, Quantity: line.Quantity, StockVersion: version, At: u.Now(),
		})
	}
	Aggregate.Append(u, orderID, UnitsConsumed{At: u.Now()})
}

func prefetch(u *eventstore.Unit, state State) {
	streams := make([]eventstore.Stream, len(state.Lines))
	for i, line := range state.Lines {
		streams[i] = stock.Aggregate.Stream(line.SKU)
	}
	u.Prefetch(streams...)
}
