package guard

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of all guards of a process.
type Metrics struct {
	attempts *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	waits    *prometheus.HistogramVec
	state    *prometheus.GaugeVec
	changes  *prometheus.CounterVec
}

// NewMetrics registers the guards' metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := unregistered()
	var faults []error
	for _, each := range []prometheus.Collector{m.attempts, m.seconds, m.inFlight, m.waits, m.state, m.changes} {
		faults = append(faults, registerer.Register(each))
	}
	return m, errors.Join(faults...)
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
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "andes_legacy_wait_seconds", Help: "Time that a call waited for a place in the bulkhead (place) and for the rate (turn).",
			Buckets: []float64{.001, .01, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"system", "for"}),
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "andes_legacy_breaker_state", Help: "1 for the state that the breaker is in: closed, open, half-open.",
		}, []string{"system", "state"}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "andes_legacy_breaker_changes_total", Help: "Changes of the breaker by the state that it went into.",
		}, []string{"system", "to"}),
	}
}

// show tells the breaker's state.
func (m *Metrics) show(system string, state State) {
	for _, each := range []State{Closed, Open, HalfOpen} {
		value := 0.0
		if each == state {
			value = 1
		}
		m.state.WithLabelValues(system, string(each)).Set(value)
	}
}

// changed is told of the breaker's changes, in order.
func (g *Guard) changed(c change) {
	g.metrics.show(g.system, c.to)
	g.metrics.changes.WithLabelValues(g.system, string(c.to)).Inc()
	level := slog.LevelInfo
	if c.to == Open {
		level = slog.LevelWarn
	}
	g.log.Log(context.Background(), level, "breaker changed", "system", g.system, "from", c.from, "to", c.to, "after", c.after.String())
}

// Observation is one attempt as the guard saw it.
type Observation struct {
	System  string
	Outcome Outcome
	Took    time.Duration
}

func (g *Guard) observe(outcome Outcome, took time.Duration) {
	g.metrics.attempts.WithLabelValues(g.system, string(outcome)).Inc()
	if outcome.sent() && outcome != Ignored {
		g.metrics.seconds.WithLabelValues(g.system).Observe(took.Seconds())
	}
	if g.watch != nil {
		g.watch(Observation{System: g.system, Outcome: outcome, Took: took})
	}
}
