// Package stock counts the units of a SKU: what the WMS says is on hand, less what open orders hold and
// what was dispatched but is not yet in the WMS's figure.
//
//	net       = onHand - Σ shipped not yet in onHand - reserved
//	available = max(0, min(visible cap, net - safety buffer))     by the partner's policy
//
// The WMS reports absolute levels with a version that rises with each change of the SKU. A dispatch
// carries the version at which the WMS took its units off. So a unit is never subtracted twice: a
// shipment counts against net only while the reported level is older than it.
package stock

import (
	"time"

	"andes/commands/sku"
	"andes/eventstore"
)

// State is a SKU's stock.
type State struct {
	OnHand        int64      `json:"onHand"` // as last reported; a WMS may report less than zero
	Reserved      int64      `json:"reserved"`
	Shipped       []Shipment `json:"shipped,omitempty"`
	SourceVersion int64      `json:"sourceVersion"`
	ChangedAt     time.Time  `json:"changedAt"`
}

// Shipment is units that left the warehouse at a version of its stock that was not reported yet.
type Shipment struct {
	Version  int64 `json:"version"`
	Quantity int64 `json:"quantity"`
}

// Net is what is free to sell before the partner's policy.
func (s State) Net() int64 {
	net := s.OnHand - s.Reserved
	for _, shipment := range s.Shipped {
		net -= shipment.Quantity
	}
	return net
}

// Aggregate is one stream per SKU. It grows without end and is never loaded whole: its state is.
var Aggregate = eventstore.NewAggregate(eventstore.Category[State]{
	Name:      "stock",
	Published: true,
	Events:    []eventstore.Definition[State]{levelReported, reserved, released, shipped},
})

// LevelReported says what the WMS has on hand.
type LevelReported struct {
	OnHand        int64     `json:"onHand"`
	SourceVersion int64     `json:"sourceVersion"`
	At            time.Time `json:"at"`
}

var levelReported = eventstore.Define("stock.level_reported", func(s *State, e LevelReported) {
	var open []Shipment
	for _, shipment := range s.Shipped {
		if shipment.Version > e.SourceVersion {
			open = append(open, shipment)
		}
	}
	s.OnHand, s.SourceVersion, s.ChangedAt, s.Shipped = e.OnHand, e.SourceVersion, e.At, open
}, eventstore.Doc("The WMS reported the units on hand."))

// Reserved says that an order holds units.
type Reserved struct {
	OrderID  string    `json:"orderId"`
	Quantity int64     `json:"quantity"`
	At       time.Time `json:"at"`
}

var reserved = eventstore.Define("stock.reserved", func(s *State, e Reserved) {
	s.Reserved += e.Quantity
	s.ChangedAt = e.At
}, eventstore.Doc("An order holds units of the SKU."))

// Released says that an order gave its units back.
type Released struct {
	OrderID  string    `json:"orderId"`
	Quantity int64     `json:"quantity"`
	At       time.Time `json:"at"`
}

var released = eventstore.Define("stock.released", func(s *State, e Released) {
	s.Reserved -= e.Quantity
	s.ChangedAt = e.At
}, eventstore.Doc("An order gave its units back."))

// Shipped says that held units left the warehouse.
type Shipped struct {
	OrderID      string    `json:"orderId"`
	Quantity     int64     `json:"quantity"`
	StockVersion int64     `json:"stockVersion"` // of the WMS, after it took the units off
	At           time.Time `json:"at"`
}

var shipped = eventstore.Define("stock.shipped", func(s *State, e Shipped) {
	s.Reserved -= e.Quantity
	s.ChangedAt = e.At
	if e.StockVersion > s.SourceVersion {
		s.Shipped = append(s.Shipped[:len(s.Shipped):len(s.Shipped)], Shipment{Version: e.StockVersion, Quantity: e.Quantity})
	}
}, eventstore.Doc("Held units left the warehouse."))

// Report records a level of the WMS. A version that is not newer changes nothing.
type Report struct {
	SKU           string
	OnHand        int64
	SourceVersion int64
	At            time.Time
}

// CodeInvalid refuses a level that can't be one.
const CodeInvalid eventstore.Code = "STOCK_INVALID"

// maxLevel bounds a level, so that sums of levels and quantities can't overflow.
const maxLevel = 1 << 50

// Needs implements eventstore.Command.
func (c Report) Needs() []eventstore.Stream { return []eventstore.Stream{Aggregate.Stream(c.SKU)} }

// Decide implements eventstore.Command.
func (c Report) Decide(u *eventstore.Unit) (any, error) {
	if fault := sku.Check(c.SKU); fault != "" {
		return nil, eventstore.Refuse(sku.CodeInvalid, "%s", fault)
	}
	if c.OnHand > maxLevel || c.OnHand < -maxLevel {
		return nil, eventstore.Refuse(CodeInvalid, "a level of %d units is out of range", c.OnHand)
	}
	known, version := Aggregate.Load(u, c.SKU)
	if version > 0 && known.SourceVersion > 0 && c.SourceVersion <= known.SourceVersion {
		return nil, nil
	}
	Aggregate.Append(u, c.SKU, LevelReported{OnHand: c.OnHand, SourceVersion: c.SourceVersion, At: c.At})
	return nil, nil
}
