package tryton_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"andes/adapters/oms"
	"andes/adapters/tryton"
	"andes/commands/order"
	"andes/eventstore"
	"andes/test/trytontest"
)

// selling opens a bench that knows what is sold.
func selling(t *testing.T) *bench {
	t.Helper()
	b := open(t)
	b.poll(b.erp.Products, b.erp.Prices, b.wms.Stock, b.wms.Shipments)
	return b
}

func (b *bench) requested(record eventstore.Record) order.RegistrationRequested {
	b.T.Helper()
	event, err := b.Registry.Decode(record)
	if err != nil {
		b.T.Fatal(err)
	}
	return event.(order.RegistrationRequested)
}

func (b *bench) handle(record eventstore.Record) {
	b.T.Helper()
	if err := b.oms.Handle(b.T.Context(), record); err != nil {
		b.T.Fatal(err)
	}
}

func TestASaleThatWasLeftHalfWayIsTakenOn(t *testing.T) {
	b := selling(t)
	request := b.requested(b.order("order-1", "CLOCK", 3))
	b.quotation("order-1", "CLOCK")
	number, err := b.sales.Post(t.Context(), request)
	if err != nil || number == "" {
		t.Fatalf("%q, %v", number, err)
	}
	b.want("the sale", b.sale("order-1").State, "processing")
	again, err := b.sales.Find(t.Context(), "order-1")
	b.want("its number", again, number)
	if err != nil {
		t.Error(err)
	}
}

// quotation makes a sale as a process does that ends right after.
func (b *bench) quotation(orderID, sku string) int64 {
	b.T.Helper()
	party := b.tryton.Find("party.party", "code", "demo")
	address := b.tryton.Find("party.address", "party", party)
	var ids []int64
	b.tryton.Call(&ids, "model.stock.location.search", []any{[]any{"type", "=", "warehouse"}}, 0, 1, nil)
	return b.tryton.Create("sale.sale", map[string]any{
		"reference": orderID, "party": party, "invoice_address": address, "shipment_address": address, "warehouse": ids[0],
		"currency": b.tryton.Find("currency.currency", "code", "GBP"), "invoice_method": "manual", "shipment_method": "order",
		"lines": []any{[]any{"create", []any{map[string]any{
			"type": "line", "product": b.variant(sku), "unit": b.tryton.Find("product.uom", "symbol", "u"),
			"quantity": 3, "unit_price": trytontest.Decimal("3.75"),
		}}}},
	})
}

func TestOneSaleIsLeftOfTwoThatWereMadeAtOnce(t *testing.T) {
	b := selling(t)
	request := b.requested(b.order("order-1", "CLOCK", 3))
	// Each has turns of its own, as in two processes.
	var group errgroup.Group
	for range 3 {
		group.Go(func() error {
			_, err := (&tryton.Sales{Client: b.client}).Post(context.Background(), request)
			return err
		})
	}
	first := group.Wait()
	// A conflict may pass for a failure; then the command comes again.
	number, err := b.sales.Post(t.Context(), request)
	if err != nil || number == "" {
		t.Fatalf("%q, %v after %v", number, err, first)
	}
	var found []sale
	b.tryton.Call(&found, "model.sale.sale.search_read",
		[]any{[]any{"reference", "=", "order-1"}, []any{"state", "!=", "cancelled"}}, 0, 9, nil, []string{"state", "shipments", "untaxed_amount"})
	if len(found) != 1 || found[0].State != "processing" {
		t.Errorf("the sales are %+v", found)
	}
}

// losing is a transport that loses the answers to a method.
type losing struct {
	method string
	lost   atomic.Int64
}

func (l *losing) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := request.GetBody()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err == nil && strings.Contains(string(text), l.method) && l.lost.CompareAndSwap(0, 1) {
		_ = response.Body.Close()
		return nil, errors.New("the connection was cut")
	}
	return response, err
}

func TestAnAnswerThatWasLostMakesNoSecondSale(t *testing.T) {
	b := selling(t)
	command := b.order("order-1", "CLOCK", 3)
	cut := &losing{method: "model.sale.sale.create"}
	b.transport = cut
	b.client = b.clientOf(trytontest.Password)
	b.T.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	b.openOMS()
	if err := b.oms.Handle(t.Context(), command); !errors.Is(err, oms.ErrUnsettled) {
		t.Fatalf("%v", err)
	}
	b.handle(command)
	b.want("the sale", b.sale("order-1").State, "processing")
	b.want("the order", string(b.Order("order-1").OMSSync), string(order.OMSRegistered))
}

func TestACancellationIsInTimeUntilTheGoodsArePicked(t *testing.T) {
	b := selling(t)
	for _, c := range []struct {
		id      string
		picked  bool
		want    order.Status
		state   string
		onShelf int64
	}{
		{"order-early", false, order.Cancelled, "done", 200},
		{"order-late", true, order.Delivered, "done", 197},
	} {
		b.handle(b.order(c.id, "CLOCK", 3))
		shipments := b.sale(c.id).Shipments
		if c.picked {
			b.tryton.Call(nil, "model.stock.shipment.out.assign_try", shipments)
			b.tryton.Call(nil, "model.stock.shipment.out.pick", shipments)
		}
		b.Execute(order.Cancel{OrderID: c.id, Reason: order.CancelledByPartner})
		wish := b.Last("order.cancellation_requested")
		for range 2 {
			b.handle(wish)
		}
		if c.picked {
			b.tryton.Call(nil, "model.stock.shipment.out.pack", shipments)
			b.tryton.Call(nil, "model.stock.shipment.out.done", shipments)
		}
		b.poll(b.wms.Shipments, b.wms.Stock)
		b.want(c.id, string(b.Order(c.id).Status), string(c.want))
		b.want("the sale of "+c.id, b.sale(c.id).State, c.state)
		if got := b.level("CLOCK"); got.Net() != c.onShelf+50 {
			t.Errorf("%s: %+v", c.id, got)
		}
	}
	if len(b.rejects) > 0 {
		t.Errorf("rejected: %v", b.rejects)
	}
}

func TestWhatIsNotSetUpIsNoFaultOfTheOrder(t *testing.T) {
	b := selling(t)
	request := b.requested(b.order("order-1", "CLOCK", 3))
	request.Partner = "nobody"
	_, err := b.sales.Post(t.Context(), request)
	if !errors.Is(err, tryton.ErrUnknown) || eventstore.Classify(err) == eventstore.Permanent {
		t.Errorf("a partner without a party: %v", err)
	}
	request = b.requested(b.Last("order.registration_requested"))
	request.Lines[0].SKU = "NOTHING"
	if _, err := b.sales.Post(t.Context(), request); eventstore.Classify(err) != eventstore.Permanent {
		t.Errorf("a product that is not sold: %v", err)
	}
	if number, err := b.sales.Find(t.Context(), "order-1"); number != "" || err != nil {
		t.Errorf("%q, %v", number, err)
	}
}

func TestWhatIsSoldByTheDozenIsCountedAndPricedByThePiece(t *testing.T) {
	b := open(t)
	values := b.newProduct("EGG")
	unit := b.tryton.Find("product.uom", "symbol", "u")
	var units []struct {
		Category int64 `json:"category"`
	}
	b.tryton.Call(&units, "model.product.uom.read", []int64{unit}, []string{"category"})
	values["sale_uom"] = b.tryton.Create("product.uom", map[string]any{
		"name": "Dozen", "symbol": "dz", "category": units[0].Category, "factor": 12.0, "rate": 0.083333333333, "rounding": 1.0, "digits": 0,
	})
	b.tryton.Create("product.template", values)
	b.move("EGG", 24, "supplier")
	b.poll(b.erp.Products, b.erp.Prices, b.wms.Stock)
	b.want("the list price", b.price("retail", "EGG"), "30.00 GBP")
	b.want("the price list's", b.price("trade", "EGG"), "27.00 GBP")
	if got := b.level("EGG").OnHand; got != 24 {
		t.Errorf("%d eggs", got)
	}
	b.handle(b.order("order-1", "EGG", 5))
	b.want("the sale", b.sale("order-1").State, "processing")
	b.want("its amount", b.sale("order-1").Amount.Decimal, "150.00")
}

func TestAConfirmedSaleIsProcessedUnlessItIsToWait(t *testing.T) {
	b := selling(t)
	command := b.order("order-1", "CLOCK", 3)
	b.confirmed("order-1")
	b.handle(command)
	b.want("the sale", b.sale("order-1").State, "processing")

	// A server with a worker of its own keeps to this.
	b.tryton.Write("sale.configuration", 1, map[string]any{"sale_process_after": map[string]any{"__class__": "timedelta", "seconds": 3600}})
	b.openOMS()
	command = b.order("order-2", "CLOCK", 3)
	b.confirmed("order-2")
	b.handle(command)
	b.want("the sale that waits", b.sale("order-2").State, "confirmed")
	b.want("its order", string(b.Order("order-2").OMSSync), string(order.OMSRegistered))
	b.Execute(order.Cancel{OrderID: "order-2", Reason: order.CancelledByPartner})
	b.handle(b.Last("order.cancellation_requested"))
	b.want("the sale that waited", b.sale("order-2").State, "cancelled")
}

// confirmed makes a sale whose processing has failed, or has still to come.
func (b *bench) confirmed(orderID string) {
	b.T.Helper()
	b.tryton.Call(nil, "model.sale.sale.quote", []int64{b.quotation(orderID, "CLOCK")})
	b.tryton.SQL(`UPDATE sale_sale SET state = 'confirmed', sale_date = CURRENT_DATE WHERE reference = $1`, orderID)
}
