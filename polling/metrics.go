package polling

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of all pollers of a process.
type Metrics struct {
	polls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	records  *prometheus.CounterVec
	rejected *prometheus.CounterVec
	interval *prometheus.GaugeVec
}

// NewMetrics registers the pollers' metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := unregistered()
	return m, errors.Join(registerer.Register(m.polls), registerer.Register(m.seconds),
		registerer.Register(m.records), registerer.Register(m.rejected), registerer.Register(m.interval))
}

func unregistered() *Metrics {
	return &Metrics{
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "andes_polls_total", Help: "Polls of a feed by outcome: complete, partial (more to read), failed, skipped (the source is away).",
		}, []string{"feed", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "andes_poll_seconds", Help: "Time of one poll.", Buckets: prometheus.ExponentialBuckets(.01, 3, 9),
		}, []string{"feed"}),
		records: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "andes_poll_records_total", Help: "Records that polls read, repeated ones included.",
		}, []string{"feed"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "andes_poll_rejected_total", Help: "Records that can't be used, each version once.",
		}, []string{"feed", "code"}),
		interval: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "andes_poll_interval_seconds", Help: "Time between two polls of a feed, as long as its source's answers make it.",
		}, []string{"feed"}),
	}
}
