package polling_test

import (
	"context"
	"log/slog"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"andes/commands/product"
	"andes/commands/source"
	"andes/polling"
)

// comparing has the bench's poller compare the whole table each minute.
func (b *bench) comparing() *prometheus.Registry {
	b.t.Helper()
	registry := prometheus.NewRegistry()
	metrics, err := polling.NewMetrics(registry)
	if err != nil {
		b.t.Fatal(err)
	}
	round := &polling.Round{
		Every: time.Minute, Now: time.Now,
		Gone: func(context.Context, map[string]struct{}) ([]polling.Item, bool, error) { return nil, false, nil },
	}
	round.Page = polling.Everything(func(ctx context.Context, since polling.Since) (polling.ChangePage, error) {
		page, err := b.table.fetch(ctx, since)
		for i := range page.Changes {
			report := page.Changes[i].Item.Command.(product.Report)
			report.Compared = round.Begun()
			page.Changes[i].Item.Command = report
		}
		return page, err
	})
	b.poller, err = polling.New(polling.Config{
		Feed: source.ERPProducts, Executor: b.faults, Reader: b.store, Lease: alone{},
		Source: polling.Comparing{Changes: polling.Changes{Fetch: b.table.fetch, Overlap: overlap, Now: time.Now}, Round: round},
		Now:    time.Now, Log: slog.New(slog.DiscardHandler), Metrics: metrics,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return registry
}

// A source that was restored from a backup is believed by the second comparison, and only then.
func TestASourceThatWentBackIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 10)
		registry := b.comparing()
		before := time.Now().Add(-time.Hour)
		b.table.put(row{id: "A", at: before, version: 70}, row{id: "B", at: before, version: 70})
		compare := func() {
			t.Helper()
			time.Sleep(2 * time.Minute)
			b.mustPoll()
		}
		compare()
		b.table.put(row{id: "A", at: before, version: 7}, row{id: "B", at: before, version: 7})
		b.mustPoll()
		compare()
		b.mustPoll()
		b.expect(map[string]int64{"A": 70, "B": 70})
		b.execute(product.Report{SKU: "B", Name: "pushed", SourceVersion: 71, At: time.Now()})
		compare()
		b.expect(map[string]int64{"A": 7, "B": 71})
		compare()
		b.expect(map[string]int64{"A": 7, "B": 7})
		b.table.put(row{id: "A", at: time.Now(), version: 8})
		b.mustPoll()
		b.execute(product.Report{SKU: "A", Name: "late", SourceVersion: 7, At: time.Now()})
		compare()
		b.expect(map[string]int64{"A": 8, "B": 7})
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		counted := map[string]float64{}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if family.GetName() == "andes_feed_went_back_total" {
					counted[metric.GetLabel()[1].GetValue()] = metric.GetCounter().GetValue() // feed, outcome
				}
			}
		}
		if want := map[string]float64{"suspected": 3, "taken": 2}; !maps.Equal(counted, want) {
			t.Errorf("counted %v, want %v", counted, want)
		}
	})
}
