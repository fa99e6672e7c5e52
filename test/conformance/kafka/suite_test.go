// Package kafka_test is what adapters/kafka promises, tried against a real broker and against the
// embedded one.
package kafka_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"andes/adapters/kafka"
	"andes/eventstore"
	"andes/test/kafkatest"
	"andes/test/members"
)

func TestMain(m *testing.M) {
	members.Main()
	kafkatest.Main(m)
}

// trial is one promise, on a Kafka of its own.
type trial struct {
	name string
	run  func(t *testing.T, env *kafkatest.Env)
}

// shared trials can run beside others on one broker; restartTrials need one of their own.
var shared = concat(topicTrials, relayTrials, republishTrials, feedTrials, consumeTrials, laneTrials, ladderTrials, orderTrials, partitionTrials, memberTrials, zombieTrials, metricTrials)

func concat(lists ...[]trial) (all []trial) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

func TestEnvironmentBroker(t *testing.T) {
	exercise(t, shared, func(t *testing.T) *kafkatest.Env { return kafkatest.New(t) })
}

func TestEmbeddedBroker(t *testing.T) {
	exercise(t, concat(shared, restartTrials), func(t *testing.T) *kafkatest.Env { return kafkatest.Embedded(t) })
}

func exercise(t *testing.T, trials []trial, open func(t *testing.T) *kafkatest.Env) {
	for _, trial := range trials {
		t.Run(trial.name, func(t *testing.T) {
			t.Parallel()
			trial.run(t, open(t))
		})
	}
}

// The events of the trials.
type (
	placed struct {
		Lines int    `json:"lines"`
		Token string `json:"token" sensitive:"true"`
	}
	confirmed struct{}
	counted   struct {
		OnHand int `json:"onHand"`
	}
)

func registry(t testing.TB) *eventstore.Registry {
	t.Helper()
	type order struct{ Lines int }
	type stock struct{ OnHand int }
	orders := eventstore.NewAggregate(eventstore.Category[order]{Name: "order", Published: true, Events: []eventstore.Definition[order]{
		eventstore.Define("order.placed", func(*order, placed) {}),
		eventstore.Define("order.confirmed", func(*order, confirmed) {}, eventstore.CommandTo("oms")),
	}})
	stocks := eventstore.NewAggregate(eventstore.Category[stock]{Name: "stock", Published: true, Events: []eventstore.Definition[stock]{
		eventstore.Define("stock.counted", func(*stock, counted) {}),
	}})
	known, err := eventstore.NewRegistry(orders, stocks)
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// ensure creates every topic of the registry, and DLQs for the consumers.
func ensure(t *testing.T, env *kafkatest.Env, settings kafka.Settings, consumers ...string) *eventstore.Registry {
	t.Helper()
	known := registry(t)
	env.Ensure(t, env.Topics.All(known, consumers...), settings)
	return known
}

var startOfTime = time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)

// event makes a committed event; its position is set by the log.
func event(category, key string, version int64, kind, data string) eventstore.Record {
	return eventstore.Record{
		Stream: eventstore.Stream{Category: category, Key: key}, Version: version,
		ID: fmt.Sprintf("%s-%s-%d", category, key, version), Type: kind, Schema: 1, Data: []byte(data),
		Meta:       eventstore.Metadata{CorrelationID: "corr-" + key, CausationID: "cause", Actor: "partner-1"},
		RecordedAt: startOfTime.Add(time.Duration(version) * time.Millisecond),
	}
}

func placedEvent(key string, version int64) eventstore.Record {
	return event("order", key, version, "order.placed", `{"lines":2,"token":"tok_secret"}`)
}

func stockState(sku string, version int64, data string) eventstore.StateRecord {
	state := eventstore.StateRecord{Stream: eventstore.Stream{Category: "stock", Key: sku}, Version: version, Position: version}
	if data != "" {
		state.State = []byte(data)
	}
	return state
}

func logger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// testWriter logs to the test as long as it runs.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(line []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Log(strings.TrimSuffix(string(line), "\n"))
	}
	return len(line), nil
}
