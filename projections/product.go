package projections

import (
	"maps"
	"slices"
	"time"

	"andes/commands/product"
)

// Product is what the read model keeps of a product.
type Product struct {
	SKU        string
	Name       string
	Segment    string
	Attributes map[string]string
	ChangedAt  time.Time
}

// Products is the read model of products, by SKU. A removed product is not shown.
var Products = On("product", product.Aggregate, func(s product.State) []byte {
	if s.Removed {
		return nil
	}
	return EncodeProduct(Product{SKU: s.SKU, Name: s.Name, Segment: s.Segment, Attributes: s.Attributes, ChangedAt: s.ChangedAt})
})

// ProductKey is the key of a product.
func ProductKey(sku string) string { return key(Products.Name, sku) }

// EncodeProduct gives "changedAt sku name segment" and then the attributes' names and values, sorted by
// name, so that equal products have equal values. All but the time are texts with their lengths.
func EncodeProduct(p Product) []byte {
	value := appendTime(nil, p.ChangedAt)
	value = appendText(appendText(appendText(value, p.SKU), p.Name), p.Segment)
	for _, name := range slices.Sorted(maps.Keys(p.Attributes)) {
		value = appendText(appendText(value, name), p.Attributes[name])
	}
	return value
}

// DecodeProduct is the inverse of EncodeProduct. A product without attributes has a nil map.
func DecodeProduct(value string) (Product, error) {
	f := readFields(value)
	p := Product{ChangedAt: f.time(), SKU: f.text(), Name: f.text(), Segment: f.text()}
	for f.more() {
		if p.Attributes == nil {
			p.Attributes = map[string]string{}
		}
		name := f.text()
		p.Attributes[name] = f.text()
	}
	return p, f.end()
}
