package queries

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type fallbackMetrics struct {
	atHand                    prometheus.Counter // answers
	answered, failed, resting prometheus.Counter // reads of the copy
	states, saturated         prometheus.Counter
	put                       prometheus.Counter
	putsFailed, putsSkipped   prometheus.Counter
}

// newFallbackMetrics registers the metrics; a nil registerer keeps them private.
func newFallbackMetrics(registerer prometheus.Registerer) (*fallbackMetrics, error) {
	reads := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "andes_query_copy_reads_total",
		Help: "Reads of the read model: at_hand, whole answers that this process remembered; answered; failed; resting, not tried because it failed just before.",
	}, []string{"outcome"})
	states := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "andes_query_state_reads_total",
		Help: "Reads of the states for what the read model does not give: read, or saturated.",
	}, []string{"outcome"})
	puts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "andes_query_put_back_total",
		Help: "States put back into the read model (records); batches that failed or were skipped.",
	}, []string{"outcome"})
	m := &fallbackMetrics{
		atHand:   reads.WithLabelValues("at_hand"),
		answered: reads.WithLabelValues("answered"), failed: reads.WithLabelValues("failed"), resting: reads.WithLabelValues("resting"),
		states: states.WithLabelValues("read"), saturated: states.WithLabelValues("saturated"),
		put: puts.WithLabelValues("put"), putsFailed: puts.WithLabelValues("failed"), putsSkipped: puts.WithLabelValues("skipped"),
	}
	if registerer == nil {
		return m, nil
	}
	return m, errors.Join(registerer.Register(reads), registerer.Register(states), registerer.Register(puts))
}

func (m *fallbackMetrics) glanced(done bool) {
	if done {
		m.atHand.Inc()
	}
}
