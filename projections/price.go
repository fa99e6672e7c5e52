package projections

import (
	"time"

	"andes/commands/money"
	"andes/commands/price"
)

// Price is what the read model keeps of a SKU's price on a list.
type Price struct {
	Price     money.Money
	ChangedAt time.Time
}

// Prices is the read model of prices, by price list and SKU. A removed price is not shown.
var Prices = On("price", price.Aggregate, func(s price.State) []byte {
	if s.Removed {
		return nil
	}
	return EncodePrice(Price{Price: s.Price, ChangedAt: s.ChangedAt})
})

// PriceKey is the key of a SKU's price on a list.
func PriceKey(list, sku string) string { return key(Prices.Name, price.Key(list, sku)) }

// EncodePrice gives "minor currency changedAt".
func EncodePrice(p Price) []byte {
	value := appendInt(nil, p.Price.Minor)
	return appendTime(appendWord(value, p.Price.Currency), p.ChangedAt)
}

// DecodePrice is the inverse of EncodePrice.
func DecodePrice(value string) (Price, error) {
	f := readFields(value)
	p := Price{Price: money.Money{Minor: f.int(), Currency: f.word()}, ChangedAt: f.time()}
	return p, f.end()
}
