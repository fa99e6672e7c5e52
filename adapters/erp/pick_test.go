package erp_test

import (
	"testing"

	sim "andes/test/lab/erp"
	"andes/test/lab/labtest"
)

// A record that was put right is read alone when an operator wants it, whatever its key holds.
func TestSingleRecordsAreRead(t *testing.T) {
	with(t, sim.Config{}, func(t *testing.T, b *bench) {
		for _, sku := range []string{"A", "B/1 x", "C", "100%"} {
			b.set("GB", sku, "2.55", "GBP")
			if _, err := b.erp.SetProduct(sim.Product{SKU: sku, Name: "thing"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.adapter.Prices.Pick(t.Context(), []string{"GB|B/1 x", "GB|100%", "GB|none"}); err != nil {
			t.Fatal(err)
		}
		if err := b.adapter.Products.Pick(t.Context(), []string{"A", "B/1 x"}); err != nil {
			t.Fatal(err)
		}
		if b.price("GB", "B/1 x").Price.Minor != 255 || b.price("GB", "100%").Price.Minor != 255 || b.price("GB", "A").SourceVersion != 0 {
			t.Errorf("prices %+v, %+v", b.price("GB", "B/1 x"), b.price("GB", "A"))
		}
		if b.product("A").Name != "thing" || b.product("B/1 x").Name != "thing" || b.product("C").SourceVersion != 0 {
			t.Errorf("products %+v, %+v", b.product("B/1 x"), b.product("C"))
		}
		if synced := len(b.Events("source.synced")); synced != 0 {
			t.Errorf("%d syncs of single records", synced)
		}
		labtest.Turn(t, b.erp.Handler(), `{"outage":true}`)
		if err := b.adapter.Products.Pick(t.Context(), []string{"A"}); err == nil {
			t.Error("an outage was not told")
		}
	})
}
