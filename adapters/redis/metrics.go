package redis

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"andes/projections"
)

type modelMetrics struct {
	applied, stale, conflicting, rejected prometheus.Counter
	failed                                prometheus.Counter
	position                              prometheus.Gauge
	highest                               atomic.Int64
}

func newModelMetrics(registerer prometheus.Registerer) (*modelMetrics, error) {
	entries, err := register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "andes_readmodel_entries_total",
		Help: "Entries for the read model: applied; stale, not newer than the kept one; conflict, another value at the kept position; rejected, could not be projected.",
	}, []string{"outcome"}))
	if err != nil {
		return nil, err
	}
	failed, err := register(registerer, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "andes_readmodel_failed_writes_total", Help: "Batches that Redis did not take; they come again.",
	}))
	if err != nil {
		return nil, err
	}
	position, err := register(registerer, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "andes_readmodel_position", Help: "Highest global position that this instance brought into the read model.",
	}))
	return &modelMetrics{
		applied: entries.WithLabelValues("applied"), stale: entries.WithLabelValues("stale"),
		conflicting: entries.WithLabelValues("conflict"), rejected: entries.WithLabelValues("rejected"),
		failed: failed, position: position,
	}, err
}

// reached raises the position to that of the entries.
func (m *modelMetrics) reached(entries []projections.Entry) {
	highest := int64(0)
	for _, entry := range entries {
		highest = max(highest, entry.Position)
	}
	for known := m.highest.Load(); highest > known; known = m.highest.Load() {
		if m.highest.CompareAndSwap(known, highest) {
			m.position.Set(float64(highest))
		}
	}
}

// register adds a collector, or gives the equal one that is there already: several writers of a process
// share theirs. A nil registerer keeps it private.
func register[C prometheus.Collector](registerer prometheus.Registerer, collector C) (C, error) {
	if registerer == nil {
		return collector, nil
	}
	err := registerer.Register(collector)
	if already, twice := errors.AsType[prometheus.AlreadyRegisteredError](err); twice {
		if existing, same := already.ExistingCollector.(C); same {
			return existing, nil
		}
	}
	return collector, err
}
