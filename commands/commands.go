// Package commands lists the write side's aggregates. A new event is one file in its aggregate; a new
// aggregate is one package and one line here.
package commands

import (
	"andes/commands/order"
	"andes/commands/partner"
	"andes/commands/payment"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/reservation"
	"andes/commands/source"
	"andes/commands/stock"
	"andes/commands/subscription"
	"andes/eventstore"
)

// All lists every aggregate of the write side.
func All() []eventstore.Kind {
	return []eventstore.Kind{
		order.Aggregate,
		reservation.Aggregate,
		payment.Aggregate,
		stock.Aggregate,
		price.Aggregate,
		price.Lists,
		product.Aggregate,
		partner.Aggregate,
		subscription.Aggregate,
		source.Aggregate,
	}
}
