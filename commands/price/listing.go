package price

import (
	"slices"
	"time"

	"andes/eventstore"
)

// Delisted says that nobody is to be shown the price.
type Delisted struct {
	At time.Time `json:"at"`
}

var delisted = eventstore.Define("price.delisted", func(s *State, _ Delisted) {
	s.Delisted = true // the price itself is as old as it was
}, eventstore.Doc("The ERP no longer sells the SKU, so its price is not shown."))

// Listed says that the price is shown again.
type Listed struct {
	At time.Time `json:"at"`
}

var listed = eventstore.Define("price.listed", func(s *State, _ Listed) {
	s.Delisted = false
}, eventstore.Doc("The ERP sells the SKU again."))

// List shows or hides a SKU's prices on all lists, together with its product.
func List(u *eventstore.Unit, sku string, sold bool, at time.Time) {
	lists, _ := Lists.Load(u, allLists)
	streams := make([]eventstore.Stream, len(lists.Names))
	for i, list := range lists.Names {
		streams[i] = Aggregate.Stream(Key(list, sku))
	}
	u.Prefetch(streams...)
	for _, stream := range streams {
		known, version := Aggregate.Load(u, stream.Key)
		switch {
		case version == 0:
		case sold && known.Delisted:
			Aggregate.Append(u, stream.Key, Listed{At: at})
		case !sold && !known.Delisted:
			Aggregate.Append(u, stream.Key, Delisted{At: at})
		}
	}
}

// ListNames are the price lists on which there ever was a price.
type ListNames struct {
	Names []string `json:"names"`
}

// Lists is one stream, of all price lists: by them the prices of a SKU are found.
var Lists = eventstore.NewAggregate(eventstore.Category[ListNames]{
	Name:   "pricelist",
	Events: []eventstore.Definition[ListNames]{opened},
})

const (
	allLists = "all"
	maxLists = 1000
)

// Opened says that there is a price list.
type Opened struct {
	Name string `json:"name"`
}

var opened = eventstore.Define("pricelist.opened", func(s *ListNames, e Opened) {
	s.Names = append(s.Names[:len(s.Names):len(s.Names)], e.Name)
}, eventstore.Doc("The first price on a price list was set."))

func openList(u *eventstore.Unit, name string) error {
	known, _ := Lists.Load(u, allLists)
	switch {
	case slices.Contains(known.Names, name):
	case len(known.Names) >= maxLists:
		return eventstore.Refuse(CodeInvalid, "there are %d price lists already", maxLists)
	default:
		Lists.Append(u, allLists, Opened{Name: name})
	}
	return nil
}
