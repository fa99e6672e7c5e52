package projections

import (
	"time"

	"andes/commands/stock"
)

// Stock is what the read model keeps of a SKU's stock.
type Stock struct {
	Net       int64     // units free to sell before any partner's policy; may be below zero
	ChangedAt time.Time // of the level that the WMS reported
	DoubtedAt time.Time // since when it may be wrong, as the WMS replaced it by what can't be used; zero: it is not doubted
}

// Stocks is the read model of stock, by SKU. The stock of a product that is sold no more is not shown.
var Stocks = On("stock", stock.Aggregate, func(s stock.State) []byte {
	if s.Delisted {
		return nil
	}
	return EncodeStock(Stock{Net: s.Net(), ChangedAt: s.KnownAt(), DoubtedAt: s.Doubt.At})
}).quickly(quickStock)

// quickStock encodes the state of a SKU that is sold, of which nothing is on its way out of the warehouse and
// nothing is doubted.
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
		case "levelAt":
			s.LevelAt, ok = plainTime(value)
		}
		return ok
	})
	if !plain {
		return nil, false
	}
	return EncodeStock(Stock{Net: s.Net(), ChangedAt: s.KnownAt()}), true
}

// StockKey is the key of a SKU's stock.
func StockKey(sku string) string { return key(Stocks.Name, sku) }

// EncodeStock gives "net changedAt", and doubtedAt if there is one, the times in milliseconds since 1970.
func EncodeStock(s Stock) []byte {
	return appendDoubt(appendTime(appendInt(nil, s.Net), s.ChangedAt), s.DoubtedAt)
}

// DecodeStock is the inverse of EncodeStock.
func DecodeStock(value string) (Stock, error) {
	f := readFields(value)
	s := Stock{Net: f.int(), ChangedAt: f.time(), DoubtedAt: f.doubt()}
	return s, f.end()
}
