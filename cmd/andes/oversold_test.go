package main

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"andes/commands/stock"
	"andes/eventstore"
)

// What the alert looks at follows the levels of the WMS.
// Field case STOCK-09.
func TestOversoldSKUsAreCountedUntilTheyRecover(t *testing.T) {
	p, _ := placedOrder(t) // holds one unit of A
	p.metrics = prometheus.NewRegistry()
	watch, err := newOversoldWatch(p)
	if err != nil {
		t.Fatal(err)
	}
	for version, step := range []struct {
		onHand int64
		want   float64
	}{{1, 0}, {0, 1}, {-2, 1}, {10, 0}} {
		report := stock.Report{SKU: "A", OnHand: step.onHand, SourceVersion: int64(version + 2), At: time.Now()}
		if _, err := p.store.Execute(t.Context(), eventstore.Request{Command: report}); err != nil {
			t.Fatal(err)
		}
		if err := watch.measure(t.Context()); err != nil {
			t.Fatal(err)
		}
		var told dto.Metric
		if err := watch.skus.Write(&told); err != nil || told.GetGauge().GetValue() != step.want {
			t.Errorf("%v with %d on hand, want %v, %v", told.GetGauge().GetValue(), step.onHand, step.want, err)
		}
	}
}
