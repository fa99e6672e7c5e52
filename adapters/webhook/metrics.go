package webhook

import (
	"errors"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	deliveries *prometheus.CounterVec
	attempts   *prometheus.CounterVec
	seconds    prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "andes_webhook_deliveries_total",
			Help: "Events brought to a subscription by result: delivered, failed, put_off, interrupted, unsubscribed.",
		}, []string{"result"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "andes_webhook_attempts_total", Help: "Calls to partners' endpoints by class of status, or error.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "andes_webhook_attempt_seconds", Help: "Time of one call to a partner's endpoint.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
	}
	if registerer == nil {
		return m, nil
	}
	return m, errors.Join(registerer.Register(m.deliveries), registerer.Register(m.attempts), registerer.Register(m.seconds))
}

func outcome(status int, err error) string {
	if err != nil {
		return "error"
	}
	return strconv.Itoa(status/100) + "xx"
}
