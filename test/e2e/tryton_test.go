package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"andes/test/lab/gateway"
	"andes/test/trytontest"
)

// What the template's Tryton has of one product, in both of its warehouses.
const (
	candle       = "T-LIGHT"
	candles      = 1250
	candlesPrice = "2.55"
)

// onTryton starts a scene whose ERP, WMS and OMS are a real Tryton. The OMS is reached by another address when
// one is given.
func onTryton(t *testing.T, tryton *trytontest.Server, oms string) *scene {
	t.Helper()
	// The partner has to be known there, too.
	address := map[string]any{"street": "3 Example Street", "city": "Exampleton", "invoice": true, "delivery": true}
	tryton.Create("party.party", map[string]any{"name": "Channel acme", "code": "acme", "addresses": []any{[]any{"create", []any{address}}}})
	return start(t, options{
		gateway: gateway.Knobs{DecideDelayMs: 20}, stock: map[string]int64{candle: candles}, tryton: tryton,
		settings: map[string]string{
			"ERP_KIND": "tryton", "WMS_KIND": "tryton", "OMS_KIND": "tryton",
			"ERP_URL": tryton.URL, "WMS_URL": tryton.URL, "OMS_URL": oms,
			"TRYTON_DATABASE": tryton.Database, "TRYTON_USER": trytontest.User, "TRYTON_PASSWORD": trytontest.Password,
			// A Tryton that shares its cores with these tests may take long.
			"CALL_TIMEOUT": "10s", "ERP_POLL": "500ms", "WMS_POLL": "500ms",
		},
	})
}

// sold is a sale as Tryton has it.
type sold struct {
	ID        int64   `json:"id"`
	State     string  `json:"state"`
	Shipments []int64 `json:"shipments"`
	Amount    struct {
		Decimal string `json:"decimal"`
	} `json:"untaxed_amount"`
}

// sales of an order; of those that were made at once all but one are cancelled.
func sales(tryton *trytontest.Server, orderID string) (found []sold) {
	tryton.Call(&found, "model.sale.sale.search_read", []any{[]any{"reference", "=", orderID}}, 0, 9, nil, []string{"state", "shipments", "untaxed_amount"})
	return found
}

// awaitSale waits until the order is one sale in Tryton, and gives it.
func (s *scene) awaitSale(orderID string) sold {
	s.t.Helper()
	s.eventually("order "+orderID+" is registered", func() error {
		order, err := s.partner.get(orderID)
		if err == nil && order.OMSSync != "registered" {
			err = fmt.Errorf("it is %s, %s", order.Status, order.OMSSync)
		}
		return err
	})
	found := sales(s.tryton, orderID)
	if len(found) != 1 || found[0].State != "processing" {
		s.t.Fatalf("the sales of %s are %+v", orderID, found)
	}
	return found[0]
}

// ship is what people in the warehouse do with a sale.
func (s *scene) ship(sale sold) {
	s.t.Helper()
	for _, step := range []string{"assign_try", "pick", "pack", "done"} {
		s.tryton.Call(nil, "model.stock.shipment.out."+step, sale.Shipments)
	}
}

// receive books goods in.
func (s *scene) receive(sku string, units int) {
	s.t.Helper()
	var houses []struct {
		Storage int64 `json:"storage_location"`
	}
	s.tryton.Call(&houses, "model.stock.location.search_read", []any{[]any{"type", "=", "warehouse"}}, 0, 1, []any{[]any{"id", "ASC"}}, []string{"storage_location"})
	move := s.tryton.Create("stock.move", map[string]any{
		"company": trytontest.Company, "product": s.tryton.Find("product.product", "code", sku), "uom": s.tryton.Find("product.uom", "symbol", "u"),
		"quantity": units, "from_location": s.tryton.Find("stock.location", "type", "supplier"), "to_location": houses[0].Storage,
		"unit_price": trytontest.Decimal("1.0"), "currency": s.tryton.Find("currency.currency", "code", "GBP"),
	})
	s.tryton.Call(nil, "model.stock.move.do", []int64{move})
}

func (c *client) awaitPrice(sku, want string) {
	c.scene.t.Helper()
	c.scene.eventually(fmt.Sprintf("%s costs %s", sku, want), func() error {
		got, err := c.do(http.MethodGet, "/v1/prices?sku="+url.QueryEscape(sku), nil)
		if err == nil && !bytes.Contains(got.body, []byte(`"price":{"amount":"`+want+`"`)) {
			err = fmt.Errorf("%d %s", got.status, got.body)
		}
		return err
	})
}

func TestARealERPIsReadFromSoldByAndShipsFrom(t *testing.T) {
	tryton := trytontest.Open(t)
	s := onTryton(t, tryton, tryton.URL)
	s.partner.awaitPrice(candle, candlesPrice)
	s.receive(candle, 10)
	s.partner.awaitAvailable(candle, candles+10)

	delivered := s.partner.order("tok_visa", line{candle, 4})
	cancelled := s.partner.order("tok_visa", line{candle, 7})
	sale := s.awaitSale(delivered.OrderID)
	if sale.Amount.Decimal != "10.20" {
		t.Errorf("the sale's amount is %s", sale.Amount.Decimal)
	}
	s.awaitSale(cancelled.OrderID)
	s.partner.awaitAvailable(candle, candles+10-4-7)

	s.ship(sale)
	if got, err := s.partner.do(http.MethodPost, "/v1/orders/"+cancelled.OrderID+"/cancel", nil); err != nil || got.status/100 != 2 {
		t.Fatalf("cancel: %d %s %v", got.status, got.body, err)
	}
	s.partner.await(delivered.OrderID, "DELIVERED")
	if got := s.partner.await(cancelled.OrderID, "CANCELLED"); got.Reason != "CANCELLED_BY_PARTNER" {
		t.Errorf("%+v", got)
	}
	// What was shipped is off once, what was not is back.
	s.partner.awaitAvailable(candle, candles+10-4)
	s.awaitRefund(cancelled.OrderID)
	s.tells(delivered.OrderID, story...)
	if found := sales(tryton, cancelled.OrderID); len(found) != 1 || found[0].State == "processing" {
		t.Errorf("the sales of the cancelled order are %+v", found)
	}

	tryton.Write("product.template", tryton.Find("product.template", "code", candle), map[string]any{"list_price": trytontest.Decimal("2.75")})
	s.partner.awaitPrice(candle, "2.75")
}

// cutter is a proxy before Tryton that loses the first answer to a method: the work is done, nobody is told.
type cutter struct {
	method string
	to     http.Handler
	lost   atomic.Bool
}

func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !strings.Contains(string(body), c.method) || !c.lost.CompareAndSwap(false, true) {
		c.to.ServeHTTP(w, r)
		return
	}
	c.to.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler) // the connection is cut
}

func TestAnAnswerOfARealERPThatIsLostMakesNoSecondSale(t *testing.T) {
	tryton := trytontest.Open(t)
	target, err := url.Parse(tryton.URL)
	if err != nil {
		t.Fatal(err)
	}
	own := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(own.CloseIdleConnections)
	cut := &cutter{
		method: "model.sale.sale.create",
		to:     &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: own},
	}
	before := httptest.NewServer(cut)
	t.Cleanup(before.Close)
	s := onTryton(t, tryton, before.URL)
	orders := []placed{s.partner.order("tok_visa", line{candle, 1}), s.partner.order("tok_visa", line{candle, 2})}
	for _, order := range orders {
		s.ship(s.awaitSale(order.OrderID))
	}
	for _, order := range orders {
		s.partner.await(order.OrderID, "DELIVERED")
	}
	if !cut.lost.Load() {
		t.Error("no answer was lost")
	}
	s.partner.awaitAvailable(candle, candles-3)
}

// registrations of an order: in the simulated OMS, or as sales that stand in Tryton, and those that stood.
func (s *scene) registrations(orderID string) int {
	if s.tryton == nil {
		return s.lab.OMS.Registrations(orderID)
	}
	return len(sales(s.tryton, orderID))
}

// checkTryton finds sales that are of no order.
func (s *scene) checkTryton() {
	s.t.Helper()
	if s.tryton == nil {
		return
	}
	const most = 1000
	var found []struct {
		Reference string `json:"reference"`
	}
	s.tryton.Call(&found, "model.sale.sale.search_read", []any{}, 0, most, nil, []string{"reference"})
	orders := s.orders()
	for _, sale := range found {
		if _, known := orders[sale.Reference]; !known {
			s.t.Errorf("a sale in Tryton is of no order: %q", sale.Reference)
		}
	}
}
