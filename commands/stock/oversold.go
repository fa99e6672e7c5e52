package stock

import "time"

// Oversold is a SKU of which orders hold more units than there are: the WMS lowered its level after they were held.
// Nothing more is sold of it, and it is one no more when a level comes that suffices, or enough orders gave way.
type Oversold struct {
	SKU       string    `json:"sku"`
	OnHand    int64     `json:"onHand" doc:"As the WMS last reported it; it may be below zero"`
	Shipped   int64     `json:"shipped" doc:"Units that left and are not yet off onHand"`
	Reserved  int64     `json:"reserved" doc:"Units that orders hold"`
	Oversold  int64     `json:"oversold" doc:"Units that are missing to meet every order"`
	LevelAt   time.Time `json:"levelAt" doc:"Since when the WMS says that so many are on hand"`
	DoubtedAt time.Time `json:"doubtedAt,omitzero" doc:"Since when the WMS has a record instead that can't be used; not there: it has none"`
	Orders    []Holder  `json:"orders" doc:"That hold units, the newest first: it was the last to come"`
	More      bool      `json:"more" doc:"There are more orders than are told"`
}

// Holder is an order that holds units of a SKU.
type Holder struct {
	OrderID  string    `json:"orderId"`
	Quantity int64     `json:"quantity"`
	HeldAt   time.Time `json:"heldAt"`
}

// Oversold tells of the SKU what its state says: whether orders hold more than there is, and the figures. A level below
// zero of which no order holds anything oversells nobody.
func (s State) Oversold(sku string) (Oversold, bool) {
	missing := -s.Net()
	if s.Reserved <= 0 || missing <= 0 {
		return Oversold{}, false
	}
	return Oversold{
		SKU: sku, OnHand: s.OnHand, Shipped: missing - s.Reserved + s.OnHand, Reserved: s.Reserved, Oversold: missing,
		LevelAt: s.KnownAt(), DoubtedAt: s.Doubt.At, Orders: []Holder{},
	}, true
}
