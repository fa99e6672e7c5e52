package erp_test

import (
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"andes/test/lab/erp"
	"andes/test/lab/feed"
	"andes/test/lab/labtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

func newERP(t *testing.T) (*erp.Sim, http.Handler) {
	t.Helper()
	s, err := erp.New(erp.Config{
		Now:         func() time.Time { return now },
		BaseVersion: 10,
		Products:    []feed.Row[erp.Product]{erp.ProductRow(erp.Product{SKU: "85123A", Name: "HEART", Segment: "top", Attributes: map[string]string{"lastSold": "2011-12-05"}}, now)},
		Prices:      []feed.Row[erp.Price]{erp.PriceRow(erp.Price{PriceList: "retail", SKU: "85123A", Amount: "2.55", Currency: "GBP"}, now)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, s.Handler()
}

func expect(t *testing.T, h http.Handler, target, want string) {
	t.Helper()
	if got := string(labtest.Call(t.Context(), h, http.MethodGet, target, "").Body); got != want {
		t.Fatalf("%s\n got %s\nwant %s", target, got, want)
	}
}

// The wire forms are the contract with the adapters, byte for byte.
func TestWireForms(t *testing.T) {
	_, h := newERP(t)
	product := `{"sku":"85123A","name":"HEART","segment":"top","attributes":{"lastSold":"2011-12-05"},"updatedAt":"2026-03-01T09:00:00.000Z","version":11}`
	price := `{"priceList":"retail","sku":"85123A","amount":"2.55","currency":"GBP","updatedAt":"2026-03-01T09:00:00.000Z","version":11}`
	page := func(item string) string {
		return `{"items":[` + item + `],"hasMore":false,"total":1,"now":"2026-03-01T09:00:00.000Z"}`
	}
	expect(t, h, "/products", page(product))
	expect(t, h, "/products/85123A", product)
	expect(t, h, "/prices?updatedSince=2026-03-01T09:00:00.000Z", page(price))
	expect(t, h, "/prices/retail/85123A", price)
	expect(t, h, "/prices?updatedSince=2026-03-01T09:00:00.000Z&afterId=retail%7C85123A",
		`{"items":[],"hasMore":false,"total":1,"now":"2026-03-01T09:00:00.000Z"}`)
}

func TestUnknownItemsAre404(t *testing.T) {
	_, h := newERP(t)
	for _, target := range []string{"/products/85123a", "/prices/retail/none", "/prices/none/85123A"} {
		labtest.Do[map[string]string](t, h, http.MethodGet, target, "", http.StatusNotFound)
	}
}

func TestTheLabChangesPricesAndProducts(t *testing.T) {
	_, h := newERP(t)
	labtest.Do[any](t, h, http.MethodPut, "/_lab/prices/retail/BANK%20CHARGES", `{"amount":"0.001","currency":"GBP"}`, http.StatusOK)
	expect(t, h, "/prices/retail/BANK%20CHARGES",
		`{"priceList":"retail","sku":"BANK CHARGES","amount":"0.001","currency":"GBP","updatedAt":"2026-03-01T09:00:00.000Z","version":11}`)
	labtest.Do[any](t, h, http.MethodPut, "/_lab/products/85123A", `{"name":"OTHER"}`, http.StatusOK)
	expect(t, h, "/products/85123A",
		`{"sku":"85123A","name":"OTHER","segment":"","attributes":null,"updatedAt":"2026-03-01T09:00:00.000Z","version":12}`)
	labtest.Do[any](t, h, http.MethodDelete, "/_lab/products/85123A", "", http.StatusNoContent)
	labtest.Do[any](t, h, http.MethodDelete, "/_lab/products/85123A", "", http.StatusNotFound)
	labtest.Do[any](t, h, http.MethodDelete, "/_lab/prices/retail/85123A", "", http.StatusNoContent)
	expect(t, h, "/products", `{"items":[{"sku":"85123A","name":"OTHER","segment":"","attributes":null,"updatedAt":"2026-03-01T09:00:00.000Z","version":13,"deleted":true}],"hasMore":false,"total":0,"now":"2026-03-01T09:00:00.000Z"}`)
}

func TestClockSkewShowsInStampsAndNow(t *testing.T) {
	s, h := newERP(t)
	labtest.Turn(t, h, `{"clockSkewMs":-60000}`)
	if _, err := s.SetPrice(erp.Price{PriceList: "retail", SKU: "X", Amount: "1.00", Currency: "GBP"}); err != nil {
		t.Fatal(err)
	}
	expect(t, h, "/prices?limit=1", `{"items":[{"priceList":"retail","sku":"X","amount":"1.00","currency":"GBP","updatedAt":"2026-03-01T08:59:00.000Z","version":11}],"hasMore":true,"total":2,"now":"2026-03-01T08:59:00.000Z"}`)
}

func TestABadConfigIsRefused(t *testing.T) {
	k := erp.Knobs{}
	k.FailureRate = 2
	if _, err := erp.New(erp.Config{Knobs: k}); err == nil {
		t.Fatal("accepted")
	}
}
