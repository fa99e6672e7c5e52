package guard

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of all guards of a process.
type Metrics struct {
	attempts *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
}

// NewMetrics registers the guards' metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := unregistered()
	err := errors.Join(registerer.Register(m.attempts), registerer.Register(m.seconds), registerer.Register(m.inFlight))
	return m, err
}

func unregistered() *Metrics {
	return &Metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "andes_legacy_calls_total", Help: "Attempts of calls to a legacy system by outcome.",
		}, []string{"system", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "andes_legacy_call_seconds", Help: "Time of one attempt, the answer's body included.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2, 4, 8},
		}, []string{"system"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "andes_legacy_calls_in_flight", Help: "Attempts that a legacy system is working on.",
		}, []string{"system"}),
	}
}

// Observation is one attempt as the guard saw it.
type Observation struct {
	System  string
	Outcome Outcome
	Took    time.Duration
}

func (g *Guard) observe(outcome Outcome, took time.Duration) {
	g.metrics.attempts.WithLabelValues(g.system, string(outcome)).Inc()
	if outcome != Busy && outcome != Ignored {
		g.metrics.seconds.WithLabelValues(g.system).Observe(took.Seconds())
	}
	if g.watch != nil {
		g.watch(Observation{System: g.system, Outcome: outcome, Took: took})
	}
}
