package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"andes/adapters/postgres"
)

// oversoldWatch counts the SKUs of which orders hold more units than there are.
type oversoldWatch struct {
	store  *postgres.Store
	failed func(error)
	skus   prometheus.Gauge
}

// The states of all SKUs are looked at, so they are counted less often than a backlog.
const (
	oversoldEvery = time.Minute
	oversoldLimit = 10 * time.Second // for one count
)

func newOversoldWatch(p *platform) (*oversoldWatch, error) {
	w := &oversoldWatch{
		store: p.store,
		failed: func(err error) {
			p.logger.Warn("oversold SKUs can't be counted, the figure is old", "error", err.Error())
		},
		skus: prometheus.NewGauge(prometheus.GaugeOpts{Name: "andes_stock_oversold_skus", Help: "SKUs of which orders hold more units than there are."}),
	}
	return w, p.metrics.Register(w.skus)
}

func (w *oversoldWatch) run(ctx context.Context) error {
	return measureEvery(ctx, oversoldEvery, oversoldLimit, w.measure, w.failed)
}

func (w *oversoldWatch) measure(ctx context.Context) error {
	count, err := w.store.CountOversold(ctx)
	if err == nil {
		w.skus.Set(float64(count))
	}
	return err
}
