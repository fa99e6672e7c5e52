// Package price is what the ERP asks for a SKU on a price list.
package price

import (
	"strings"
	"time"

	"andes/commands/money"
	"andes/commands/sku"
	"andes/eventstore"
)

// State is a list price.
type State struct {
	Price         money.Money `json:"price"`
	SourceVersion int64       `json:"sourceVersion"`
	ChangedAt     time.Time   `json:"changedAt"`
	Removed       bool        `json:"removed,omitempty"`
}

// Aggregate is one stream per price list and SKU.
var Aggregate = eventstore.NewAggregate(eventstore.Category[State]{
	Name:      "price",
	Published: true,
	Events:    []eventstore.Definition[State]{set, removed},
})

// Key is the stream's key: list|sku. The list's name holds no bar, so the key is unambiguous.
func Key(list, sku string) string { return list + "|" + sku }

// ParseKey is the inverse of Key.
func ParseKey(key string) (list, sku string) {
	list, sku, _ = strings.Cut(key, "|")
	return list, sku
}

// Set says that the ERP set a price.
type Set struct {
	Price         money.Money `json:"price"`
	SourceVersion int64       `json:"sourceVersion"`
	At            time.Time   `json:"at"`
}

var set = eventstore.Define("price.set", func(s *State, e Set) {
	*s = State{Price: e.Price, SourceVersion: e.SourceVersion, ChangedAt: e.At}
}, eventstore.Doc("The ERP set the price of a SKU on a price list."))

// Removed says that the SKU is no longer on the list.
type Removed struct {
	SourceVersion int64     `json:"sourceVersion"`
	At            time.Time `json:"at"`
}

var removed = eventstore.Define("price.removed", func(s *State, e Removed) {
	s.Removed, s.SourceVersion, s.ChangedAt = true, e.SourceVersion, e.At
}, eventstore.Doc("The ERP took a SKU off a price list."))

// Refusals of prices. A price that is not positive would be a way to order for nothing.
const (
	CodeNotPositive eventstore.Code = "PRICE_NOT_POSITIVE"
	CodeInvalid     eventstore.Code = "PRICE_INVALID"
)

// maxListName bounds a price list's name.
const maxListName = 64

// Report records the ERP's view of a price. A version that is not newer changes nothing.
type Report struct {
	List, SKU        string
	Amount, Currency string // as the ERP wrote them
	SourceVersion    int64
	At               time.Time
	Removed          bool
}

// Needs implements eventstore.Command.
func (c Report) Needs() []eventstore.Stream {
	return []eventstore.Stream{Aggregate.Stream(Key(c.List, c.SKU))}
}

// Decide implements eventstore.Command.
func (c Report) Decide(u *eventstore.Unit) (any, error) {
	if fault := sku.Check(c.SKU); fault != "" {
		return nil, eventstore.Refuse(sku.CodeInvalid, "%s", fault)
	}
	if !ValidList(c.List) {
		return nil, eventstore.Refuse(CodeInvalid, "the name of the price list is not 1 to %d characters without a bar", maxListName)
	}
	key := Key(c.List, c.SKU)
	known, version := Aggregate.Load(u, key)
	if version > 0 && c.SourceVersion <= known.SourceVersion {
		return nil, nil
	}
	if c.Removed {
		// Also of a price that was never set: its version keeps out an older price that comes late.
		Aggregate.Append(u, key, Removed{SourceVersion: c.SourceVersion, At: c.At})
		return nil, nil
	}
	amount, err := money.Parse(c.Amount, c.Currency)
	if err != nil {
		return nil, eventstore.Refuse(CodeInvalid, "price %q %q: %v", c.Amount, c.Currency, err)
	}
	if amount.Minor <= 0 {
		return nil, eventstore.Refuse(CodeNotPositive, "price %s is not above zero", amount)
	}
	Aggregate.Append(u, key, Set{Price: amount, SourceVersion: c.SourceVersion, At: c.At})
	return nil, nil
}

// ValidList tells whether a text may name a price list.
func ValidList(name string) bool {
	return name != "" && len(name) <= maxListName && !strings.ContainsAny(name, "|\x00") && sku.Check(name) == ""
}
