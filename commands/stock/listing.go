package stock

import (
	"time"

	"andes/eventstore"
)

// Delisted says that nobody is to be shown the SKU.
type Delisted struct {
	At time.Time `json:"at"`
}

var delisted = eventstore.Define("stock.delisted", func(s *State, e Delisted) {
	s.Delisted, s.ChangedAt = true, e.At
}, eventstore.Doc("The ERP no longer sells the SKU, so its stock is not shown. What is held stays held."))

// Listed says that the SKU is shown again.
type Listed struct {
	At time.Time `json:"at"`
}

var listed = eventstore.Define("stock.listed", func(s *State, e Listed) {
	s.Delisted, s.ChangedAt = false, e.At
}, eventstore.Doc("The ERP sells the SKU again."))

// List shows or hides a SKU's stock, together with its product. A SKU without stock is marked too: a level
// may come later.
func List(u *eventstore.Unit, sku string, sold bool, at time.Time) {
	known, _ := Aggregate.Load(u, sku)
	switch {
	case sold && known.Delisted:
		Aggregate.Append(u, sku, Listed{At: at})
	case !sold && !known.Delisted:
		Aggregate.Append(u, sku, Delisted{At: at})
	}
}
