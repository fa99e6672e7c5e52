package kafka

import (
	"errors"
	"time"

	"github.com/IBM/sarama"
	"github.com/prometheus/client_golang/prometheus"
)

// register adds a collector, or gives the equal one that is there already: several consumers of a
// process share theirs. A nil registerer keeps it private.
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

type relayMetrics struct {
	published  *prometheus.CounterVec
	parked     prometheus.Counter
	errors     prometheus.Counter
	lastError  prometheus.Gauge
	active     prometheus.Gauge
	position   prometheus.Gauge
	checkpoint prometheus.Gauge
	behind     prometheus.Gauge
	lag        prometheus.Gauge
}

func newRelayMetrics(registerer prometheus.Registerer) (*relayMetrics, error) {
	var faults []error
	gauge := func(name, help string) prometheus.Gauge {
		g, err := register(registerer, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
		faults = append(faults, err)
		return g
	}
	counter := func(name, help string) prometheus.Counter {
		c, err := register(registerer, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
		faults = append(faults, err)
		return c
	}
	published, err := register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "andes_relay_published_total", Help: "Records that Kafka acknowledged, by topic."}, []string{"topic"}))
	faults = append(faults, err)
	m := &relayMetrics{
		published:  published,
		parked:     counter("andes_relay_parked_total", "Records that were too large to publish."),
		errors:     counter("andes_relay_errors_total", "Failed attempts to publish or to hold the session."),
		lastError:  gauge("andes_relay_last_error_timestamp_seconds", "When the relay last failed."),
		active:     gauge("andes_relay_active", "1 while this instance is the active relay."),
		position:   gauge("andes_relay_position", "Global position that was published."),
		checkpoint: gauge("andes_relay_checkpoint", "Global position up to which every topic is published."),
		behind:     gauge("andes_relay_topics_behind", "Topics that fail while others work."),
		lag:        gauge("andes_relay_lag_seconds", "Age of the last published event when it was acknowledged."),
	}
	return m, errors.Join(faults...)
}

// count adds the acknowledged messages of a round. A failing topic's are counted once they all are.
func (r *Relay) count(messages []*sarama.ProducerMessage, failing map[string]error) {
	counts := map[string]int{}
	for _, message := range messages {
		if _, failed := failing[message.Topic]; !failed {
			counts[message.Topic]++
		}
	}
	for topic, n := range counts {
		r.metrics.published.WithLabelValues(topic).Add(float64(n))
	}
}

// consumerMetrics count what became of consumed records.
type consumerMetrics struct {
	records     *prometheus.CounterVec
	retries     *prometheus.CounterVec
	outstanding *prometheus.GaugeVec
	late        *prometheus.HistogramVec
}

// consumerCounters are those of one consumer.
type consumerCounters struct {
	handled, failed, dead, redelivered prometheus.Counter
	putOff, behind, dropped, discarded prometheus.Counter
	retries                            *prometheus.CounterVec // by tier
	outstanding                        prometheus.Gauge
	late                               prometheus.Observer
}

// lateness is from timely to a consumer that can't keep up, in seconds.
var lateness = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30, 120}

func newConsumerMetrics(registerer prometheus.Registerer) (consumerMetrics, error) {
	records, err1 := register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "andes_consumer_records_total",
		Help: "Consumed records: handled; failed attempts; dead, sent to the DLQ; redelivered in the lane after a transient failure; " +
			"put_off, because what they need is away; behind, parked behind an earlier one of their key; dropped copies; discarded by an operator.",
	}, []string{"consumer", "outcome"}))
	retries, err2 := register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "andes_consumer_retries_total", Help: "Records sent to a retry topic after a transient failure, by its delay.",
	}, []string{"consumer", "tier"}))
	outstanding, err3 := register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "andes_consumer_outstanding_keys",
		Help: "Keys of an ordered consumer with a record that waits to be retried or lies in the DLQ, in the partitions of this process.",
	}, []string{"consumer"}))
	late, err4 := register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "andes_consumer_retry_late_seconds", Help: "Time from when a retry was due to its being handled.", Buckets: lateness,
	}, []string{"consumer"}))
	return consumerMetrics{records, retries, outstanding, late}, errors.Join(err1, err2, err3, err4)
}

func (m consumerMetrics) of(consumer string) consumerCounters {
	counter := func(outcome string) prometheus.Counter { return m.records.WithLabelValues(consumer, outcome) }
	return consumerCounters{
		handled: counter("handled"), failed: counter("failed"), dead: counter("dead"), redelivered: counter("redelivered"),
		putOff: counter("put_off"), behind: counter("behind"), dropped: counter("dropped"), discarded: counter("discarded"),
		retries:     m.retries.MustCurryWith(prometheus.Labels{"consumer": consumer}),
		outstanding: m.outstanding.WithLabelValues(consumer),
		late:        m.late.WithLabelValues(consumer),
	}
}

// retried counts a record that was sent to the retry topic of the delay.
func (c consumerCounters) retried(delay time.Duration) {
	c.retries.WithLabelValues(delayName(delay)).Inc()
}
