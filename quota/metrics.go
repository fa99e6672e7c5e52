package quota

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	allowed, refused map[Decider]prometheus.Counter
	failures         prometheus.Counter
	took             prometheus.Histogram
}

// newMetrics registers the metrics; a nil registerer keeps them private.
func newMetrics(registerer prometheus.Registerer, resting func() bool) (*metrics, error) {
	decisions := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "andes_quota_decisions_total",
		Help: "Requests by outcome and by what decided: shared, lease, known or local (the store fails) of the partner's quota; route or client of level 1.",
	}, []string{"outcome", "by"})
	m := &metrics{
		allowed: map[Decider]prometheus.Counter{}, refused: map[Decider]prometheus.Counter{},
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "andes_quota_store_failures_total", Help: "Questions to the shared store that failed or took too long.",
		}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "andes_quota_store_seconds", Help: "Time of a question to the shared store.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01},
		}),
	}
	rests := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "andes_quota_store_resting", Help: "1 while the shared store fails and this instance counts quotas by itself.",
	}, func() float64 {
		if resting() {
			return 1
		}
		return 0
	})
	for _, by := range []Decider{ByShared, ByLease, ByKnown, ByLocal, ByRoute, ByClient} {
		m.allowed[by], m.refused[by] = decisions.WithLabelValues("allowed", string(by)), decisions.WithLabelValues("refused", string(by))
	}
	if registerer == nil {
		return m, nil
	}
	return m, errors.Join(registerer.Register(decisions), registerer.Register(m.failures), registerer.Register(rests), registerer.Register(m.took))
}

func (m *metrics) decided(v Verdict) {
	if v.Allowed {
		m.allowed[v.By].Inc()
	} else {
		m.refused[v.By].Inc()
	}
}
