package redis

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type modelMetrics struct {
	entries *prometheus.CounterVec
	applied, stale, conflicting,
	rejected prometheus.Counter
	failed prometheus.Counter
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
	return &modelMetrics{
		entries: entries, failed: failed,
		applied: entries.WithLabelValues("applied"), stale: entries.WithLabelValues("stale"),
		conflicting: entries.WithLabelValues("conflict"), rejected: entries.WithLabelValues("rejected"),
	}, err
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
