package erp_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"andes/adapters/erp"
	"andes/commands/price"
	"andes/commands/product"
	"andes/eventstore"
	"andes/polling"
	sim "andes/test/lab/erp"
	"andes/test/lab/feed"
	"andes/test/legacytest"
)

// comparing is a bench whose adapter compares all there is every minute, in pages of ten.
func comparing(t *testing.T, products int, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var rows []feed.Row[sim.Product]
		var prices []feed.Row[sim.Price]
		for i := range products {
			sku := "S" + string(rune('A'+i/26)) + string(rune('A'+i%26))
			rows = append(rows, sim.ProductRow(sim.Product{SKU: sku, Name: "old"}, time.Now().Add(-time.Hour)))
			prices = append(prices, sim.PriceRow(sim.Price{PriceList: "GB", SKU: sku, Amount: "2.55", Currency: "GBP"}, time.Now().Add(-time.Hour)))
		}
		s, err := sim.New(sim.Config{Products: rows, Prices: prices})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b := &bench{Bench: legacytest.New(t), erp: s, handler: s.Handler(), rejects: map[string]eventstore.Code{}}
		b.adapter, err = erp.New(erp.Config{
			URL:      "http://erp",
			Caller:   b.Guard("erp", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.handler.ServeHTTP(w, r) })),
			Executor: b.Store, Reader: b.Store, States: b, Lease: legacytest.Alone{}, Log: slog.New(slog.DiscardHandler), PageSize: 10,
			CompareEvery: time.Minute, Rejects: func(_ context.Context, r polling.Reject) { b.rejects[r.ID] = r.Code },
		})
		if err != nil {
			t.Fatal(err)
		}
		test(t, b)
	})
}

// round lets a comparison begin and polls until it is over, and the one that confirms it.
func (b *bench) round(p *polling.Poller, polls int) {
	b.T.Helper()
	time.Sleep(2 * time.Minute)
	for range polls {
		b.poll(p)
	}
}

func (b *bench) product(sku string) product.State {
	b.T.Helper()
	return legacytest.StateOf(b.Bench, product.Aggregate, sku)
}

// Field case POLL-04.
func TestTheComparisonFindsWhatNoStampTells(t *testing.T) {
	comparing(t, 35, func(t *testing.T, b *bench) {
		products, prices := b.erp.Tables()
		b.round(b.adapter.Products, 4) // four pages of ten
		b.round(b.adapter.Prices, 4)
		described := len(b.Events("product.described"))
		if described != 35 || len(b.rejects) > 0 {
			t.Fatalf("%d products, rejects %v", described, b.rejects)
		}
		row, _ := products.Get("SAB")
		row.Value.Name = "rewritten"
		products.Rewrite(row) // neither stamp nor version
		row, _ = products.Get("SAC")
		row.Value.Name, row.Version = "versioned", row.Version+1
		products.Rewrite(row) // no stamp
		gone, _ := products.Get("SAD")
		products.Purge("SAD")
		cheap, _ := prices.Get("GB|SAE")
		cheap.Value.Amount = "1.00"
		prices.Rewrite(cheap)
		prices.Purge("GB|SAF")

		for range 3 { // the changes alone find nothing
			b.poll(b.adapter.Products)
		}
		b.round(b.adapter.Products, 4)
		if got := b.product("SAB").Name + " " + b.product("SAC").Name; got != "rewritten versioned" {
			t.Errorf("after a round: %s", got)
		}
		if b.product("SAD").Removed {
			t.Error("one round was enough to remove a product")
		}
		for range 4 { // the round that confirms it begins at once
			b.poll(b.adapter.Products)
		}
		if got := b.product("SAD"); !got.Removed || !got.Absent {
			t.Errorf("the purged product is %+v", got)
		}
		b.round(b.adapter.Prices, 8)
		if got := b.price("GB", "SAE").Price.Amount(); got != "1.00" {
			t.Errorf("the rewritten price is %s", got)
		}
		if !legacytest.StateOf(b.Bench, price.Aggregate, "GB|SAF").Removed || b.price("GB", "SAD").Shown() {
			t.Error("a purged price, or that of a purged product, is still there")
		}
		products.Rewrite(gone) // un-hidden as it was
		b.round(b.adapter.Products, 4)
		if got := b.product("SAD"); got.Removed || !b.price("GB", "SAD").Shown() {
			t.Errorf("what came back is %+v", got)
		}
		if n := len(b.Events("product.described")) - described; n != 3 {
			t.Errorf("%d descriptions of three changes", n)
		}
	})
}

// A page that fails half way decides nothing, and the round goes on where it was.
// Field case POLL-04.
func TestARoundThatIsBrokenOffDecidesNothing(t *testing.T) {
	comparing(t, 35, func(t *testing.T, b *bench) {
		b.round(b.adapter.Products, 4)
		products, _ := b.erp.Tables()
		products.Purge("SAD")
		whole := b.handler
		b.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("afterId") == "SAU" { // behind the second page
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"items":[{"sku":"SAU"`))
				return
			}
			whole.ServeHTTP(w, r)
		})
		time.Sleep(2 * time.Minute)
		failed := 0
		for range 6 {
			if _, err := b.adapter.Products.Poll(t.Context()); err != nil {
				failed++
			}
		}
		if failed == 0 || b.product("SAD").Removed || b.product("SBC").Removed {
			t.Errorf("%d polls failed; SAD is %+v", failed, b.product("SAD"))
		}
		b.handler = whole
		time.Sleep(2 * time.Minute) // the breaker has opened
		for range 8 {
			b.poll(b.adapter.Products)
		}
		if !b.product("SAD").Removed || b.product("SBC").Removed || len(b.Events("product.removed")) != 1 {
			t.Errorf("%d were removed", len(b.Events("product.removed")))
		}
	})
}

func TestACatalogueThatIsEmptyAllAtOnceRemovesNothing(t *testing.T) {
	comparing(t, 45, func(t *testing.T, b *bench) {
		b.round(b.adapter.Products, 5)
		b.handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"items":[],"hasMore":false,"total":0}`))
		})
		time.Sleep(2 * time.Minute)
		if _, err := b.adapter.Products.Poll(t.Context()); err == nil {
			t.Error("nobody was told")
		}
		for range 10 {
			time.Sleep(time.Minute)
			_, _ = b.adapter.Products.Poll(t.Context())
		}
		if n := len(b.Events("product.removed")); n != 0 {
			t.Errorf("%d products were removed", n)
		}
	})
}

// Prices for a number of units are not known here: they must not pass for the price of one. From none or one
// on is any number.
// Field case MONEY-06.
func TestPricesByQuantityAreNoPrices(t *testing.T) {
	with(t, sim.Config{}, func(t *testing.T, b *bench) {
		b.handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"hasMore":false,"items":[
				{"priceList":"GB","sku":"A","amount":"100","currency":"GBP","minQty":1,"updatedAt":"1999-01-02T03:04:05Z","version":1},
				{"priceList":"GB","sku":"A","amount":"80","currency":"GBP","minQty":0,"updatedAt":"1999-01-02T03:04:06Z","version":2},
				{"priceList":"GB","sku":"A","amount":"70","currency":"GBP","minQty":10,"updatedAt":"1999-01-02T03:04:07Z","version":3},
				{"priceList":"GB","sku":"B","amount":null,"currency":"GBP","updatedAt":"1999-01-02T03:04:07Z","version":1}]}`))
		})
		b.poll(b.adapter.Prices)
		if got := b.price("GB", "A"); got.Price.Amount() != "80.00" || !got.Doubt.At.IsZero() {
			t.Errorf("the price is %+v", got)
		}
		if b.rejects["GB|A|from 10"] != erp.CodeRecordInvalid || b.rejects["GB|B"] != price.CodeInvalid || len(b.rejects) != 2 {
			t.Errorf("rejects %v", b.rejects)
		}
	})
}

// What the ERP replaced by something that can't be used is known to be right until then.
// Field case MONEY-07.
func TestAPriceThatBreaksIsDoubtedUntilItIsPutRight(t *testing.T) {
	with(t, sim.Config{}, func(t *testing.T, b *bench) {
		b.set("GB", "A", "2.55", "GBP")
		b.poll(b.adapter.Prices)
		time.Sleep(time.Hour)
		broken := time.Now()
		for _, amount := range []string{"0", "-5", ""} {
			b.set("GB", "A", amount, "GBP")
			b.poll(b.adapter.Prices)
			time.Sleep(time.Minute)
			if got := b.price("GB", "A"); got.Price.Amount() != "2.55" || !got.Doubt.At.Equal(broken) {
				t.Errorf("after %q: %+v", amount, got)
			}
		}
		b.set("GB", "A", "3.00", "GBP")
		b.poll(b.adapter.Prices)
		if got := b.price("GB", "A"); got.Price.Amount() != "3.00" || !got.Doubt.At.IsZero() {
			t.Errorf("put right: %+v", got)
		}
	})
}
