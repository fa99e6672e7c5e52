package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/prometheus/client_golang/prometheus"
)

// Lag measures, from outside of the consumers, how far behind each of them is, so that one that is not
// running is seen too:
//
//	origin topics   committed offset ──► end      records not processed, age of the oldest one
//	retry topics    committed offset ──► end      records waiting, how late the one that is due first is
//	DLQ             start ──► end, less settled   records outstanding, age of the oldest one
//
// Seconds are the age of the oldest record that is not processed, by the record's own timestamp, and 0
// when there is none: with nothing to do the lag is 0 and stays so, and while a consumer stands still it
// grows by a second each second. Records of a compacted topic are counted by offsets, which is more than
// there are to read.
type Lag struct {
	config  LagConfig
	client  sarama.Client // nil: not connected
	metrics *lagMetrics
	heads   map[partition]head // as read last
	failing bool
}

// LagConfig is what a Lag needs.
type LagConfig struct {
	Cluster   Cluster
	Names     Topics
	Expected  []Topic // that have to be there
	Consumers []Watched
	Settled   Settled       // tells which dead letters operators are done with; nil: none
	Every     time.Duration // 0: DefaultLagEvery
	Logger    *slog.Logger
	Metrics   prometheus.Registerer
}

// Watched is a consumer whose lag is measured.
type Watched struct {
	Name        string            // of its group, retry topics and DLQ
	Topics      []string          // that it reads, full names
	Projections map[string]string // of a projector: its read models and their topics, full names
}

// DefaultLagEvery is between two measurements.
const DefaultLagEvery = 10 * time.Second

func (c LagConfig) withDefaults() LagConfig {
	setDefault(&c.Every, DefaultLagEvery)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c LagConfig) validate() error {
	faults := []error{c.Cluster.validate()}
	if len(c.Consumers) == 0 {
		faults = append(faults, errors.New("lag: no consumers"))
	}
	for _, consumer := range c.Consumers {
		if consumer.Name == "" || len(consumer.Topics) == 0 {
			faults = append(faults, fmt.Errorf("lag of consumer %q: a name and a topic are needed", consumer.Name))
		}
	}
	return errors.Join(faults...)
}

// NewLag checks the configuration and registers the metrics.
func NewLag(config LagConfig) (*Lag, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	metrics, err := newLagMetrics(config.Metrics)
	if err != nil {
		return nil, fmt.Errorf("lag metrics: %w", err)
	}
	return &Lag{config: config, metrics: metrics, heads: map[partition]head{}}, nil
}

// Run measures until ctx is done. A measurement that fails leaves the figures of the one before, whose
// age is a metric too.
func (l *Lag) Run(ctx context.Context) error {
	defer l.disconnect()
	ticker := time.NewTicker(l.config.Every)
	defer ticker.Stop()
	for {
		err := l.measure(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			l.metrics.failures.Inc()
			l.disconnect()
		}
		if failing := err != nil; failing != l.failing {
			l.failing = failing
			l.tell(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (l *Lag) tell(err error) {
	if err != nil {
		l.config.Logger.Warn("lag: can't be measured, the figures are old", "error", err)
		return
	}
	l.config.Logger.Info("lag: is measured again")
}

// measure takes all figures once and publishes them together.
func (l *Lag) measure(ctx context.Context) error {
	if l.client == nil {
		client, err := sarama.NewClient(l.config.Cluster.Brokers, l.config.Cluster.lagConfig())
		if err != nil {
			return fmt.Errorf("connect to Kafka: %w", err)
		}
		l.client = client
	}
	log, err := lookAtLog(ctx, l.client, l.config.Names.name(""))
	if err != nil {
		return err
	}
	reading := reading{lag: l, log: log, now: time.Now(), heads: map[partition]head{}}
	if err := reading.take(ctx); err != nil {
		return err
	}
	l.heads = reading.heads
	l.metrics.publish(reading.taken, reading.now)
	return nil
}

const (
	lagDialTimeout = 2 * time.Second
	lagTimeout     = 5 * time.Second
)

// lagConfig gives a client that gives up soon: the next measurement is not far, and a request under way
// holds up the end of the process.
func (c Cluster) lagConfig() *sarama.Config {
	s := c.config()
	s.Net.DialTimeout, s.Net.ReadTimeout, s.Net.WriteTimeout = lagDialTimeout, lagTimeout, lagTimeout
	s.Metadata.Full = true
	s.Metadata.Retry.Max, s.Admin.Retry.Max = 1, 1
	return s
}

func (l *Lag) disconnect() {
	if l.client != nil {
		_ = l.client.Close()
		l.client = nil
	}
}

// reading is one measurement.
type reading struct {
	lag   *Lag
	log   *brokerLog
	now   time.Time
	heads map[partition]head
	taken []prometheus.Metric
}

func (r *reading) take(ctx context.Context) error {
	for _, topic := range r.lag.config.Expected {
		present := 0.0
		if r.log.has(topic.Name) {
			present = 1
		}
		r.gauge(topicPresent, present, r.short(topic.Name))
	}
	for _, consumer := range r.lag.config.Consumers {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.consumer(ctx, consumer); err != nil {
			return fmt.Errorf("lag of %s: %w", consumer.Name, err)
		}
	}
	return nil
}

func (r *reading) gauge(description *prometheus.Desc, value float64, labels ...string) {
	r.taken = append(r.taken, prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...))
}

// short is a topic's name as metrics show it: the same in every deployment.
func (r *reading) short(topic string) string {
	return strings.TrimPrefix(topic, r.lag.config.Names.name(""))
}

func (r *reading) consumer(ctx context.Context, consumer Watched) error {
	names := r.lag.config.Names
	retries := r.log.starting(names.name(consumer.Name, "retry.")) // also those of delays that are no longer configured
	if replay := names.Replay(consumer.Name); r.log.has(replay) {
		retries = append(retries, replay)
	}
	committed, err := r.log.committed(names.Group(consumer.Name), slices.Concat(consumer.Topics, retries))
	if err != nil {
		return err
	}
	for _, topic := range consumer.Topics {
		if !r.log.has(topic) {
			continue // its lag is not 0, it is unknown
		}
		if err := r.origin(consumer, topic, committed); err != nil {
			return err
		}
	}
	for _, topic := range retries {
		if err := r.retry(consumer.Name, topic, committed); err != nil {
			return err
		}
	}
	return r.dlq(ctx, consumer.Name)
}

// origin is a topic that the consumer reads in the first place.
func (r *reading) origin(consumer Watched, topic string, committed map[partition]int64) error {
	records, oldest := int64(0), r.now
	for _, at := range r.log.partitions(topic) {
		from, end := r.log.open(at, committed)
		if from >= end {
			continue
		}
		records += end - from
		first, err := r.head(at, from, end)
		if err != nil {
			return err
		}
		oldest = earlier(oldest, first.at)
	}
	r.gauge(consumerLagRecords, float64(records), consumer.Name, r.short(topic))
	r.gauge(consumerLagSeconds, r.now.Sub(oldest).Seconds(), consumer.Name, r.short(topic))
	for model, of := range consumer.Projections {
		if of == topic {
			r.gauge(projectionLagRecords, float64(records), model)
			r.gauge(projectionLagSeconds, r.now.Sub(oldest).Seconds(), model)
		}
	}
	return nil
}

// retry is a topic whose records wait until they are due. Its delay is fixed, so the first record is due
// first.
func (r *reading) retry(consumer, topic string, committed map[partition]int64) error {
	records, due := int64(0), r.now
	for _, at := range r.log.partitions(topic) {
		from, end := r.log.open(at, committed)
		if from >= end {
			continue
		}
		records += end - from
		first, err := r.head(at, from, end)
		if err != nil {
			return err
		}
		due = earlier(due, first.due)
	}
	tier := topic[strings.LastIndexByte(topic, '.')+1:]
	r.gauge(retryWaiting, float64(records), consumer, tier)
	r.gauge(retryLate, r.now.Sub(due).Seconds(), consumer, tier)
	return nil
}

func (r *reading) dlq(ctx context.Context, consumer string) error {
	topic := r.lag.config.Names.DLQ(consumer)
	if !r.log.has(topic) {
		return nil
	}
	settled, err := r.settled(ctx, consumer)
	if err != nil {
		return fmt.Errorf("settled dead letters: %w", err)
	}
	outstanding, ever, oldest := int64(0), int64(0), r.now
	for _, at := range r.log.partitions(topic) {
		start, end := r.log.open(at, nil)
		ever += end
		left, from := unsettled(start, end, settled[at.number])
		if left == 0 {
			continue
		}
		outstanding += left
		first, err := r.head(at, from, end)
		if err != nil {
			return err
		}
		oldest = earlier(oldest, first.at)
	}
	r.gauge(dlqOutstanding, float64(outstanding), consumer)
	r.gauge(dlqOldest, r.now.Sub(oldest).Seconds(), consumer)
	r.taken = append(r.taken, prometheus.MustNewConstMetric(dlqRecords, prometheus.CounterValue, float64(ever), consumer))
	return nil
}

func (r *reading) settled(ctx context.Context, consumer string) (map[int32][]int64, error) {
	if r.lag.config.Settled == nil {
		return nil, nil
	}
	return r.lag.config.Settled.Settled(ctx, consumer)
}

// unsettled counts the offsets of [start, end) that are not settled, and gives the first of them.
func unsettled(start, end int64, settled []int64) (left, first int64) {
	inside := make([]int64, 0, len(settled))
	for _, offset := range settled {
		if offset >= start && offset < end {
			inside = append(inside, offset)
		}
	}
	slices.Sort(inside)
	inside = slices.Compact(inside)
	first = start
	for _, offset := range inside {
		if offset != first {
			break
		}
		first++
	}
	return end - start - int64(len(inside)), first
}

// head gives the first record from an offset on, from memory while it is the same.
func (r *reading) head(at partition, from, end int64) (head, error) {
	known, same := r.lag.heads[at]
	if !same || known.from != from || known.gone {
		var err error
		if known, err = r.log.head(at, from, end); err != nil {
			return known, fmt.Errorf("%s/%d at offset %d: %w", at.topic, at.number, from, err)
		}
	}
	r.heads[at] = known
	if known.gone { // markers and holes only
		return head{at: r.now, due: r.now}, nil
	}
	return known, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
