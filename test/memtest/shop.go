package memtest

import (
	"maps"
	"slices"

	"andes/commands/order"
	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
)

// What every shop sells by.
const (
	Partner   = "acme"
	PriceList = "retail"
	Currency  = "GBP"
	UnitPrice = "2.55"
)

// OpenShop makes a store in which the partner can order these SKUs, each at UnitPrice. Stock is at version
// 1 of the WMS.
func OpenShop(t T, onHand map[string]int64) *Store {
	t.Helper()
	s := Open(t)
	s.Do(t, partner.Configure{Partner: partner.State{
		ID: Partner, Name: "Acme", Tier: "gold", Policy: partner.Policy{PriceList: PriceList, Currency: Currency},
	}})
	for _, sku := range slices.Sorted(maps.Keys(onHand)) {
		s.Do(t, product.Report{SKU: sku, Name: "Article " + sku, Segment: "toys", SourceVersion: 1, At: s.Now})
		s.Do(t, price.Report{List: PriceList, SKU: sku, Amount: UnitPrice, Currency: Currency, SourceVersion: 1, At: s.Now})
		s.Do(t, stock.Report{SKU: sku, OnHand: onHand[sku], SourceVersion: 1, At: s.Now})
	}
	return s
}

// Order is the partner's order of these lines.
func Order(id string, lines ...order.RequestedLine) order.Place {
	return order.Place{
		OrderID: id, Partner: Partner, PriceList: PriceList, Currency: Currency, Lines: lines, PaymentToken: "tok_visa",
	}
}

// Line asks for units of a SKU at whatever the price is.
func Line(sku string, quantity int64) order.RequestedLine {
	return order.RequestedLine{SKU: sku, Quantity: quantity}
}
