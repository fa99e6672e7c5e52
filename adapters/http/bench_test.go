package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"andes/commands/money"
	"andes/commands/partner"
	"andes/queries"
)

// constant is a read model that costs nothing, to see what the edge costs.
type constant struct{ *shelf }

func (constant) Stock(_ context.Context, skus []string) (map[string]queries.StockView, error) {
	return map[string]queries.StockView{skus[0]: {Net: 5, ChangedAt: testStart}}, nil
}

func (constant) Prices(_ context.Context, _ string, skus []string) (map[string]queries.PriceView, error) {
	return map[string]queries.PriceView{skus[0]: {Price: money.Money{Minor: 255, Currency: "GBP"}, ChangedAt: testStart}}, nil
}

func (constant) GlanceStock(_ time.Time, _ string, skus []string, seen []queries.Seen[queries.StockView]) (time.Time, bool) {
	for i := range skus {
		seen[i] = queries.Seen[queries.StockView]{View: queries.StockView{Net: 5, ChangedAt: testStart}, There: true}
	}
	return testStart, true
}

func (constant) GlancePrices(_ time.Time, _, _ string, skus []string, seen []queries.Seen[queries.PriceView]) (time.Time, bool) {
	for i := range skus {
		seen[i] = queries.Seen[queries.PriceView]{View: queries.PriceView{Price: money.Money{Minor: 255, Currency: "GBP"}, ChangedAt: testStart}, There: true}
	}
	return testStart, true
}

func (constant) GlanceProduct(time.Time, string) (queries.Seen[queries.ProductView], bool) {
	return queries.Seen[queries.ProductView]{View: queries.ProductView{Name: "Lamp"}, There: true}, true
}

// remembering holds for ever.
type remembering struct{ constant }

func (remembering) HoldStock(time.Time, string, []string) queries.Held          { return unending{} }
func (remembering) HoldPrices(time.Time, string, string, []string) queries.Held { return unending{} }

type unending struct{}

func (unending) Holds(time.Time) bool { return true }
func (unending) Use(time.Time)        {}
func (unending) Size() int            { return 1 }

func (constant) Watermark(context.Context, string) (time.Time, error) { return testStart, nil }

func (constant) Partner(context.Context, string) (partner.State, bool, error) {
	return partner.State{ID: "acme", Tier: "gold", Policy: partner.Policy{PriceList: "retail", Currency: "GBP"}}, true, nil
}

// nowhere takes an answer and forgets it.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header            { return n.header }
func (n *nowhere) Write(data []byte) (int, error) { return len(data), nil }
func (n *nowhere) WriteHeader(int)                {}

func BenchmarkReads(b *testing.B) {
	b.Run("made", func(b *testing.B) { benchReads(b, constant{}) })
	b.Run("remembered", func(b *testing.B) { benchReads(b, remembering{}) })
}

func benchReads(b *testing.B, reader queries.Reader) {
	e := newEdge(&testing.T{}, func(c *Config) {
		c.Reader, c.Partners = reader, constant{}
		c.Logger = slog.New(slog.DiscardHandler)
	})
	const ten = "?sku=SKU-1,SKU-2,SKU-3,SKU-4,SKU-5,SKU-6,SKU-7,SKU-8,SKU-9,SKU-10"
	for _, target := range []string{"/v1/stock" + ten, "/v1/prices" + ten, "/v1/products/A"} {
		name, _, _ := strings.Cut(strings.TrimPrefix(target, "/v1/"), "?")
		b.Run(name, func(b *testing.B) {
			request := httptest.NewRequest(http.MethodGet, target, nil)
			request.Header.Set("Authorization", "Bearer acme")
			b.ReportAllocs()
			for b.Loop() {
				e.ServeHTTP(&nowhere{header: http.Header{}}, request)
			}
		})
	}
}

func BenchmarkOrders(b *testing.B) {
	e := newEdge(&testing.T{}, func(c *Config) { c.Logger = slog.New(slog.DiscardHandler) })
	e.sell("C", "1.00", 1<<40)
	body := strings.Replace(smallOrder, `"A"`, `"C"`, 1)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		request := httptest.NewRequest(http.MethodPost, "/v1/orders", strings.NewReader(body))
		request.Header = http.Header{"Authorization": {"Bearer acme"}, "Content-Type": {"application/json"}, keyHeader: {fmt.Sprint(n)}}
		e.ServeHTTP(&nowhere{header: http.Header{}}, request)
	}
}
