package erp_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"andes/adapters/erp"
	"andes/commands/money"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/source"
	"andes/eventstore"
	"andes/polling"
	sim "andes/test/lab/erp"
	"andes/test/lab/feed"
	"andes/test/lab/labtest"
	"andes/test/legacytest"
)

type bench struct {
	*legacytest.Bench
	erp     *sim.Sim
	handler http.Handler // may be replaced by a test
	adapter *erp.Adapter
	rejects map[string]eventstore.Code
}

func with(t *testing.T, cfg sim.Config, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := sim.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b := &bench{Bench: legacytest.New(t), erp: s, handler: s.Handler(), rejects: map[string]eventstore.Code{}}
		b.adapter, err = erp.New(erp.Config{
			URL:      "http://erp",
			Caller:   b.Guard("erp", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.handler.ServeHTTP(w, r) })),
			Executor: b.Store, Reader: b.Store, Lease: legacytest.Alone{}, Log: slog.New(slog.DiscardHandler), PageSize: 10,
			Rejects: func(_ context.Context, r polling.Reject) { b.rejects[r.ID] = r.Code },
		})
		if err != nil {
			t.Fatal(err)
		}
		test(t, b)
	})
}

func (b *bench) poll(p *polling.Poller) {
	b.T.Helper()
	if _, err := p.Poll(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

func (b *bench) set(list, sku, amount, currency string) {
	b.T.Helper()
	if _, err := b.erp.SetPrice(sim.Price{PriceList: list, SKU: sku, Amount: amount, Currency: currency}); err != nil {
		b.T.Fatal(err)
	}
}

func (b *bench) price(list, sku string) price.State {
	b.T.Helper()
	return legacytest.StateOf(b.Bench, price.Aggregate, price.Key(list, sku))
}

func TestACatalogueIsReadWithItsTiesAndDeletions(t *testing.T) {
	at := time.Date(1999, 1, 2, 3, 4, 5, 0, time.UTC)
	var products []feed.Row[sim.Product]
	for i := range 95 {
		products = append(products, sim.ProductRow(sim.Product{
			SKU: fmt.Sprintf("S %02d/ñ", i), Name: "thing", Segment: "toys", Attributes: map[string]string{"colour": "blue"},
		}, at))
	}
	with(t, sim.Config{Products: products}, func(t *testing.T, b *bench) {
		b.poll(b.adapter.Products)
		for _, row := range products {
			got := legacytest.StateOf(b.Bench, product.Aggregate, row.ID)
			if got.Name != "thing" || got.Segment != "toys" || got.Attributes["colour"] != "blue" || !got.ChangedAt.Equal(at) {
				t.Errorf("%s is %+v", row.ID, got)
			}
		}
		if _, err := b.erp.DeleteProduct("S 07/ñ"); err != nil {
			t.Fatal(err)
		}
		b.poll(b.adapter.Products)
		if got := legacytest.StateOf(b.Bench, product.Aggregate, "S 07/ñ"); !got.Removed {
			t.Errorf("the deleted product is %+v", got)
		}
		if n := len(b.Events("product.described")); n != len(products) {
			t.Errorf("%d descriptions of %d products", n, len(products))
		}
	})
}

func TestPricesKeepToTheirCurrency(t *testing.T) {
	with(t, sim.Config{}, func(t *testing.T, b *bench) {
		b.set("CL", "A", "1990", "CLP")
		b.set("JP", "A", "1234", "JPY")
		b.set("KW", "A", "1.234", "KWD")
		b.set("US", "A", "19.90", "USD")
		b.set("CL", "B", "1990.50", "CLP")
		b.set("US", "B", "1.999", "USD")
		b.set("US", "C", "0", "USD")
		b.set("US", "D", "-5", "USD")
		b.set("US", "E", "", "USD")
		b.set("US", "F", "1e3", "USD")
		b.set("US", "G", "10", "XXX")
		b.set("US", "H ", "10", "USD")
		b.poll(b.adapter.Prices)
		for key, want := range map[string]money.Money{
			"CL|A": {Minor: 1990, Currency: "CLP"}, "JP|A": {Minor: 1234, Currency: "JPY"},
			"KW|A": {Minor: 1234, Currency: "KWD"}, "US|A": {Minor: 1990, Currency: "USD"},
		} {
			if got := legacytest.StateOf(b.Bench, price.Aggregate, key); got.Price != want {
				t.Errorf("price %s is %s, want %s", key, got.Price, want)
			}
		}
		want := map[string]eventstore.Code{
			"CL|B": price.CodeInvalid, "US|B": price.CodeInvalid, "US|C": price.CodeNotPositive, "US|D": price.CodeNotPositive,
			"US|E": price.CodeInvalid, "US|F": price.CodeInvalid, "US|G": price.CodeInvalid, "US|H ": "SKU_INVALID",
		}
		if !maps.Equal(b.rejects, want) {
			t.Errorf("rejected: %v, want %v", b.rejects, want)
		}
		// A rejected price that is put right is accepted, and one that was right and breaks keeps its last value.
		b.set("US", "B", "1.99", "USD")
		b.set("US", "A", "0", "USD")
		b.poll(b.adapter.Prices)
		if got := b.price("US", "B").Price; got.Minor != 199 {
			t.Errorf("the corrected price is %s", got)
		}
		if got := b.price("US", "A").Price; got.Minor != 1990 || b.rejects["US|A"] != price.CodeNotPositive {
			t.Errorf("the broken price is %s, rejects %v", got, b.rejects)
		}
	})
}

// Field case POLL-07, TIME-01.
func TestRecordsThatBreakTheContractAreRejectedAlone(t *testing.T) {
	const page = `{"hasMore":false,"items":[
		{"priceList":"US","sku":"A","amount":2.55,"currency":"USD","updatedAt":"2026-01-02T03:04:05.001Z","version":1},
		{"priceList":"US","sku":"B","amount":"2.55","currency":"USD","updatedAt":"2026-01-02T03:04:05.002","version":1},
		{"priceList":"US","sku":"C","amount":"2.55","currency":"USD","updatedAt":"2026-01-02T03:04:05.003Z"},
		{"priceList":"US","sku":"D","amount":null,"currency":"USD","updatedAt":"2026-01-02T03:04:05.004Z","version":1},
		"nonsense",
		{"priceList":"US","sku":"E","amount":"2.55","currency":"USD","updatedAt":"2026-01-02T03:04:05.005Z","version":1}]}`
	with(t, sim.Config{}, func(t *testing.T, b *bench) {
		b.handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			fmt.Fprint(w, page)
		})
		b.poll(b.adapter.Prices)
		if got := b.price("US", "E").Price.String(); got != "2.55 USD" {
			t.Errorf("the good one is %s", got)
		}
		want := map[string]eventstore.Code{
			"US|A": erp.CodeRecordInvalid, "US|B": erp.CodeRecordInvalid, "US|C": erp.CodeRecordInvalid,
			"US|D": price.CodeInvalid, "|": erp.CodeRecordInvalid,
		}
		if !maps.Equal(b.rejects, want) {
			t.Errorf("rejected: %v, want %v", b.rejects, want)
		}
	})
}

// Field case POLL-05.
func TestAPageThatIsNoneChangesNothing(t *testing.T) {
	answers := map[string]func(w http.ResponseWriter){
		"a login page": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<form>")
		},
		"JSON cut short": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"items":[{"sku":"A"`)
		},
		"no items": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"hasMore":false}`)
		},
		"items that are null": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"items":null,"hasMore":false}`)
		},
		"no hasMore": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"items":[]}`)
		},
		"an error as JSON with status 200": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"error":"session expired"}`)
		},
		"status 204":         func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) },
		"status 404 as JSON": func(w http.ResponseWriter) { http.Error(w, `{}`, http.StatusNotFound) },
		"a redirect":         func(w http.ResponseWriter) { w.Header().Set("Location", "/login"); w.WriteHeader(302) },
		"a cut connection":   func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			with(t, sim.Config{}, func(t *testing.T, b *bench) {
				b.set("US", "A", "1.00", "USD")
				b.poll(b.adapter.Prices)
				before := legacytest.StateOf(b.Bench, source.Aggregate, source.ERPPrices)
				b.handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) })
				time.Sleep(time.Minute)
				if _, err := b.adapter.Prices.Poll(t.Context()); err == nil {
					t.Error("it passed for a page")
				}
				if after := legacytest.StateOf(b.Bench, source.Aggregate, source.ERPPrices); after != before {
					t.Errorf("the watermark moved from %+v to %+v", before, after)
				}
				if got := b.price("US", "A"); got.Removed || got.Price.Minor != 100 {
					t.Errorf("the price is %+v", got)
				}
			})
		})
	}
}

// Field case POLL-01.
func TestItFollowsAnERPThroughFaultsAndAWrongClock(t *testing.T) {
	with(t, sim.Config{Knobs: sim.Knobs{ClockSkewMs: -180_000}}, func(t *testing.T, b *bench) {
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- b.adapter.Run(ctx) }()
		labtest.Turn(t, b.erp.Handler(), `{"failureRate":0.3,"responseLostRate":0.2,"latencyMs":50,"jitterMs":100}`)
		for i := range 300 {
			b.set("US", fmt.Sprint("S", i%50), fmt.Sprintf("%d.50", i+1), "USD")
			time.Sleep(300 * time.Millisecond)
			if i == 150 {
				labtest.Turn(t, b.erp.Handler(), `{"outage":true}`)
			}
			if i == 200 {
				labtest.Turn(t, b.erp.Handler(), `{"outage":false,"failureRate":0,"responseLostRate":0}`)
			}
		}
		time.Sleep(15 * time.Second)
		for i := 250; i < 300; i++ {
			if got, want := b.price("US", fmt.Sprint("S", i%50)).Price.Minor, int64(i+1)*100+50; got != want {
				t.Errorf("S%d is %d, want %d", i%50, got, want)
			}
		}
		if synced := legacytest.StateOf(b.Bench, source.Aggregate, source.ERPPrices).SyncedAt; time.Since(synced) > 6*time.Second {
			t.Errorf("synced at %s, now %s", synced, time.Now())
		}
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

func TestAConfigurationIsChecked(t *testing.T) {
	if _, err := erp.New(erp.Config{URL: "nowhere"}); err == nil {
		t.Error("an empty configuration was accepted")
	}
}
