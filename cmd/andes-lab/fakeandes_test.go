package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"andes/test/lab/money"
	"andes/test/lab/retail"
	"andes/test/lab/wms"
	"andes/test/lab/world"
)

const fakeSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// faults make the fake platform break its promises, to see that the demo notices.
type faults struct {
	chargeTwice   bool
	registerTwice bool
	forget        bool // acknowledges every tenth order and loses it
	wrongSecret   bool // of partner webhooks
	crash         bool // answers 500 once in a while
	oversell      bool // reserves nothing
	acceptOdd     bool
}

// fakeAndes keeps the contract of the partner API in memory, with nothing of
// the product in it: it lets the demo be tested by itself.
type fakeAndes struct {
	t      *testing.T
	faults faults
	world  *world.World
	server *httptest.Server
	stop   context.CancelFunc
	tasks  sync.WaitGroup

	mu       sync.Mutex
	orders   map[string]*fakeOrder
	byKey    map[string]string // idempotency key -> order id
	reserved map[string]int64
	calls    int
}

type fakeOrder struct {
	ID, Key, Status, Reason, OMSSync, Total string
	Lines                                   []orderLine
	seq                                     int
}

func newFakeAndes(t *testing.T, w *world.World, f faults) *fakeAndes {
	t.Helper()
	a := &fakeAndes{t: t, faults: f, world: w, orders: map[string]*fakeOrder{}, byKey: map[string]string{}, reserved: map[string]int64{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /dev/token", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]string{"access_token": "t"}) })
	mux.HandleFunc("PUT /ops/partners/{id}", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]string{}) })
	mux.HandleFunc("GET /v1/subscriptions", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]any{"items": []any{}}) })
	mux.HandleFunc("POST /v1/subscriptions", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 201, map[string]string{"id": "s", "secret": fakeSecret})
	})
	mux.HandleFunc("GET /v1/stock", a.getStock)
	mux.HandleFunc("GET /v1/prices", a.getPrices)
	mux.HandleFunc("POST /v1/orders", a.postOrder)
	mux.HandleFunc("GET /v1/orders/{id}", a.getOrder)
	mux.HandleFunc("POST /v1/orders/{id}/cancel", a.postCancel)
	mux.HandleFunc("POST "+gatewayWebhookPath, a.paymentWebhook)
	a.server = httptest.NewServer(mux)
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	a.tasks.Go(func() { a.followShipments(ctx) })
	return a
}

func (a *fakeAndes) close() {
	a.server.Close()
	a.stop()
	a.tasks.Wait()
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (a *fakeAndes) getStock(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	items, notFound := []any{}, []string{}
	for _, sku := range r.URL.Query()["sku"] {
		if n, ok := a.world.WMS.OnHand(sku); ok {
			items = append(items, map[string]any{"sku": sku, "available": max(0, n-a.reserved[sku]), "stale": false})
		} else {
			notFound = append(notFound, sku)
		}
	}
	reply(w, 200, map[string]any{"items": items, "notFound": notFound})
}

// price is the ERP's, if it can be sold at.
func (a *fakeAndes) price(sku string) (string, bool) {
	answer, err := newCaller(a.world.URLs.ERP, "").call(context.Background(), http.MethodGet, "/prices/retail/"+strings.ReplaceAll(sku, " ", "%20"), nil)
	var p retail.CataloguePrice
	if err != nil || answer.status != 200 || json.Unmarshal(answer.body, &p) != nil || !p.Valid() {
		return "", false
	}
	return p.Amount, true
}

func (a *fakeAndes) getPrices(w http.ResponseWriter, r *http.Request) {
	items, notFound := []any{}, []string{}
	for _, sku := range r.URL.Query()["sku"] {
		if p, ok := a.price(sku); ok {
			items = append(items, map[string]any{"sku": sku, "price": p, "currency": "GBP"})
		} else {
			notFound = append(notFound, sku)
		}
	}
	reply(w, 200, map[string]any{"items": items, "notFound": notFound})
}

func refuseWith(w http.ResponseWriter, status int, code string) {
	reply(w, status, map[string]any{"code": code, "detail": "the fake refuses"})
}

func (a *fakeAndes) postOrder(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Lines   []orderLine `json:"lines"`
		Payment struct {
			Token string `json:"token"`
		} `json:"payment"`
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		refuseWith(w, 400, "BODY_INVALID")
		return
	}
	var total money.Amount
	for _, line := range body.Lines {
		price, known := a.price(line.SKU)
		if (!known || line.Quantity < 1 || line.UnitPrice.Amount != price) && !a.faults.acceptOdd {
			refuseWith(w, 422, "ORDER_INVALID")
			return
		}
		amount, _ := money.Parse(line.UnitPrice.Amount)
		total += amount.Times(line.Quantity)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls++
	if a.faults.crash && a.calls%20 == 0 {
		refuseWith(w, 500, "INTERNAL")
		return
	}
	key := r.Header.Get("Idempotency-Key")
	if id, again := a.byKey[key]; again {
		a.show(w, 202, a.orders[id])
		return
	}
	if !a.reserve(body.Lines) {
		refuseWith(w, 409, "INSUFFICIENT_STOCK")
		return
	}
	o := &fakeOrder{ID: fmt.Sprintf("o-%s-%d", key, a.calls), Key: key, Status: "PENDING_PAYMENT", Total: total.String(), Lines: body.Lines}
	a.byKey[key] = o.ID
	a.orders[o.ID] = o
	a.tell(o, "order.placed")
	token := body.Payment.Token
	if strings.HasPrefix(token, "tok_silent") {
		token = "tok_visa" // this fake never asks the gateway
	}
	a.later(func() { a.chargeOrder(o, token) })
	a.show(w, 202, o)
	if a.faults.forget && a.calls%10 == 0 {
		delete(a.orders, o.ID)
	}
}

func (a *fakeAndes) show(w http.ResponseWriter, status int, o *fakeOrder) {
	reply(w, status, map[string]any{
		"orderId": o.ID, "status": o.Status, "reason": o.Reason, "omsSync": o.OMSSync,
		"total": map[string]string{"amount": o.Total, "currency": "GBP"},
	})
}

func (a *fakeAndes) reserve(lines []orderLine) bool {
	need := map[string]int64{}
	for _, line := range lines {
		need[line.SKU] += line.Quantity
	}
	for sku, n := range need {
		if onHand, _ := a.world.WMS.OnHand(sku); onHand-a.reserved[sku] < n {
			return false
		}
	}
	a.hold(lines, 1)
	return true
}

func (a *fakeAndes) hold(lines []orderLine, sign int64) {
	if a.faults.oversell {
		return
	}
	for _, line := range lines {
		a.reserved[line.SKU] += sign * line.Quantity
	}
}

func (a *fakeAndes) later(work func()) { a.tasks.Go(work) }

func (a *fakeAndes) chargeOrder(o *fakeOrder, token string) {
	keys := []string{"charge:" + o.ID}
	if a.faults.chargeTwice {
		keys = append(keys, "again:"+o.ID)
	}
	for _, key := range keys {
		body := map[string]string{"orderId": o.ID, "amount": o.Total, "currency": "GBP", "token": token}
		_, _ = newCaller(a.world.URLs.Payment, "").call(context.Background(), http.MethodPost, "/charges", body, "Idempotency-Key", key)
	}
}

func (a *fakeAndes) paymentWebhook(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Type string `json:"type"`
		Data struct {
			OrderID  string `json:"orderId"`
			ChargeID string `json:"chargeId"`
		} `json:"data"`
	}
	_ = json.NewDecoder(r.Body).Decode(&body)
	w.WriteHeader(204)
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.orders[body.Data.OrderID]
	switch {
	case o == nil:
	case body.Type == "charge.approved" && o.Status == "PENDING_PAYMENT":
		o.Status, o.OMSSync = "CONFIRMED", "registered"
		a.tell(o, "payment.approved")
		a.tell(o, "order.confirmed")
		a.later(func() { a.register(o) })
	case body.Type == "charge.approved" && o.Status == stateCancelled:
		a.later(func() { a.refund(o, body.Data.ChargeID) })
	case body.Type == "charge.rejected" && o.Status == "PENDING_PAYMENT":
		a.end(o, "PAYMENT_REJECTED")
	}
}

func (a *fakeAndes) refund(o *fakeOrder, charge string) {
	body := map[string]string{"chargeId": charge, "orderId": o.ID, "amount": o.Total, "currency": "GBP"}
	_, _ = newCaller(a.world.URLs.Payment, "").call(context.Background(), http.MethodPost, "/refunds", body, "Idempotency-Key", "refund:"+charge)
}

func (a *fakeAndes) end(o *fakeOrder, reason string) {
	o.Status, o.Reason = stateCancelled, reason
	a.hold(o.Lines, -1)
	a.tell(o, "order.cancelled")
}

func (a *fakeAndes) register(o *fakeOrder) {
	lines := []map[string]any{}
	for _, line := range o.Lines {
		lines = append(lines, map[string]any{"sku": line.SKU, "quantity": line.Quantity, "unitPrice": line.UnitPrice.Amount})
	}
	body := map[string]any{"ref": o.ID, "partner": "demo", "currency": "GBP", "total": o.Total, "lines": lines}
	times := 1
	if a.faults.registerTwice {
		times = 2
	}
	for range times {
		_, _ = newCaller(a.world.URLs.OMS, "").call(context.Background(), http.MethodPost, "/orders", body)
	}
}

func (a *fakeAndes) followShipments(ctx context.Context) {
	after := int64(0)
	for sleep(ctx, 5*time.Millisecond) {
		events, err := all(ctx, newCaller(a.world.URLs.WMS, ""), "/shipment-events", after, func(e wms.Event) int64 { return e.Seq })
		if err != nil {
			continue
		}
		a.mu.Lock()
		for _, e := range events {
			after = e.Seq
			o := a.orders[e.OrderRef]
			if o == nil {
				continue
			}
			if e.Type == wms.DispatchStarted {
				o.Status = "DISPATCHED"
				a.hold(o.Lines, -1)
				a.tell(o, "order.dispatched")
			} else {
				o.Status = stateDelivered
				a.tell(o, "order.delivered")
			}
		}
		a.mu.Unlock()
	}
}

func (a *fakeAndes) getOrder(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o := a.orders[r.PathValue("id")]; o != nil {
		a.show(w, 200, o)
		return
	}
	refuseWith(w, 404, "NOT_FOUND")
}

func (a *fakeAndes) postCancel(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.orders[r.PathValue("id")]
	switch {
	case o == nil:
		refuseWith(w, 404, "NOT_FOUND")
	case o.Status == "PENDING_PAYMENT":
		a.end(o, "CANCELLED_BY_PARTNER")
		a.show(w, 200, o)
	case o.Status == stateCancelled:
		a.show(w, 200, o)
	default:
		refuseWith(w, 409, "ORDER_NOT_CANCELLABLE")
	}
}

// tell sends a partner webhook; the caller holds the lock, the sending does not.
func (a *fakeAndes) tell(o *fakeOrder, kind string) {
	o.seq++
	body, _ := json.Marshal(map[string]any{"type": kind, "data": map[string]any{"orderId": o.ID}})
	id := fmt.Sprintf("msg-%s-%d", o.ID, o.seq)
	secret := fakeSecret
	if a.faults.wrongSecret {
		secret = "whsec_b3RoZXIgc2VjcmV0IG9mIHRoaXMgdGVzdA=="
	}
	a.later(func() {
		signer, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return
		}
		now := time.Now()
		signature, _ := signer.Sign(id, now, body)
		req, _ := http.NewRequest(http.MethodPost, a.world.URLs.Receiver+"/webhooks", bytes.NewReader(body))
		req.Header.Set("webhook-id", id)
		req.Header.Set("webhook-timestamp", fmt.Sprint(now.Unix()))
		req.Header.Set("webhook-signature", signature)
		if resp, err := (&http.Client{Transport: transport}).Do(req); err == nil {
			_ = resp.Body.Close()
		}
	})
}
