package changes

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	late  prometheus.Counter
	pages *prometheus.CounterVec
}

// Sources of pages, for the metric.
const (
	fromRing   = "ring"
	fromLog    = "log"
	fromResync = "resync"
)

func newMetrics(registerer prometheus.Registerer, lag func() time.Duration) (*metrics, error) {
	m := &metrics{
		late: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "andes_changes_late_total", Help: "Changes that the read model did not get in time, so that the states were read.",
		}),
		pages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "andes_changes_pages_total", Help: "Pages of changes by where they came from: the ring in memory, the event log, or resync (a follower was told to begin anew).",
		}, []string{"from"}),
	}
	behind := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "andes_changes_lag_seconds", Help: "For how long the oldest change has waited to be told to followers.",
	}, func() float64 { return lag().Seconds() })
	for _, from := range []string{fromRing, fromLog, fromResync} {
		m.pages.WithLabelValues(from)
	}
	if registerer == nil {
		return m, nil
	}
	return m, errors.Join(registerer.Register(m.late), registerer.Register(m.pages), registerer.Register(behind))
}
