// Package price is what the ERP asks for a SKU on a price list.
package price

import (
	"strings"
	"time"

	"andes/commands/money"
	"andes/commands/sku"
	"andes/commands/source"
	"andes/commands/stock"
	"andes/eventstore"
)

// State is a list price.
type State struct {
	Price         money.Money `json:"price"`
	SourceVersion int64       `json:"sourceVersion"`
	ChangedAt     time.Time   `json:"changedAt"`
	Removed       bool        `json:"removed,omitempty"`

	Absent   bool    `json:"absent,omitempty"`   // removed because the ERP does not list it any more
	Delisted bool    `json:"delisted,omitempty"` // the ERP does not sell the SKU any more, so nobody is shown it
	Doubt    Doubted `json:"doubt,omitzero"`     // the zero value: none
}

// Shown tells whether there is a price to show.
func (s State) Shown() bool { return s.Price != money.Money{} && !s.Removed && !s.Delisted }

// Aggregate is one stream per price list and SKU.
var Aggregate = eventstore.NewAggregate(eventstore.Category[State]{
	Name:      "price",
	Published: true,
	Events:    []eventstore.Definition[State]{set, removed, doubted, delisted, listed},
})

// Key is the stream's key: list|sku. The list's name holds no bar, so the key is unambiguous.
func Key(list, sku string) string { return list + "|" + sku }

// AppendKey appends the key.
func AppendKey(b []byte, list, sku string) []byte {
	return append(append(append(b, list...), '|'), sku...)
}

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
	Back          bool        `json:"back,omitempty"` // its version is older than the last one: the ERP went back
}

var set = eventstore.Define("price.set", func(s *State, e Set) {
	next := State{Price: e.Price, SourceVersion: e.SourceVersion, ChangedAt: e.At, Delisted: s.Delisted}
	if !e.Back && e.SourceVersion < s.Doubt.SourceVersion {
		next.Doubt = s.Doubt
	}
	*s = next
}, eventstore.Doc("The ERP set the price of a SKU on a price list."))

// Removed says that the SKU is no longer on the list.
type Removed struct {
	SourceVersion int64     `json:"sourceVersion"`
	At            time.Time `json:"at"`
	Absent        bool      `json:"absent,omitempty"` // nothing told it; it is not listed any more
	Back          bool      `json:"back,omitempty"`   // its version is older than the last one: the ERP went back
}

var removed = eventstore.Define("price.removed", func(s *State, e Removed) {
	s.Removed, s.SourceVersion, s.ChangedAt, s.Absent = true, e.SourceVersion, e.At, e.Absent
	if !s.Doubt.Back.IsZero() {
		s.Doubt = Doubted{} // it was suspected to have gone back behind another version
	}
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

	// Compared is when the comparison began that found it by going through all there is; zero: none did. Then it also
	// counts at the known version when it says something else, at any version when the price was taken for gone, and
	// at an older one when two comparisons found that the source went back: source.Known.
	Compared time.Time
}

// Needs implements eventstore.Command.
func (c Report) Needs() []eventstore.Stream {
	return []eventstore.Stream{Aggregate.Stream(Key(c.List, c.SKU)), Lists.Stream(allLists)}
}

// Decide implements eventstore.Command. Its result is what the price is to what is known.
func (c Report) Decide(u *eventstore.Unit) (any, error) {
	if fault := sku.Check(c.SKU); fault != "" {
		return nil, eventstore.Refuse(sku.CodeInvalid, "%s", fault)
	}
	if !ValidList(c.List) {
		return nil, eventstore.Refuse(CodeInvalid, "the name of the price list is not 1 to %d characters without a bar", maxListName)
	}
	key := Key(c.List, c.SKU)
	known, version := Aggregate.Load(u, key)
	at := source.Stamp(c.At, u.Now())
	if version > 0 && c.SourceVersion <= known.SourceVersion && c.Compared.IsZero() {
		return source.Old, nil
	}
	amount, err := c.amount()
	if err != nil {
		return nil, err
	}
	word := source.News // also a removal of a price that was never set: its version keeps out an older price that comes late
	if version > 0 {
		word = c.word(known, amount)
	}
	switch {
	case word == source.Suspect:
		Aggregate.Append(u, key, Doubted(source.Suspicion(c.SourceVersion, u.Now())))
	case word == source.Old:
	case c.Removed:
		Aggregate.Append(u, key, Removed{SourceVersion: c.SourceVersion, At: at, Back: word == source.Back})
	default:
		return word, c.set(u, Set{Price: amount, SourceVersion: c.SourceVersion, At: at, Back: word == source.Back}, version == 0)
	}
	return word, nil
}

// amount is what the price asks; nothing if there is none any more.
func (c Report) amount() (money.Money, error) {
	if c.Removed {
		return money.Money{}, nil
	}
	amount, err := money.Parse(c.Amount, c.Currency)
	if err != nil {
		return amount, eventstore.Refuse(CodeInvalid, "price %q %q: %v", c.Amount, c.Currency, err)
	}
	if amount.Minor <= 0 {
		return amount, eventstore.Refuse(CodeNotPositive, "price %s is not above zero", amount)
	}
	return amount, nil
}

func (c Report) word(known State, amount money.Money) source.Word {
	was := source.Known{
		Version: known.SourceVersion, At: known.ChangedAt, Absent: known.Absent && !c.Removed, Doubt: source.Doubt(known.Doubt),
	}
	same := c.Removed == known.Removed && (c.Removed || amount == known.Price)
	return was.Word(c.SourceVersion, c.Compared, same)
}

func (c Report) set(u *eventstore.Unit, price Set, first bool) error {
	if err := openList(u, c.List); err != nil {
		return err
	}
	key := Key(c.List, c.SKU)
	Aggregate.Append(u, key, price)
	// The mark of a first price is that of the SKU.
	if level, _ := stock.Aggregate.Load(u, c.SKU); first && level.Delisted {
		Aggregate.Append(u, key, Delisted{At: price.At})
	}
	return nil
}

// Vanish records that the ERP does not list a price any more.
type Vanish struct {
	List, SKU string
	Version   int64 // of the source, that was known when the price was missed: one that came since stays
	At        time.Time
}

// Needs implements eventstore.Command.
func (c Vanish) Needs() []eventstore.Stream {
	return []eventstore.Stream{Aggregate.Stream(Key(c.List, c.SKU))}
}

// Decide implements eventstore.Command.
func (c Vanish) Decide(u *eventstore.Unit) (any, error) {
	key := Key(c.List, c.SKU)
	known, version := Aggregate.Load(u, key)
	if version == 0 || known.Removed || known.SourceVersion != c.Version {
		return nil, nil
	}
	Aggregate.Append(u, key, Removed{SourceVersion: known.SourceVersion, At: source.Stamp(c.At, u.Now()), Absent: true})
	return nil, nil
}

// ValidList tells whether a text may name a price list.
func ValidList(name string) bool {
	return name != "" && len(name) <= maxListName && !strings.ContainsAny(name, "|\x00") && sku.Check(name) == ""
}
