package tryton_test

import (
	"testing"

	"andes/commands/order"
	"andes/test/trytontest"
)

func TestLevelsAreThoseOfAllWarehouses(t *testing.T) {
	b := open(t)
	b.poll(b.wms.Stock)
	for sku, want := range map[string]int64{"MUG-RED": 150, "MUG-BLUE": 80, "RULER": 0, "T-LIGHT": 1250} {
		if got := b.level(sku); got.OnHand != want || got.SourceVersion == 0 {
			t.Errorf("%s: %+v, not %d", sku, got, want)
		}
	}
	before := len(b.Events("stock.level_reported"))
	b.move("MUG-RED", 20, "supplier")
	b.poll(b.wms.Stock)
	b.poll(b.wms.Stock)
	if got := b.level("MUG-RED").OnHand; got != 170 {
		t.Errorf("20 mugs arrived and there are %d", got)
	}
	if after := len(b.Events("stock.level_reported")); after != before+1 {
		t.Errorf("one move made %d events", after-before)
	}

	b.openWMS("NORTH")
	b.compareAll(b.wms.Stock)
	if got := b.level("MUG-RED").OnHand; got != 30 {
		t.Errorf("30 mugs are in the north, not %d", got)
	}
}

// move brings units from a location of the type into the first warehouse.
func (b *bench) move(sku string, quantity int64, from string) {
	b.T.Helper()
	var houses []struct {
		Storage int64 `json:"storage_location"`
	}
	b.tryton.Call(&houses, "model.stock.location.search_read", []any{[]any{"code", "=", "WH"}}, 0, 1, nil, []string{"storage_location"})
	if len(houses) == 0 {
		b.tryton.Call(&houses, "model.stock.location.search_read", []any{[]any{"type", "=", "warehouse"}}, 0, 1, []any{[]any{"id", "ASC"}}, []string{"storage_location"})
	}
	var unit []struct {
		ID int64 `json:"default_uom"`
	}
	b.tryton.Call(&unit, "model.product.product.read", []int64{b.variant(sku)}, []string{"default_uom"})
	id := b.tryton.Create("stock.move", map[string]any{
		"company": trytontest.Company, "product": b.variant(sku), "uom": unit[0].ID, "quantity": quantity,
		"from_location": b.location(from), "to_location": houses[0].Storage,
		"unit_price": trytontest.Decimal("1.0"), "currency": b.tryton.Find("currency.currency", "code", "GBP"),
	})
	b.tryton.Call(nil, "model.stock.move.do", []int64{id})
}

func (b *bench) location(kind string) int64 {
	b.T.Helper()
	return b.tryton.Find("stock.location", "type", kind)
}

func TestAnOrderIsSoldShippedAndDelivered(t *testing.T) {
	b := open(t)
	b.poll(b.erp.Products, b.erp.Prices, b.wms.Stock, b.wms.Shipments)
	command := b.order("order-1", "MUG-RED", 5)
	for range 2 { // delivered twice
		if err := b.oms.Handle(t.Context(), command); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.Order("order-1"); got.OMSSync != order.OMSRegistered || got.OMSID == "" {
		t.Fatalf("the order is %+v", got)
	}
	sale := b.sale("order-1")
	b.want("the sale", sale.State, "processing")
	b.want("its amount", sale.Amount.Decimal, "24.75")

	b.poll(b.wms.Shipments, b.wms.Stock)
	b.want("the order", string(b.Order("order-1").Status), string(order.Confirmed))
	if got := b.level("MUG-RED"); got.OnHand != 150 || got.Reserved != 5 || got.Net() != 145 {
		t.Errorf("before the shipment: %+v", got)
	}
	b.ship(sale.Shipments...)
	b.poll(b.wms.Shipments)
	if got := b.level("MUG-RED"); got.OnHand != 145 || got.Reserved != 0 || got.Net() != 145 {
		t.Errorf("after the shipment: %+v", got)
	}
	b.want("the order", string(b.Order("order-1").Status), string(order.Delivered))
	b.poll(b.wms.Stock, b.wms.Shipments)
	if got := b.level("MUG-RED"); got.Net() != 145 {
		t.Errorf("at the end: %+v", got)
	}
	if len(b.rejects) > 0 {
		t.Errorf("rejected: %v", b.rejects)
	}
}

type sale struct {
	ID        int64   `json:"id"`
	State     string  `json:"state"`
	Shipments []int64 `json:"shipments"`
	Amount    struct {
		Decimal string `json:"decimal"`
	} `json:"untaxed_amount"`
}

// sale is the one of the order.
func (b *bench) sale(orderID string) sale {
	b.T.Helper()
	var found []sale
	b.tryton.Call(&found, "model.sale.sale.search_read", []any{[]any{"reference", "=", orderID}}, 0, 9, nil, []string{"state", "shipments", "untaxed_amount"})
	if len(found) != 1 {
		b.T.Fatalf("the order has %d sales: %+v", len(found), found)
	}
	return found[0]
}

// ship is what the warehouse does with shipments.
func (b *bench) ship(ids ...int64) {
	b.T.Helper()
	for _, method := range []string{"assign_try", "pick", "pack", "done"} {
		b.tryton.Call(nil, "model.stock.shipment.out."+method, ids)
	}
}

func TestAnOrderThatIsShippedInPartsLeavesWithTheLast(t *testing.T) {
	b := open(t)
	b.poll(b.erp.Products, b.erp.Prices, b.wms.Stock, b.wms.Shipments)
	if err := b.oms.Handle(t.Context(), b.order("order-1", "MUG-RED", 5)); err != nil {
		t.Fatal(err)
	}
	first := b.sale("order-1").Shipments[0]
	var shipments []struct {
		Moves []int64 `json:"outgoing_moves"`
	}
	b.tryton.Call(&shipments, "model.stock.shipment.out.read", []int64{first}, []string{"outgoing_moves"})
	b.tryton.Write("stock.move", shipments[0].Moves[0], map[string]any{"quantity": 2})
	b.tryton.Call(nil, "model.stock.shipment.out.wait", []int64{first})
	b.ship(first)
	b.poll(b.wms.Shipments, b.wms.Stock)
	b.want("the order", string(b.Order("order-1").Status), string(order.Confirmed))

	rest := b.sale("order-1").Shipments
	if len(rest) != 2 {
		t.Fatalf("the shipments are %v", rest)
	}
	b.ship(rest[0] + rest[1] - first)
	b.poll(b.wms.Shipments, b.wms.Stock)
	b.want("the order", string(b.Order("order-1").Status), string(order.Delivered))
	if got := b.level("MUG-RED"); got.OnHand != 145 || got.Net() != 145 {
		t.Errorf("at the end: %+v", got)
	}
}

func TestSalesOfOthersAreLeftAlone(t *testing.T) {
	b := open(t)
	b.poll(b.erp.Products, b.erp.Prices, b.wms.Stock, b.wms.Shipments)
	id := b.quotation("PO 4711", "CLOCK")
	for _, method := range []string{"quote", "confirm"} {
		b.tryton.Call(nil, "model.sale.sale."+method, []int64{id})
	}
	b.ship(b.sale("PO 4711").Shipments...)
	b.poll(b.wms.Shipments, b.wms.Stock)
	if got := b.level("CLOCK").OnHand; got != 247 || len(b.rejects) > 0 {
		t.Errorf("%d clocks, rejected: %v", got, b.rejects)
	}
}
