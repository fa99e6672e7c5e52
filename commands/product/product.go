// Package product is what the ERP says a SKU is: its name, segment and attributes. While it sells the SKU no
// more, the SKU's stock and prices are marked, in the same transaction, so that they are not shown either.
package product

import (
	"maps"
	"time"

	"andes/commands/price"
	"andes/commands/sku"
	"andes/commands/source"
	"andes/commands/stock"
	"andes/eventstore"
)

// State is a product as the ERP last described it.
type State struct {
	SKU           string            `json:"sku"`
	Name          string            `json:"name"`
	Segment       string            `json:"segment,omitempty"`
	Attributes    map[string]string `json:"attributes,omitempty"`
	SourceVersion int64             `json:"sourceVersion"`
	ChangedAt     time.Time         `json:"changedAt"`
	Removed       bool              `json:"removed,omitempty"`
	Absent        bool              `json:"absent,omitempty"` // removed because the ERP does not list it any more
	Doubt         Doubted           `json:"doubt,omitzero"`   // the zero value: none
}

// Aggregate is one stream per SKU.
var Aggregate = eventstore.NewAggregate(eventstore.Category[State]{
	Name:      "product",
	Published: true,
	Events:    []eventstore.Definition[State]{described, removed, doubted},
})

// Described says that the ERP created or changed a product.
type Described struct {
	SKU           string            `json:"sku"`
	Name          string            `json:"name"`
	Segment       string            `json:"segment,omitempty"`
	Attributes    map[string]string `json:"attributes,omitempty"`
	SourceVersion int64             `json:"sourceVersion"`
	At            time.Time         `json:"at"`
	Back          bool              `json:"back,omitempty"` // its version is older than the last one: the ERP went back
}

var described = eventstore.Define("product.described", func(s *State, e Described) {
	*s = State{SKU: e.SKU, Name: e.Name, Segment: e.Segment, Attributes: e.Attributes, SourceVersion: e.SourceVersion, ChangedAt: e.At}
}, eventstore.Doc("The ERP created or changed a product."))

// Removed says that the ERP no longer sells a product.
type Removed struct {
	SourceVersion int64     `json:"sourceVersion"`
	At            time.Time `json:"at"`
	Absent        bool      `json:"absent,omitempty"` // nothing told it; it is not listed any more
	Back          bool      `json:"back,omitempty"`   // its version is older than the last one: the ERP went back
}

var removed = eventstore.Define("product.removed", func(s *State, e Removed) {
	s.Removed, s.SourceVersion, s.ChangedAt, s.Absent, s.Doubt = true, e.SourceVersion, e.At, e.Absent, Doubted{}
}, eventstore.Doc("The ERP no longer sells the product."))

// Limits of what an ERP may send.
const (
	maxName       = 500
	maxAttributes = 100
	maxAttribute  = 2000
)

// CodeInvalid refuses a product that breaks the limits.
const CodeInvalid eventstore.Code = "PRODUCT_INVALID"

// Report records the ERP's view of a product. A version that is not newer than the known one changes
// nothing, so a feed may be read twice and out of order.
type Report struct {
	SKU           string
	Name          string
	Segment       string
	Attributes    map[string]string
	SourceVersion int64
	At            time.Time
	Removed       bool

	// Compared is when the comparison began that found it by going through all there is; zero: none did. Then it also
	// counts at the known version when it says something else, at any version when the product was taken for gone, and
	// at an older one when two comparisons found that the source went back: source.Known.
	Compared time.Time
}

// Needs implements eventstore.Command.
func (c Report) Needs() []eventstore.Stream {
	needs := []eventstore.Stream{Aggregate.Stream(c.SKU)}
	if c.Removed {
		needs = append(needs, stock.Aggregate.Stream(c.SKU))
	}
	return needs
}

// Decide implements eventstore.Command. Its result is what the description is to what is known.
func (c Report) Decide(u *eventstore.Unit) (any, error) {
	if fault := sku.Check(c.SKU); fault != "" {
		return nil, eventstore.Refuse(sku.CodeInvalid, "%s", fault)
	}
	if len(c.Name) > maxName || len(c.Attributes) > maxAttributes {
		return nil, eventstore.Refuse(CodeInvalid, "the name or the attributes of the product are too large")
	}
	for name, value := range c.Attributes {
		if len(name) > maxAttribute || len(value) > maxAttribute {
			return nil, eventstore.Refuse(CodeInvalid, "an attribute of the product is too large")
		}
	}
	known, version := Aggregate.Load(u, c.SKU)
	word := source.News // also a removal of a product that was never described: its version keeps out an older description that comes late
	if version > 0 {
		word = c.word(known)
	}
	at := source.Stamp(c.At, u.Now())
	switch {
	case word == source.Suspect:
		Aggregate.Append(u, c.SKU, Doubted(source.Suspicion(c.SourceVersion, u.Now())))
	case word == source.Old:
	case c.Removed:
		remove(u, c.SKU, Removed{SourceVersion: c.SourceVersion, At: at, Back: word == source.Back})
	default:
		Aggregate.Append(u, c.SKU, Described{
			SKU: c.SKU, Name: c.Name, Segment: c.Segment, Attributes: maps.Clone(c.Attributes),
			SourceVersion: c.SourceVersion, At: at, Back: word == source.Back,
		})
		if known.Removed {
			stock.List(u, c.SKU, true, at)
			price.List(u, c.SKU, true, at)
		}
	}
	return word, nil
}

func (c Report) word(known State) source.Word {
	was := source.Known{
		Version: known.SourceVersion, At: known.ChangedAt, Absent: known.Absent && !c.Removed, Doubt: source.Doubt(known.Doubt),
	}
	same := c.Removed == known.Removed &&
		(c.Removed || c.Name == known.Name && c.Segment == known.Segment && maps.Equal(c.Attributes, known.Attributes))
	return was.Word(c.SourceVersion, c.Compared, same)
}

func remove(u *eventstore.Unit, sku string, how Removed) {
	Aggregate.Append(u, sku, how)
	stock.List(u, sku, false, how.At)
	price.List(u, sku, false, how.At)
}

// Vanish records that the ERP does not list a product any more.
type Vanish struct {
	SKU     string
	Version int64 // of the source, that was known when the product was missed: one that came since stays
	At      time.Time
}

// Needs implements eventstore.Command.
func (c Vanish) Needs() []eventstore.Stream { return []eventstore.Stream{Aggregate.Stream(c.SKU)} }

// Decide implements eventstore.Command.
func (c Vanish) Decide(u *eventstore.Unit) (any, error) {
	known, version := Aggregate.Load(u, c.SKU)
	if version == 0 || known.Removed || known.SourceVersion != c.Version {
		return nil, nil
	}
	remove(u, c.SKU, Removed{SourceVersion: known.SourceVersion, At: source.Stamp(c.At, u.Now()), Absent: true})
	return nil, nil
}
