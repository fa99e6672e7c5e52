// Package stock counts the units of a SKU: what the WMS says is on hand, less what open orders hold and
// what was dispatched but is not yet in the WMS's figure.
//
//	net       = onHand - Σ shipped not yet in onHand - reserved
//	available = max(0, min(visible cap, net - safety buffer))     by the partner's policy
//
// The WMS reports absolute levels with a version that rises with each change of the SKU. A dispatch
// carries the version at which the WMS took its units off. So a unit is never subtracted twice: a
// shipment counts against net only while the reported level is older than it.
//
// How far a level can be trusted is part of it: when the WMS reported it, whether it replaced it by
// something that can't be used (the level is doubted from then on, until a usable one comes), and whether
// the ERP still sells the SKU at all.
package stock

import (
	"time"

	"andes/commands/sku"
	"andes/commands/source"
	"andes/eventstore"
)

// State is a SKU's stock.
type State struct {
	OnHand        int64      `json:"onHand"` // as last reported; a WMS may report less than zero
	Reserved      int64      `json:"reserved"`
	Shipped       []Shipment `json:"shipped,omitempty"`
	SourceVersion int64      `json:"sourceVersion"`
	ChangedAt     time.Time  `json:"changedAt"`

	LevelAt  time.Time `json:"levelAt,omitzero"`   // when the WMS set the level
	Absent   bool      `json:"absent,omitempty"`   // the WMS does not list the SKU any more
	Delisted bool      `json:"delisted,omitempty"` // the ERP does not sell it any more, so nobody is shown it
	Doubt    Doubted   `json:"doubt,omitzero"`     // the zero value: none
}

// KnownAt is when the level was set, as far as it is known.
func (s State) KnownAt() time.Time {
	if s.LevelAt.IsZero() {
		return s.ChangedAt // of a time when only that was kept
	}
	return s.LevelAt
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
	Events:    []eventstore.Definition[State]{levelReported, reserved, released, shipped, doubted, delisted, listed},
})

// LevelReported says what the WMS has on hand.
type LevelReported struct {
	OnHand        int64     `json:"onHand"`
	SourceVersion int64     `json:"sourceVersion"`
	At            time.Time `json:"at"`
	Absent        bool      `json:"absent,omitempty"` // it is none because the SKU is not listed any more
	Back          bool      `json:"back,omitempty"`   // its version is older than the last one: the WMS went back
}

var levelReported = eventstore.Define("stock.level_reported", func(s *State, e LevelReported) {
	var open []Shipment
	for _, shipment := range s.Shipped {
		if shipment.Version > e.SourceVersion {
			open = append(open, shipment)
		}
	}
	s.OnHand, s.SourceVersion, s.ChangedAt, s.Shipped = e.OnHand, e.SourceVersion, e.At, open
	s.LevelAt, s.Absent = e.At, e.Absent
	if e.Back || e.SourceVersion >= s.Doubt.SourceVersion {
		s.Doubt = Doubted{}
	}
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

	// Compared is when the comparison began that found it by going through all there is; zero: none did. Then it also
	// counts at the known version when it says something else, at any version when the SKU was taken for gone, and
	// at an older one when two comparisons found that the source went back: source.Known.
	Compared time.Time
}

// CodeInvalid refuses a level that can't be one.
const CodeInvalid eventstore.Code = "STOCK_INVALID"

// maxLevel bounds a level, so that sums of levels and quantities can't overflow.
const maxLevel = 1 << 50

// Needs implements eventstore.Command.
func (c Report) Needs() []eventstore.Stream { return []eventstore.Stream{Aggregate.Stream(c.SKU)} }

// Decide implements eventstore.Command. Its result is what the level is to what is known.
func (c Report) Decide(u *eventstore.Unit) (any, error) {
	if fault := sku.Check(c.SKU); fault != "" {
		return nil, eventstore.Refuse(sku.CodeInvalid, "%s", fault)
	}
	if c.OnHand > maxLevel || c.OnHand < -maxLevel {
		return nil, eventstore.Refuse(CodeInvalid, "a level of %d units is out of range", c.OnHand)
	}
	known, _ := Aggregate.Load(u, c.SKU)
	word := c.word(known)
	switch word {
	case source.News, source.Back:
		Aggregate.Append(u, c.SKU, LevelReported{
			OnHand: c.OnHand, SourceVersion: c.SourceVersion, At: source.Stamp(c.At, u.Now()), Back: word == source.Back,
		})
	case source.Suspect:
		Aggregate.Append(u, c.SKU, Doubted(source.Suspicion(c.SourceVersion, u.Now())))
	}
	return word, nil
}

func (c Report) word(known State) source.Word {
	if known.SourceVersion <= 0 {
		return source.News
	}
	was := source.Known{Version: known.SourceVersion, At: known.KnownAt(), Absent: known.Absent, Doubt: source.Doubt(known.Doubt)}
	return was.Word(c.SourceVersion, c.Compared, c.OnHand == known.OnHand)
}

// Vanish records that the WMS does not list a SKU any more: it has no units of it.
type Vanish struct {
	SKU     string
	Version int64 // of the source, that was known when the SKU was missed: one that came since stays
	At      time.Time
}

// Needs implements eventstore.Command.
func (c Vanish) Needs() []eventstore.Stream { return []eventstore.Stream{Aggregate.Stream(c.SKU)} }

// Decide implements eventstore.Command.
func (c Vanish) Decide(u *eventstore.Unit) (any, error) {
	known, version := Aggregate.Load(u, c.SKU)
	if version == 0 || known.Absent || known.SourceVersion != c.Version {
		return nil, nil
	}
	Aggregate.Append(u, c.SKU, LevelReported{SourceVersion: known.SourceVersion, At: source.Stamp(c.At, u.Now()), Absent: true})
	return nil, nil
}
