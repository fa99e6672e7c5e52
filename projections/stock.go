package projections

import (
	"time"

	"andes/commands/stock"
)

// Stock is what the read model keeps of a SKU's stock.
type Stock struct {
	Net       int64 // units free to sell before any partner's policy; may be below zero
	ChangedAt time.Time
}

// Stocks is the read model of stock, by SKU.
var Stocks = On("stock", stock.Aggregate, func(s stock.State) []byte {
	return EncodeStock(Stock{Net: s.Net(), ChangedAt: s.ChangedAt})
}).quickly(quickStock)

// quickStock encodes the state of a SKU of which nothing is on its way out of the warehouse.
func quickStock(state []byte) (value []byte, ok bool) {
	var s stock.State
	plain := eachMember(state, func(name, value []byte) (ok bool) {
		switch string(name) {
		case "onHand":
			s.OnHand, ok = plainInt(value)
		case "reserved":
			s.Reserved, ok = plainInt(value)
		case "sourceVersion":
			_, ok = plainInt(value)
		case "changedAt":
			s.ChangedAt, ok = plainTime(value)
		}
		return ok
	})
	if !plain {
		return nil, false
	}
	return EncodeStock(Stock{Net: s.Net(), ChangedAt: s.ChangedAt}), true
}

// StockKey is the key of a SKU's stock.
func StockKey(sku string) string { return key(Stocks.Name, sku) }

// EncodeStock gives "net changedAt", the time in milliseconds since 1970.
func EncodeStock(s Stock) []byte {
	return appendTime(appendInt(nil, s.Net), s.ChangedAt)
}

// DecodeStock is the inverse of EncodeStock.
func DecodeStock(value string) (Stock, error) {
	f := readFields(value)
	s := Stock{Net: f.int(), ChangedAt: f.time()}
	return s, f.end()
}
