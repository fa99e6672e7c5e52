package kafka

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func described(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// What is measured. The rules in deploy/alerts go by these.
var (
	consumerLagRecords   = described("andes_consumer_lag_records", "Records of a topic that the consumer has not processed.", "consumer", "topic")
	consumerLagSeconds   = described("andes_consumer_lag_seconds", "Age of the oldest record that the consumer has not processed; 0: none.", "consumer", "topic")
	projectionLagRecords = described("andes_projection_lag_records", "State records that are not in the read model yet; at most, as compacted ones count.", "projection")
	projectionLagSeconds = described("andes_projection_lag_seconds", "Age of the oldest state record that is not in the read model yet; 0: none.", "projection")
	retryWaiting         = described("andes_retry_waiting_records", "Records in a retry topic.", "consumer", "tier")
	retryLate            = described("andes_retry_late_seconds", "How long ago the first record of a retry topic was due; 0: none is.", "consumer", "tier")
	dlqOutstanding       = described("andes_dlq_depth", "Records in a DLQ that no operator has dealt with.", "consumer")
	dlqOldest            = described("andes_dlq_oldest_seconds", "How long ago the oldest outstanding record came into the DLQ; 0: none.", "consumer")
	dlqRecords           = described("andes_dlq_records_total", "Records that ever came into a DLQ.", "consumer")
	topicPresent         = described("andes_topic_present", "1: the topic is there. 0: it is missing.", "topic")
)

// lagMetrics give the figures of the last measurement, all of the same moment.
type lagMetrics struct {
	last     atomic.Pointer[[]prometheus.Metric]
	measured prometheus.Gauge
	failures prometheus.Counter
}

func newLagMetrics(registerer prometheus.Registerer) (*lagMetrics, error) {
	m := &lagMetrics{
		measured: prometheus.NewGauge(prometheus.GaugeOpts{Name: "andes_lag_measured_timestamp_seconds", Help: "When the lags were last measured; 0: never."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "andes_lag_failures_total", Help: "Measurements of the lags that failed."}),
	}
	if registerer == nil {
		return m, nil
	}
	return m, errors.Join(registerer.Register(m), registerer.Register(m.measured), registerer.Register(m.failures))
}

func (m *lagMetrics) publish(taken []prometheus.Metric, at time.Time) {
	m.last.Store(&taken)
	m.measured.Set(float64(at.UnixMilli()) / 1000)
}

// Describe implements prometheus.Collector.
func (m *lagMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{
		consumerLagRecords, consumerLagSeconds, projectionLagRecords, projectionLagSeconds,
		retryWaiting, retryLate, dlqOutstanding, dlqOldest, dlqRecords, topicPresent,
	} {
		out <- description
	}
}

// Collect implements prometheus.Collector.
func (m *lagMetrics) Collect(out chan<- prometheus.Metric) {
	if taken := m.last.Load(); taken != nil {
		for _, metric := range *taken {
			out <- metric
		}
	}
}
