package tryton_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"andes/commands/source"
	"andes/test/legacytest"
	"andes/test/trytontest"
)

func TestACatalogueIsReadOnceAndThenFollowed(t *testing.T) {
	b := open(t)
	b.poll(b.erp.Products, b.erp.Prices)
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
		b.want(want.sku+" on "+want.list, b.price(want.list, want.sku), want.price)
	}
	before := b.told()

	b.tryton.Write("product.template", b.template("MUG-RED"), map[string]any{"list_price": trytontest.Decimal("5.5000"), "name": "Mug, crimson"})
	b.tryton.Create("product.template", b.newProduct("KETTLE"))
	b.poll(b.erp.Products, b.erp.Prices)
	b.want("the mug", b.product("MUG-RED").Name, "Mug, crimson")
	b.want("its price", b.price("retail", "MUG-RED"), "5.50 GBP")
	b.want("its price on the price list", b.price("trade", "MUG-RED"), "4.95 GBP")
	b.want("a product that was never written", b.price("retail", "KETTLE"), "30.00 GBP")
	b.poll(b.erp.Products, b.erp.Prices) // the overlap is read again
	if more := b.told() - before; more != 8 {
		t.Errorf("%d events of two products with three prices each", more)
	}
	if len(b.rejects) > 0 {
		t.Errorf("rejected: %v", b.rejects)
	}
}

// told counts what was said of the catalogue.
func (b *bench) told() int {
	return len(b.Events("price.set")) + len(b.Events("price.removed")) + len(b.Events("product.described")) + len(b.Events("product.removed"))
}

func (b *bench) newProduct(code string) map[string]any {
	unit := b.tryton.Find("product.uom", "symbol", "u")
	return map[string]any{
		"name": "Thing", "code": code, "type": "goods", "default_uom": unit, "sale_uom": unit, "salable": true,
		"list_price": trytontest.Decimal("30.0000"), "cost_price_method": "fixed",
		"products": []any{[]any{"create", []any{map[string]any{"cost_price": trytontest.Decimal("1.0")}}}},
	}
}

func TestChangesOfOneMomentAreReadOverPages(t *testing.T) {
	b := open(t)
	b.poll(b.erp.Products)
	var ids []int64
	b.tryton.Call(&ids, "model.product.template.search", []any{}, 0, nil, nil)
	b.tryton.Call(nil, "model.product.template.write", ids, map[string]any{"name": "Renamed"}) // twelve rows, one stamp, pages of five
	b.poll(b.erp.Products)
	for _, sku := range []string{"MUG-RED", "JAM-SET", "SIGN"} {
		b.want(sku, b.product(sku).Name, "Renamed")
	}
	if n := len(b.Events("product.described")); n != 24 {
		t.Errorf("%d descriptions of 12 products with two names", n)
	}
}

func TestATransactionThatCommitsLateIsRead(t *testing.T) {
	b := open(t)
	b.poll(b.erp.Products)
	conn := b.tryton.Connect()
	defer func() { _ = conn.Close(t.Context()) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `UPDATE product_template SET salable = false, write_date = CURRENT_TIMESTAMP WHERE code = 'CLOCK'`); err != nil {
		t.Fatal(err)
	}
	// Another one begins after it and is read before it.
	b.tryton.Write("product.template", b.template("SIGN"), map[string]any{"name": "Soon"})
	b.poll(b.erp.Products)
	b.want("the sign", b.product("SIGN").Name, "Soon")
	if b.product("CLOCK").Removed {
		t.Error("the clock is gone before that is committed")
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.poll(b.erp.Products)
	if !b.product("CLOCK").Removed {
		t.Error("the clock is still sold")
	}
}

func TestWhatIsNotSoldAnyMoreIsRemoved(t *testing.T) {
	b := open(t)
	b.poll(b.erp.Products, b.erp.Prices)
	b.tryton.Write("product.template", b.template("CLOCK"), map[string]any{
		"active": false, "products": []any{[]any{"write", []int64{b.variant("CLOCK")}, map[string]any{"active": false}}},
	})
	b.tryton.Write("product.template", b.template("SIGN"), map[string]any{"salable": false})
	b.poll(b.erp.Products, b.erp.Prices)
	for _, sku := range []string{"CLOCK", "SIGN"} {
		if !b.product(sku).Removed || b.price("retail", sku) != "" || b.price("trade", sku) != "" {
			t.Errorf("%s is still sold", sku)
		}
	}
	b.tryton.Write("product.template", b.template("SIGN"), map[string]any{"salable": true})
	b.tryton.Create("product.template", b.newProduct("CLOCK")) // its successor
	b.poll(b.erp.Products, b.erp.Prices)
	b.want("the sign", b.price("retail", "SIGN"), "2.10 GBP")
	b.want("the new clock", b.price("retail", "CLOCK"), "30.00 GBP")
}

func TestTheComparisonFindsWhatNoStampTells(t *testing.T) {
	b := open(t)
	b.poll(b.erp.Products, b.erp.Prices, b.wms.Stock)
	b.tryton.Write("product.template", b.template("MUG-RED"), map[string]any{"name": "Mug"}) // the overlap ends before the others
	b.poll(b.erp.Products, b.erp.Prices)
	b.tryton.SQL(`DELETE FROM stock_inventory_line WHERE product = (SELECT id FROM product_product WHERE code = 'SIGN')`)
	b.tryton.SQL(`DELETE FROM stock_move WHERE product = (SELECT id FROM product_product WHERE code = 'SIGN')`)
	b.tryton.SQL(`DELETE FROM product_product WHERE code = 'SIGN'`)
	b.tryton.SQL(`UPDATE product_list_price SET list_price = 9 WHERE template = (SELECT id FROM product_template WHERE code = 'CLOCK')`)
	b.tryton.SQL(`UPDATE product_template SET salable = false WHERE code = 'RULER'`)
	b.poll(b.erp.Products, b.erp.Prices, b.wms.Stock)
	b.want("the clock", b.price("retail", "CLOCK"), "3.75 GBP")

	b.compareAll(b.erp.Products, b.erp.Prices, b.wms.Stock)
	b.want("the clock", b.price("retail", "CLOCK"), "9.00 GBP")
	if !b.product("RULER").Removed || !b.product("SIGN").Removed || b.price("trade", "SIGN") != "" || b.level("SIGN").OnHand != 0 {
		t.Errorf("ruler and sign are still there: %+v, %+v, %+v", b.product("RULER"), b.product("SIGN"), b.level("SIGN"))
	}
	before := b.told()
	b.compareAll(b.erp.Products, b.erp.Prices, b.wms.Stock)
	if more := b.told() - before; more != 0 {
		t.Errorf("%d events of a comparison that found nothing", more)
	}
}

func TestAPriceListChangesAllPricesAtOnce(t *testing.T) {
	b := open(t)
	b.poll(b.erp.Prices)
	list := b.tryton.Find("product.price_list", "name", "outlet")
	line := b.tryton.Find("product.price_list.line", "price_list", list)
	b.tryton.Write("product.price_list.line", line, map[string]any{"formula": "unit_price * 0.5"}) // which leaves the list unwritten
	b.poll(b.erp.Prices)
	b.want("the mug", b.price("outlet", "MUG-RED"), "2.48 GBP") // 2.475
	b.want("the sign", b.price("outlet", "SIGN"), "1.05 GBP")
	b.tryton.Write("product.price_list", list, map[string]any{"active": false})
	b.poll(b.erp.Prices)
	if got := b.price("outlet", "MUG-RED") + b.price("outlet", "SIGN"); got != "" {
		t.Errorf("prices of a list that is not used any more: %s", got)
	}
	b.want("the mug", b.price("trade", "MUG-RED"), "4.46 GBP")
}

// refusing is a transport that answers one call with a status that says nothing.
type refusing struct {
	calls atomic.Int64
	which int64
}

func (r *refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	if r.calls.Add(1) == r.which {
		return &http.Response{StatusCode: http.StatusBadRequest, Body: http.NoBody}, nil
	}
	return http.DefaultTransport.RoundTrip(request)
}

func TestAFirstReadingThatIsBrokenOffGoesOn(t *testing.T) {
	b := open(t)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	b.transport = &refusing{which: 10} // login, company twice, the ends of three streams, what the last row is about, five products; then it is refused
	b.client = b.clientOf(trytontest.Password)
	b.openERP()
	if _, err := b.erp.Products.Poll(t.Context()); err == nil {
		t.Fatal("the reading was not broken off")
	}
	read := len(b.Events("product.described"))
	if read == 0 || read == 12 {
		t.Fatalf("%d products were read", read)
	}
	first := legacytest.StateOf(b.Bench, source.Aggregate, source.ERPProducts)
	if first.Cursor != "" || !first.SyncedAt.IsZero() {
		t.Errorf("it counts as read: %+v", first)
	}
	b.tryton.Write("product.template", b.template("MUG-RED"), map[string]any{"name": "Mug, meanwhile"}) // it was read
	b.poll(b.erp.Products)
	b.want("the mug", b.product("MUG-RED").Name, "Mug, meanwhile")
	if n := len(b.Events("product.described")); n != 13 {
		t.Errorf("%d descriptions of 12 products, of which one changed", n)
	}
	if kept := legacytest.StateOf(b.Bench, source.Aggregate, source.ERPProducts); kept.Cursor == "" || kept.SyncedAt.IsZero() {
		t.Errorf("it does not count as read: %+v", kept)
	}
}

func TestACatalogueThatIsGoneRemovesNothing(t *testing.T) {
	b := open(t)
	values := make([]any, 30)
	for i := range values {
		values[i] = b.newProduct("P-" + string(rune('A'+i)))
	}
	b.tryton.Call(nil, "model.product.template.create", values)
	b.poll(b.erp.Products)
	b.tryton.SQL(`UPDATE product_product SET code = NULL`)
	b.now = b.clock().Add(2 * time.Hour)
	failed := false
	for range 12 {
		_, err := b.erp.Products.Poll(t.Context())
		failed = failed || err != nil
	}
	if !failed {
		t.Error("nobody is told")
	}
	if n := len(b.Events("product.removed")); n > 0 {
		t.Errorf("%d products were removed", n)
	}
}
