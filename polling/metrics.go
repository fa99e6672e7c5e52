package polling

import (
	"errors"
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"andes/commands/source"
)

// Metrics of all pollers of a process.
type Metrics struct {
	polls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	records  *prometheus.CounterVec
	rejected *prometheus.CounterVec
	interval *prometheus.GaugeVec
	differs  *prometheus.GaugeVec
	pushed   *prometheus.CounterVec
	back     *prometheus.CounterVec
}

// NewMetrics registers the pollers' metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := unregistered()
	var faults []error
	for _, each := range []prometheus.Collector{m.polls, m.seconds, m.records, m.rejected, m.interval, m.differs, m.pushed, m.back} {
		faults = append(faults, registerer.Register(each))
	}
	return m, errors.Join(faults...)
}

// Counted shows how a comparison ended: how many live records came, and how many the source says it has.
func (m *Metrics) Counted(feed string, came, has int) {
	if m == nil {
		return
	}
	m.differs.WithLabelValues(feed).Set(math.Abs(float64(came - has)))
}

// wentBack counts a value whose source has an older version of it.
func (m *Metrics) wentBack(feed string, word source.Word) {
	switch word {
	case source.Suspect:
		m.back.WithLabelValues(feed, "suspected").Inc()
	case source.Back:
		m.back.WithLabelValues(feed, "taken").Inc()
	}
}

func unregistered() *Metrics {
	return &Metrics{
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "andes_polls_total", Help: "Polls of a feed by outcome: complete, partial (more to read), failed, skipped (the source is away), picked (single records).",
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
		differs: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "andes_feed_count_difference", Help: "By how many live records the last comparison of a feed missed what its source says it has.",
		}, []string{"feed"}),
		pushed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "andes_feed_pushed_total", Help: "Records that legacy systems told of by themselves, by outcome: applied, known, refused, failed.",
		}, []string{"feed", "outcome"}),
		back: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "andes_feed_went_back_total", Help: "Values of which a comparison found an older version that says something else: suspected (the value is doubted), taken (the next one found it again).",
		}, []string{"feed", "outcome"}),
	}
}
