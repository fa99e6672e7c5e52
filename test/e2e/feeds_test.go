package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"andes/test/lab/erp"
	"andes/test/lab/gateway"
	"andes/test/lab/wms"
)

const feedSecret = "whsec_OTg3NjU0MzIxMDk4NzY1NDMyMTA5ODc2NTQzMjEwOTg="

// shows waits until an answer holds a text.
func (c *client) shows(what, path, text string) {
	c.scene.t.Helper()
	c.scene.eventually(what, func() error {
		got, err := c.do(http.MethodGet, path, nil)
		if err == nil && !strings.Contains(string(got.body), text) {
			err = fmt.Errorf("%s: %d %s", path, got.status, got.body)
		}
		return err
	})
}

// freshness is what an answer tells of a SKU's stock.
func (c *client) freshness(sku string) (asOf time.Time, stale bool, err error) {
	got, err := c.do(http.MethodGet, "/v1/stock?sku="+sku, nil)
	if err != nil {
		return asOf, false, err
	}
	var page struct {
		Items []struct {
			AsOf  time.Time
			Stale bool
		}
	}
	if err := json.Unmarshal(got.body, &page); err != nil || len(page.Items) != 1 {
		return asOf, false, fmt.Errorf("%d %s", got.status, got.body)
	}
	return page.Items[0].AsOf, page.Items[0].Stale, nil
}

// Legacy systems that are hardly ever polled tell of their changes, and what they tell is answered. What they
// tell and can't be used is in operators' list until they put it right.
func TestWhatLegacySystemsTellIsAnswered(t *testing.T) {
	s := start(t, options{stock: map[string]int64{"A": 1000}, settings: map[string]string{
		"WMS_POLL": "1h", "ERP_POLL": "1h", "WMS_FEED_SECRET": feedSecret, "ERP_FEED_SECRET": feedSecret,
	}})
	if err := s.lab.WMS.Turn(func(k *wms.Knobs) {
		k.PushURL, k.PushSecret = "http://"+s.front.address()+"/v1/feeds/wms/changes", feedSecret
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.lab.ERP.Turn(func(k *erp.Knobs) {
		k.PushURL, k.PushSecret = "http://"+s.front.address()+"/v1/feeds/erp/changes", feedSecret
	}); err != nil {
		t.Fatal(err)
	}
	s.secret(strings.TrimPrefix(feedSecret, "whsec_"))
	s.setStock("A", 7)
	price := func(amount string) {
		t.Helper()
		if _, err := s.lab.ERP.SetPrice(erp.Price{PriceList: "retail", SKU: "A", Amount: amount, Currency: "GBP"}); err != nil {
			t.Fatal(err)
		}
	}
	price("3.10")
	s.partner.shows("the pushed price", "/v1/prices?sku=A", `"amount":"3.10"`)
	price("0")
	viewer := s.clientOf("", "ops-viewer")
	viewer.shows("the price that can't be used", "/ops/feeds/erp.prices/rejects", `"code":"PRICE_NOT_POSITIVE"`)
	s.partner.shows("the price before it", "/v1/prices?sku=A", `"amount":"3.10"`)
	price("2.55")
	s.partner.shows("the price put right", "/v1/prices?sku=A", `"amount":"2.55"`)
	viewer.shows("an empty list", "/ops/feeds/erp.prices/rejects", `{"items":[]}`)
}

// What the ERP sells no more is under notFound, stock and price too, can't be ordered, and comes back.
func TestWhatTheERPRemovesIsNotFoundAnyMore(t *testing.T) {
	s := start(t, options{gateway: gateway.Knobs{DecideDelayMs: 20}})
	if _, err := s.lab.ERP.DeleteProduct("B"); err != nil {
		t.Fatal(err)
	}
	s.partner.shows("no stock", "/v1/stock?sku=A,B", `"notFound":["B"]`)
	s.partner.shows("no price", "/v1/prices?sku=A,B", `"notFound":["B"]`)
	s.partner.must(http.StatusNotFound, http.MethodGet, "/v1/products/B", nil, nil)
	body := map[string]any{"currency": "GBP", "lines": []any{map[string]any{"sku": "B", "quantity": 1}}, "payment": map[string]any{"token": "tok_visa"}}
	got, err := s.partner.do(http.MethodPost, "/v1/orders", body, "Idempotency-Key", "k-removed")
	if err != nil || got.status != http.StatusUnprocessableEntity || !strings.Contains(string(got.body), "UNKNOWN_SKU") {
		t.Errorf("%d %s, %v", got.status, got.body, err)
	}
	if _, err := s.lab.ERP.SetProduct(erp.Product{SKU: "B", Name: "Product B", Segment: "gift"}); err != nil {
		t.Fatal(err)
	}
	s.partner.shows("its price", "/v1/prices?sku=B", `"notFound":[]`)
	s.partner.awaitAvailable("B", s.stock["B"])
	s.partner.await(s.partner.order("tok_visa", line{"B", 1}).OrderID, "DELIVERED")
}

// While the warehouse is away asOf stands still, and a restart of Andes moves it neither way; when it is back
// and nothing changed, asOf goes on.
func TestARestartChangesNoFreshness(t *testing.T) {
	s := start(t, options{settings: map[string]string{"STOCK_STALE": "3s"}})
	turn := func(outage bool) {
		t.Helper()
		if err := s.lab.WMS.Turn(func(k *wms.Knobs) { k.Outage = outage }); err != nil {
			t.Fatal(err)
		}
	}
	is := func(what string, want bool) (at time.Time) {
		t.Helper()
		s.eventually(what, func() error {
			asOf, stale, err := s.partner.freshness("A")
			if err == nil && stale != want {
				err = fmt.Errorf("stale is %t, as of %s", stale, asOf)
			}
			at = asOf
			return err
		})
		return at
	}
	is("fresh", false)
	turn(true)
	is("stale", true)
	var last time.Time
	s.eventually("the last watermark is in the read model", func() error {
		synced, err := time.Parse(time.RFC3339Nano, s.texts("SELECT state ->> 'syncedAt' FROM states WHERE category = 'source' AND key = 'wms.stock'")[0])
		if err != nil {
			return err
		}
		asOf, stale, err := s.partner.freshness("A")
		if last = synced.Truncate(time.Millisecond); err == nil && (!asOf.Equal(last) || !stale) { // stale: none is on its way
			err = fmt.Errorf("as of %s, stale %t, in step at %s", asOf, stale, last)
		}
		return err
	})
	for range 2 {
		old := s.running()[0]
		s.stop(old)
		s.restart(old)
		asOf, stale, err := s.partner.freshness("A")
		if err != nil || !stale || !asOf.Equal(last) {
			t.Errorf("after a restart it is as of %s, stale %t, and was as of %s: %v", asOf, stale, last, err)
		}
	}
	turn(false)
	if back := is("fresh again", false); !back.After(last) {
		t.Errorf("as of %s, before it was %s", back, last)
	}
	s.stop(s.running()[0])
	s.awaitReady(s.launch(""))
	is("fresh after another restart", false)
}
