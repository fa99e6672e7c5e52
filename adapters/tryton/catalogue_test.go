package tryton_test

import (
	"testing"

	"andes/test/trytontest"
)

func TestACatalogueIsReadOnceAndThenFollowed(t *testing.T) {
	b := open(t)
	b.poll(b.erp.Products)
	b.poll(b.erp.Prices)
	if n := len(b.Events("product.described")); n != 12 {
		t.Errorf("%d of 12 products were described", n)
	}
	if got := b.product("MUG-RED"); got.Name != "Mug, red" || got.Attributes["unit"] != "u" {
		t.Errorf("the mug is %+v", got)
	}
	for _, want := range []struct{ list, sku, price string }{
		{"retail", "MUG-RED", "4.95 GBP"},
		{"trade", "MUG-RED", "4.46 GBP"},  // 4.455: half to even
		{"outlet", "MUG-RED", "3.71 GBP"}, // 3.7125
		{"retail", "LANTERN", "12.50 GBP"},
		{"trade", "LANTERN", "11.25 GBP"},
	} {
		if got := b.price(want.list, want.sku); got != want.price {
			t.Errorf("%s costs %q on %s, not %s", want.sku, got, want.list, want.price)
		}
	}
	before := len(b.Events("price.set")) + len(b.Events("product.described"))

	b.tryton.Write("product.template", b.template("MUG-RED"), map[string]any{"list_price": trytontest.Decimal("5.5000"), "name": "Mug, crimson"})
	b.poll(b.erp.Products)
	b.poll(b.erp.Prices)
	if got := b.product("MUG-RED").Name; got != "Mug, crimson" {
		t.Errorf("the mug is called %q", got)
	}
	if got := b.price("retail", "MUG-RED"); got != "5.50 GBP" {
		t.Errorf("the mug costs %s", got)
	}
	if got := b.price("trade", "MUG-RED"); got != "4.95 GBP" {
		t.Errorf("the mug costs %s on the price list", got)
	}
	if after := len(b.Events("price.set")) + len(b.Events("product.described")); after != before+4 {
		t.Errorf("%d events of one product with three prices", after-before)
	}
	if len(b.rejects) > 0 {
		t.Errorf("rejected: %v", b.rejects)
	}
}
