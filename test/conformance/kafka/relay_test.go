package kafka_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	"github.com/prometheus/client_golang/prometheus"

	"andes/adapters/kafka"
	"andes/eventstore"
	"andes/test/kafkatest"
)

var relayTrials = []trial{
	{"relay publishes events, commands and states, then saves its checkpoint", relayPublishes},
	{"relay sends a tombstone for a deleted stream", relaySendsTombstones},
	{"OUTBOX-03 a lost session repeats records with the same ids and in order per key", relayRepeatsAfterLostSession},
	{"OUTBOX-06 a failing topic does not hold the others and catches up in order", failingTopicFallsBehind},
	{"OUTBOX-08 very large events go through and one over the limit is parked alone", largeEventsGoThrough},
	{"a record that only the broker finds too large is parked alone", brokerRefusesSize},
	{"a second relay stands by until the first stops", secondRelayStandsBy},
}

// startRelay runs a relay until the test ends or stop is called.
func startRelay(t *testing.T, env *kafkatest.Env, known *eventstore.Registry, log kafka.Log) (stop func()) {
	t.Helper()
	relay, err := kafka.NewRelay(kafka.RelayConfig{
		Cluster: env.Cluster, Topics: env.Topics, Registry: known, Log: log,
		Logger: logger(t), Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return start(t, func(ctx context.Context) error { return relay.Run(ctx) })
}

// start runs a worker; stop ends it and waits.
func start(t *testing.T, run func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-done; err != nil {
				t.Errorf("worker: %v", err)
			}
		}
	}
	t.Cleanup(stop)
	return stop
}

func waitRelayed(t *testing.T, log *memoryLog) {
	t.Helper()
	kafkatest.Eventually(t, "the checkpoint reaches the log's end", func() bool { return log.saved() == log.head() })
}

func decodeAll(t *testing.T, messages []*sarama.ConsumerMessage) []eventstore.Record {
	t.Helper()
	records := make([]eventstore.Record, len(messages))
	for i, message := range messages {
		record, err := kafka.DecodeRecord(message)
		if err != nil {
			t.Fatal(err)
		}
		records[i] = record
	}
	return records
}

func relayPublishes(t *testing.T, env *kafkatest.Env) {
	known := ensure(t, env, kafka.Settings{Partitions: 3})
	log := newLog()
	for i := range 50 {
		key := fmt.Sprintf("o%d", i)
		log.commit(placedEvent(key, 1), event("order", key, 2, "order.confirmed", `{}`))
	}
	startRelay(t, env, known, log)
	waitRelayed(t, log)

	events := decodeAll(t, env.ReadAll(t, env.Topics.Events("order")))
	if len(events) != 100 {
		t.Fatalf("%d events, want 100", len(events))
	}
	for _, got := range events {
		want := log.records[got.Position-1]
		if got.ID != want.ID || got.Meta != want.Meta || !got.RecordedAt.Equal(want.RecordedAt) || string(got.Data) != string(want.Data) {
			t.Errorf("position %d: got %+v, want %+v", got.Position, got, want)
		}
	}
	commands := decodeAll(t, env.ReadAll(t, env.Topics.Commands("oms")))
	if len(commands) != 50 || commands[0].Type != "order.confirmed" {
		t.Errorf("%d commands, want 50 of order.confirmed", len(commands))
	}
	latest := map[string]int64{}
	for _, message := range env.ReadAll(t, env.Topics.State("order")) {
		state, err := kafka.DecodeState(message)
		if err != nil {
			t.Fatal(err)
		}
		latest[state.Stream.Key] = state.Version
	}
	for i := range 50 {
		if key := fmt.Sprintf("o%d", i); latest[key] != 2 {
			t.Errorf("state of %s ends at version %d, want 2", key, latest[key])
		}
	}
}

func relaySendsTombstones(t *testing.T, env *kafkatest.Env) {
	known := ensure(t, env, kafka.Settings{Partitions: 1})
	log := newLog()
	log.commit(event("stock", "85123A", 1, "stock.counted", `{"onHand":3}`))
	log.remove(eventstore.Stream{Category: "stock", Key: "85123A"})
	startRelay(t, env, known, log)
	waitRelayed(t, log)
	messages := env.ReadAll(t, env.Topics.State("stock"))
	if len(messages) != 1 || messages[0].Value != nil || string(messages[0].Key) != "85123A" {
		t.Fatalf("got %d records, want one tombstone for the SKU", len(messages))
	}
	state, err := kafka.DecodeState(messages[0])
	if err != nil || state.State != nil || state.Position != 1 {
		t.Errorf("tombstone decodes to %+v, %v; want position 1 and no state", state, err)
	}
}

func relayRepeatsAfterLostSession(t *testing.T, env *kafkatest.Env) {
	known := ensure(t, env, kafka.Settings{Partitions: 2})
	log := newLog()
	const sessions, keys = 6, 5
	stop := startRelay(t, env, known, log)
	for version := int64(1); version <= sessions; version++ {
		if version%2 == 0 {
			log.failSaves(1)
		} else {
			log.fence()
		}
		for key := range keys {
			log.commit(placedEvent(fmt.Sprintf("o%d", key), version))
		}
		waitRelayed(t, log)
	}
	stop()

	ids := map[string]map[int64]string{}
	last := map[string]int64{}
	for _, record := range decodeAll(t, env.ReadAll(t, env.Topics.Events("order"))) {
		key := record.Stream.Key
		if ids[key] == nil {
			ids[key] = map[int64]string{}
		}
		if known, repeated := ids[key][record.Version]; repeated && known != record.ID {
			t.Errorf("%s version %d was published as %s and as %s", key, record.Version, known, record.ID)
		}
		ids[key][record.Version] = record.ID
		if record.Version > last[key]+1 {
			t.Errorf("%s jumps from version %d to %d", key, last[key], record.Version)
		}
		last[key] = record.Version
	}
	for key := range keys {
		if got := len(ids[fmt.Sprintf("o%d", key)]); got != sessions {
			t.Errorf("o%d: %d of %d events published", key, got, sessions)
		}
	}
}

func failingTopicFallsBehind(t *testing.T, env *kafkatest.Env) {
	known := ensure(t, env, kafka.Settings{Partitions: 1})
	blocked := env.Topics.State("stock")
	env.Lose(t, blocked)
	log := newLog()
	startRelay(t, env, known, log)
	const rounds = 5
	for version := int64(1); version <= rounds; version++ {
		log.commit(event("stock", "85123A", version, "stock.counted", `{"onHand":3}`), placedEvent("o1", version))
	}
	kafkatest.Eventually(t, "the other topics go on", func() bool {
		return len(env.ReadAll(t, env.Topics.Events("order"))) >= rounds && len(env.ReadAll(t, env.Topics.Events("stock"))) >= rounds
	})
	if log.saved() == log.head() {
		t.Fatal("the checkpoint passed records that are not published")
	}
	env.Ensure(t, env.Topics.All(known), kafka.Settings{Partitions: 1})
	waitRelayed(t, log)
	states := env.ReadAll(t, blocked)
	if len(states) == 0 {
		t.Fatal("the blocked topic did not catch up")
	}
	state, err := kafka.DecodeState(states[len(states)-1])
	if err != nil || state.Version != rounds {
		t.Errorf("the blocked topic ends at version %d (%v), want %d", state.Version, err, rounds)
	}
}

func largeEventsGoThrough(t *testing.T, env *kafkatest.Env) {
	known := ensure(t, env, kafka.Settings{Partitions: 1})
	log := newLog()
	log.pageBytes = 4 << 20
	big := func(size int) string { return `{"lines":1,"token":"` + strings.Repeat("x", size) + `"}` }
	for i := range 9 {
		log.commit(event("order", fmt.Sprintf("big%d", i), 1, "order.placed", big(900_000)))
	}
	log.commit(event("order", "giant", 1, "order.placed", big(kafka.DefaultMaxRecordBytes)), placedEvent("after", 1))
	startRelay(t, env, known, log)
	waitRelayed(t, log)
	records := decodeAll(t, env.ReadAll(t, env.Topics.Events("order")))
	if len(records) != 10 || records[9].Stream.Key != "after" {
		t.Errorf("%d events published, want the 9 big ones and the one after the giant", len(records))
	}
	parkedOnce(t, env, env.Topics.Events("order"), "order/giant")
}

func brokerRefusesSize(t *testing.T, env *kafkatest.Env) {
	known := ensure(t, env, kafka.Settings{Partitions: 1})
	limit := "20000"
	entry := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &limit}
	err := env.Admin(t).IncrementalAlterConfig(sarama.TopicResource, env.Topics.Events("order"),
		map[string]sarama.IncrementalAlterConfigsEntry{"max.message.bytes": entry}, false)
	if err != nil {
		t.Fatal(err)
	}
	awaitRefusal(t, env, env.Topics.Events("order"), 50_000)
	log := newLog()
	giant := event("order", "giant", 1, "order.placed", `{"lines":1,"token":"`+strings.Repeat("x", 50_000)+`"}`)
	log.commit(placedEvent("before", 1), giant, placedEvent("after", 1))
	startRelay(t, env, known, log)
	waitRelayed(t, log)
	seen := map[string]bool{}
	for _, message := range env.ReadAll(t, env.Topics.Events("order")) {
		seen[string(message.Key)] = true
	}
	if !seen["before"] || !seen["after"] || seen["giant"] {
		t.Errorf("published %v, want what stands before and after the giant", seen)
	}
	parkedOnce(t, env, env.Topics.Events("order"), "order/giant")
}

// awaitRefusal writes probes until the broker refuses them: it acknowledges a setting before it goes by it.
func awaitRefusal(t *testing.T, env *kafkatest.Env, topic string, size int) {
	t.Helper()
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	producer, err := sarama.NewSyncProducer(env.Cluster.Brokers, config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = producer.Close() }()
	kafkatest.Eventually(t, "the broker refuses what is too large", func() bool {
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder("probe"), Value: sarama.ByteEncoder(make([]byte, size))})
		return errors.Is(err, sarama.ErrMessageSizeTooLarge)
	})
}

// parkedOnce checks that the event of the stream stands in relay.parked, without its payload.
func parkedOnce(t *testing.T, env *kafkatest.Env, topic, stream string) {
	t.Helper()
	count := 0
	for _, message := range env.ReadAll(t, env.Topics.Parked()) {
		var parked kafka.Parked
		if err := json.Unmarshal(message.Value, &parked); err != nil {
			t.Fatal(err)
		}
		if parked.Topic == topic && parked.Subject == stream && parked.Reason != "" {
			count++
		}
		if strings.Contains(string(message.Value), "xxx") {
			t.Error("the notice holds the payload")
		}
	}
	if count != 1 {
		t.Errorf("%s is parked %d times, want once", stream, count)
	}
}

func secondRelayStandsBy(t *testing.T, env *kafkatest.Env) {
	known := ensure(t, env, kafka.Settings{Partitions: 1})
	log := newLog()
	stopFirst := startRelay(t, env, known, log)
	startRelay(t, env, known, log)
	for version := int64(1); version <= 20; version++ {
		log.commit(placedEvent("o1", version))
		if version == 10 {
			waitRelayed(t, log)
			stopFirst()
		}
	}
	waitRelayed(t, log)
	versions := []int64{}
	for _, record := range decodeAll(t, env.ReadAll(t, env.Topics.Events("order"))) {
		versions = append(versions, record.Version)
	}
	if len(versions) != 20 {
		t.Errorf("published versions %v, want 1..20 once: the first stopped cleanly", versions)
	}
}
