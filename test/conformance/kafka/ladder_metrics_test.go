package kafka_test

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"andes/adapters/kafka"
	"andes/eventstore"
	"andes/test/kafkatest"
)

var metricTrials = []trial{
	{"metrics tell what became of records, by tier, how many keys wait and how late retries are", metricsTell},
}

// gathered gives a metric's value by the value of one of its labels; of a histogram, its count.
func gathered(t *testing.T, registry *prometheus.Registry, name, label string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			values[labelOf(metric, label)] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return values
}

func labelOf(metric *dto.Metric, name string) string {
	for _, pair := range metric.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}

func metricsTell(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, short, longer)
	produceEvents(t, env, append(versionsOf("o1", 1, 3), placedEvent("bad", 1))...)
	metrics, got := prometheus.NewRegistry(), &order{}
	stop := consume(t, env, func(_ context.Context, record eventstore.Record) error {
		switch {
		case record.Stream.Key == "bad":
			return eventstore.Refuse("NO", "never")
		case record.Version == 1 && got.try(record) < 3:
			return errors.New("not yet")
		}
		got.done(record)
		return nil
	}, tiers(short, longer), ordered, func(c *kafka.ConsumeConfig, _ *kafka.Consumer) { c.Metrics = metrics })
	got.wait(t, "o1", 1, 2, 3)
	waitLetters(t, env, 1)
	keysWait := func() float64 {
		return gathered(t, metrics, "andes_consumer_outstanding_keys", "consumer")[consumerName]
	}
	kafkatest.Eventually(t, "one key waits in the DLQ", func() bool { return keysWait() == 1 })
	records := gathered(t, metrics, "andes_consumer_records_total", "outcome")
	if records["handled"] != 3 || records["failed"] != 3 || records["dead"] != 1 || records["behind"] < 2 {
		t.Errorf("records %v", records)
	}
	retries := gathered(t, metrics, "andes_consumer_retries_total", "tier")
	if retries["150ms"] != 1 || retries["400ms"] != 1 {
		t.Errorf("retries %v", retries)
	}
	if late := gathered(t, metrics, "andes_consumer_retry_late_seconds", "consumer")[consumerName]; late != 2 {
		t.Errorf("the lateness of %v retries was taken, want 2", late)
	}
	stop()
	if n := keysWait(); n != 0 {
		t.Errorf("%v keys wait in a process that has no partition", n)
	}
}
