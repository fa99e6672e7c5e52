package httpapi

import "andes/queries"

// stockLists writes what is known of SKUs' stock, and which are not known.
func (p *page) stockLists(answers []queries.StockAnswer, notFound []string) {
	p.literal(`{"items":[`)
	for i, line := range answers {
		if i > 0 {
			p.literal(",")
		}
		p.literal(`{"sku":`)
		p.quoted(line.SKU)
		p.literal(`,"available":`)
		p.number(line.Available)
		p.freshness(line.AsOf, line.Stale)
	}
	p.literal("]")
	p.list("notFound", notFound)
	p.literal("}")
}

// priceLists writes what is known of SKUs' prices, and which have none.
func (p *page) priceLists(answers []queries.PriceAnswer, notFound []string) {
	p.literal(`{"items":[`)
	for i, line := range answers {
		if i > 0 {
			p.literal(",")
		}
		p.literal(`{"sku":`)
		p.quoted(line.SKU)
		p.literal(`,"price":`)
		p.money(line.Price)
		p.literal(`,"listPrice":`)
		p.money(line.ListPrice)
		p.literal(`,"currency":"`)
		p.literal(line.Price.Currency)
		p.literal(`"`)
		p.freshness(line.AsOf, line.Stale)
	}
	p.literal("]")
	p.list("notFound", notFound)
	p.literal("}")
}
