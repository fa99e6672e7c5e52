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
	DoubtedAt time.Time // since when it may be wrong, as the ERP replaced it by what can't be used; zero: it is not doubted
}

// Prices is the read model of prices, by price list and SKU. A removed price is not shown, nor is that of a
// product that is sold no more.
var Prices = On("price", price.Aggregate, func(s price.State) []byte {
	if !s.Shown() {
		return nil
	}
	return EncodePrice(Price{Price: s.Price, ChangedAt: s.ChangedAt, DoubtedAt: s.Doubt.At})
})

// PriceKey is the key of a SKU's price on a list.
func PriceKey(list, sku string) string { return key(Prices.Name, price.Key(list, sku)) }

// EncodePrice gives "minor currency changedAt", and doubtedAt if there is one.
func EncodePrice(p Price) []byte {
	value := appendInt(nil, p.Price.Minor)
	return appendDoubt(appendTime(appendWord(value, p.Price.Currency), p.ChangedAt), p.DoubtedAt)
}

// DecodePrice is the inverse of EncodePrice.
func DecodePrice(value string) (Price, error) {
	f := readFields(value)
	p := Price{Price: money.Money{Minor: f.int(), Currency: f.word()}, ChangedAt: f.time(), DoubtedAt: f.doubt()}
	return p, f.end()
}
