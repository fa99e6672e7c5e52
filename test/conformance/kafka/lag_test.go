package kafka_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/prometheus/client_golang/prometheus"

	"andes/adapters/kafka"
	"andes/test/kafkatest"
)

// lagTrials measure consumers that do not run: they are only known by what is in Kafka.
var lagTrials = []trial{
	{"nothing to do is no lag", noLag},
	{"a lag counts records and the age of the oldest", lagOfAConsumer},
	{"a record that waits for its time is not late, one that is due is", lagOfRetries},
	{"a DLQ is what operators have not dealt with", lagOfDLQ},
	{"a topic that is missing is told", lagOfAMissingTopic},
	{"offsets that the topic does not have any more count from its start", lagOfStrangeOffsets},
}

func TestLagOnTheEnvironmentBroker(t *testing.T) {
	exercise(t, lagTrials, func(t *testing.T) *kafkatest.Env { return kafkatest.New(t) })
}

func TestLagOnTheEmbeddedBroker(t *testing.T) {
	alone := []trial{{"holes of compaction are read over", lagOverHoles}, {"without Kafka the figures stay and their age tells", lagWithoutKafka}}
	exercise(t, concat(lagTrials, alone), func(t *testing.T) *kafkatest.Env { return kafkatest.Embedded(t) })
}

// watch is a lag that is measured until the test ends.
type watch struct {
	*prometheus.Registry
	env *kafkatest.Env
}

var lagTopics = []string{"events.order", "state.stock", "saga.retry.10m", "saga.retry.1h", "saga.replay", "saga.dlq", "projector.dlq"}

func watchLag(t *testing.T, env *kafkatest.Env, settled settledBy) watch {
	t.Helper()
	var topics []kafka.Topic
	for _, name := range lagTopics {
		kind := kafka.EventTopic
		if strings.HasPrefix(name, "state.") {
			kind = kafka.StateTopic
		}
		topics = append(topics, kafka.Topic{Name: env.Topics.Prefix + name, Kind: kind})
	}
	env.Ensure(t, topics, kafka.Settings{Partitions: 2})
	w := watch{prometheus.NewRegistry(), env}
	lag, err := kafka.NewLag(kafka.LagConfig{
		Cluster: env.Cluster, Names: env.Topics, Expected: append(topics, kafka.Topic{Name: env.Topics.Prefix + "events.gone"}),
		Consumers: []kafka.Watched{
			{Name: "saga", Topics: []string{env.Topics.Events("order")}},
			{Name: "projector", Topics: []string{env.Topics.State("stock")}, Projections: map[string]string{"stock": env.Topics.State("stock")}},
		},
		Settled: settled,
		Every:   20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler), Metrics: w,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- lag.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

// settledBy is a function that tells what is settled.
type settledBy func(consumer string) map[int32][]int64

func (f settledBy) Settled(_ context.Context, consumer string) (map[int32][]int64, error) {
	return f(consumer), nil
}

func nothing(string) map[int32][]int64 { return nil }

// value gives a metric by its name and the values of its labels, in the order of their names.
func (w watch) value(t *testing.T, name string, labels ...string) (float64, bool) {
	t.Helper()
	families, err := w.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var values []string
			for _, label := range metric.GetLabel() {
				values = append(values, label.GetValue())
			}
			if family.GetName() == name && slices.Equal(values, labels) {
				return metric.GetGauge().GetValue() + metric.GetCounter().GetValue(), true
			}
		}
	}
	return 0, false
}

// becomes waits until a metric has a value, within a tolerance for times.
func (w watch) becomes(t *testing.T, want, tolerance float64, name string, labels ...string) {
	t.Helper()
	kafkatest.Eventually(t, name+" "+strings.Join(labels, ","), func() bool {
		got, found := w.value(t, name, labels...)
		return found && math.Abs(got-want) <= tolerance
	})
}

// put writes a record of an age into partition 0, which the key decides.
func (w watch) put(t *testing.T, topic string, age time.Duration, headers ...sarama.RecordHeader) {
	t.Helper()
	w.env.Produce(t, &sarama.ProducerMessage{
		Topic: w.env.Topics.Prefix + topic, Key: sarama.StringEncoder("k"), Value: sarama.StringEncoder("{}"),
		Timestamp: time.Now().Add(-age), Headers: headers,
	})
}

// partition finds where the key of put goes.
func (w watch) partition(t *testing.T, topic string) int32 {
	t.Helper()
	for _, record := range w.env.ReadAll(t, w.env.Topics.Prefix+topic) {
		return record.Partition
	}
	t.Fatalf("nothing is in %s", topic)
	return 0
}

func (w watch) commit(t *testing.T, consumer, topic string, offset int64) {
	t.Helper()
	partition := w.partition(t, topic)
	response, err := w.env.Admin(t).AlterConsumerGroupOffsets(w.env.Topics.Group(consumer),
		map[string]map[int32]sarama.OffsetAndMetadata{w.env.Topics.Prefix + topic: {partition: {Offset: offset}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, partitions := range response.Errors {
		for _, fault := range partitions {
			if !errors.Is(fault, sarama.ErrNoError) {
				t.Fatal(fault)
			}
		}
	}
}

const seconds = 30 // a slow machine

func noLag(t *testing.T, env *kafkatest.Env) {
	w := watchLag(t, env, nothing)
	w.put(t, "events.order", time.Hour)
	w.put(t, "state.stock", time.Hour)
	w.commit(t, "saga", "events.order", 1)
	w.commit(t, "projector", "state.stock", 1)
	w.becomes(t, 0, 0, "andes_projection_lag_records", "stock")
	w.becomes(t, 0, 0, "andes_consumer_lag_records", "saga", "events.order")
	for name, labels := range map[string][]string{
		"andes_consumer_lag_seconds": {"saga", "events.order"}, "andes_projection_lag_seconds": {"stock"},
		"andes_retry_waiting_records": {"saga", "10m"}, "andes_retry_late_seconds": {"saga", "replay"},
		"andes_dlq_depth": {"saga"}, "andes_dlq_oldest_seconds": {"saga"}, "andes_dlq_records_total": {"projector"},
	} {
		if got, found := w.value(t, name, labels...); !found || got != 0 {
			t.Errorf("%s %v: %v (found: %v), though there is nothing to do", name, labels, got, found)
		}
	}
}

func lagOfAConsumer(t *testing.T, env *kafkatest.Env) {
	w := watchLag(t, env, nothing)
	for _, age := range []time.Duration{3 * time.Hour, 2 * time.Hour, time.Hour} {
		w.put(t, "events.order", age)
		w.put(t, "state.stock", age)
	}
	w.becomes(t, 3, 0, "andes_consumer_lag_records", "saga", "events.order") // the group was never there
	w.becomes(t, 3*3600, seconds, "andes_consumer_lag_seconds", "saga", "events.order")
	w.commit(t, "saga", "events.order", 1)
	w.commit(t, "projector", "state.stock", 2)
	w.becomes(t, 2, 0, "andes_consumer_lag_records", "saga", "events.order")
	w.becomes(t, 2*3600, seconds, "andes_consumer_lag_seconds", "saga", "events.order")
	w.becomes(t, 1, 0, "andes_projection_lag_records", "stock")
	w.becomes(t, 3600, seconds, "andes_projection_lag_seconds", "stock")
}

func due(at time.Time) sarama.RecordHeader {
	return sarama.RecordHeader{Key: []byte("andes_due"), Value: []byte(at.UTC().Format(time.RFC3339Nano))}
}

func lagOfRetries(t *testing.T, env *kafkatest.Env) {
	w := watchLag(t, env, nothing)
	w.put(t, "saga.retry.1h", time.Minute, due(time.Now().Add(59*time.Minute)))
	w.put(t, "saga.retry.10m", time.Hour, due(time.Now().Add(-50*time.Minute)))
	w.put(t, "saga.retry.10m", time.Minute, due(time.Now().Add(9*time.Minute)))
	w.put(t, "saga.replay", time.Minute)
	w.becomes(t, 1, 0, "andes_retry_waiting_records", "saga", "1h")
	w.becomes(t, 0, 0, "andes_retry_late_seconds", "saga", "1h")
	w.becomes(t, 2, 0, "andes_retry_waiting_records", "saga", "10m")
	w.becomes(t, 50*60, seconds, "andes_retry_late_seconds", "saga", "10m")
	w.becomes(t, 60, seconds, "andes_retry_late_seconds", "saga", "replay")
	w.commit(t, "saga", "saga.retry.10m", 1)
	w.becomes(t, 0, 0, "andes_retry_late_seconds", "saga", "10m")
}

func lagOfDLQ(t *testing.T, env *kafkatest.Env) {
	var w watch
	settled := make(chan map[int32][]int64, 1)
	settled <- nil
	w = watchLag(t, env, func(consumer string) map[int32][]int64 {
		if consumer != "saga" {
			return nil
		}
		now := <-settled
		settled <- now
		return now
	})
	for _, age := range []time.Duration{5 * time.Hour, 4 * time.Hour, 3 * time.Hour} {
		w.put(t, "saga.dlq", age)
	}
	w.becomes(t, 3, 0, "andes_dlq_depth", "saga")
	w.becomes(t, 5*3600, seconds, "andes_dlq_oldest_seconds", "saga")
	w.becomes(t, 3, 0, "andes_dlq_records_total", "saga")
	at := w.partition(t, "saga.dlq")
	<-settled
	settled <- map[int32][]int64{at: {2, 0, 0, 77}, 1 - at: {0}} // in any order, twice, and of records that are gone
	w.becomes(t, 1, 0, "andes_dlq_depth", "saga")
	w.becomes(t, 4*3600, seconds, "andes_dlq_oldest_seconds", "saga")
	<-settled
	settled <- map[int32][]int64{at: {0, 1, 2}}
	w.becomes(t, 0, 0, "andes_dlq_depth", "saga")
	w.becomes(t, 0, 0, "andes_dlq_oldest_seconds", "saga")
	w.becomes(t, 3, 0, "andes_dlq_records_total", "saga")
}

func lagOfAMissingTopic(t *testing.T, env *kafkatest.Env) {
	w := watchLag(t, env, nothing)
	w.becomes(t, 0, 0, "andes_topic_present", "events.gone")
	w.becomes(t, 1, 0, "andes_topic_present", "events.order")
	if err := env.Admin(t).DeleteTopic(env.Topics.Prefix + "events.order"); err != nil {
		t.Fatal(err)
	}
	w.becomes(t, 0, 0, "andes_topic_present", "events.order")
	if lag, found := w.value(t, "andes_consumer_lag_records", "saga", "events.order"); found {
		t.Errorf("the lag on a topic that is missing is %v: it is unknown", lag)
	}
}

func lagOfStrangeOffsets(t *testing.T, env *kafkatest.Env) {
	w := watchLag(t, env, nothing)
	for range 3 {
		w.put(t, "events.order", time.Hour)
	}
	w.commit(t, "saga", "events.order", 99)
	w.becomes(t, 3, 0, "andes_consumer_lag_records", "saga", "events.order")
}

func lagOverHoles(t *testing.T, env *kafkatest.Env) {
	w := watchLag(t, env, nothing)
	for _, age := range []time.Duration{3 * time.Hour, 2 * time.Hour, time.Hour} {
		w.put(t, "state.stock", age)
	}
	env.Compact()
	w.becomes(t, 3600, 2*3600+seconds, "andes_projection_lag_seconds", "stock") // of one that is still there
	w.commit(t, "projector", "state.stock", 3)
	w.becomes(t, 0, 0, "andes_projection_lag_seconds", "stock")
}

func lagWithoutKafka(t *testing.T, env *kafkatest.Env) {
	w := watchLag(t, env, nothing)
	w.put(t, "saga.dlq", time.Hour)
	w.becomes(t, 1, 0, "andes_dlq_depth", "saga")
	env.Stop(t)
	kafkatest.Eventually(t, "a failure is counted", func() bool {
		failures, _ := w.value(t, "andes_lag_failures_total")
		return failures > 0
	})
	measured, _ := w.value(t, "andes_lag_measured_timestamp_seconds")
	if got, _ := w.value(t, "andes_dlq_depth", "saga"); got != 1 || measured == 0 {
		t.Errorf("%v records outstanding, measured at %v", got, measured)
	}
	env.Start(t)
	kafkatest.Eventually(t, "it is measured again", func() bool {
		again, _ := w.value(t, "andes_lag_measured_timestamp_seconds")
		return again > measured
	})
}
