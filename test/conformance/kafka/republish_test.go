package kafka_test

import (
	"fmt"
	"testing"

	"andes/adapters/kafka"
	"andes/eventstore"
	"andes/test/kafkatest"
)

var republishTrials = []trial{
	{"a part of the log is published again beside what is new, with the same ids, and only to the topics that were asked for", republishes},
	{"OUTBOX-07 publishing again ends each key on its newest state, whatever happens meanwhile", republishedStatesEndNewest},
	{"publishing again waits for a topic that is missing, and holds nobody up", republishWaits},
}

// order has a part of the log published again.
func (l *memoryLog) order(order eventstore.Republication) {
	l.mu.Lock()
	defer l.mu.Unlock()
	order.Reached = order.After
	l.again = order
}

func (l *memoryLog) ordered() eventstore.Republication {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.again
}

func (l *memoryLog) waitRepublished(t *testing.T) {
	t.Helper()
	kafkatest.Eventually(t, "the part is published again", func() bool { return !l.ordered().Open() })
}

func republishes(t *testing.T, env *kafkatest.Env) {
	known := ensure(t, env, kafka.Settings{Partitions: 2})
	log := newLog()
	const rounds = 300 // more than a page
	for version := int64(1); version <= rounds; version++ {
		log.commit(placedEvent("o1", version), event("order", "o2", version, "order.confirmed", `{}`), event("stock", "sku0", version, "stock.counted", `{"onHand":3}`))
	}
	startRelay(t, env, known, log)
	waitRelayed(t, log)
	before := map[string]int{}
	topics := []string{env.Topics.Events("order"), env.Topics.Events("stock"), env.Topics.Commands("oms"), env.Topics.State("order"), env.Topics.State("stock")}
	for _, topic := range topics {
		before[topic] = len(env.ReadAll(t, topic))
	}
	// The log's positions 10 to 610 have 201 events of o1, 200 of o2 and 200 of sku0.
	log.order(eventstore.Republication{ID: "1", After: 9, To: 610, Categories: []string{"order"}, Topics: []string{eventstore.RepublishEvents, eventstore.RepublishCommands}})
	log.commit(placedEvent("o3", 1))
	log.waitRepublished(t)
	waitRelayed(t, log)
	again := map[string]int{}
	for _, topic := range topics {
		again[topic] = len(env.ReadAll(t, topic)) - before[topic]
	}
	want := map[string]int{env.Topics.Events("order"): 402, env.Topics.Commands("oms"): 200, env.Topics.State("order"): 1}
	for _, topic := range topics {
		if again[topic] != want[topic] {
			t.Errorf("%s got %d records more, want %d", topic, again[topic], want[topic])
		}
	}
	versions, ids := map[string]int64{}, map[string]string{}
	for _, record := range decodeAll(t, env.ReadAll(t, env.Topics.Events("order"))) {
		name := fmt.Sprint(record.Stream, record.Version)
		if id, repeated := ids[name]; repeated && id != record.ID {
			t.Errorf("%s came as %s and as %s", name, id, record.ID)
		} else if !repeated && record.Version != versions[record.Stream.Key]+1 {
			t.Errorf("%s came first after version %d", name, versions[record.Stream.Key])
		}
		ids[name] = record.ID
		versions[record.Stream.Key] = max(versions[record.Stream.Key], record.Version)
	}
	if order := log.ordered(); order.Records != 601 || order.Reached != 610 {
		t.Errorf("%+v", order)
	}
}

func republishedStatesEndNewest(t *testing.T, env *kafkatest.Env) {
	known := ensure(t, env, kafka.Settings{Partitions: 2})
	log := newLog()
	const keys, rounds = 40, 30
	round := func(version int64) {
		for key := range keys {
			log.commit(event("stock", fmt.Sprint("sku", key), version, "stock.counted", fmt.Sprintf(`{"onHand":%d}`, version)))
		}
	}
	for version := int64(1); version <= rounds; version++ {
		round(version)
	}
	startRelay(t, env, known, log)
	waitRelayed(t, log)
	log.order(eventstore.Republication{ID: "1", To: log.head(), Topics: []string{eventstore.RepublishStates}})
	for version := int64(rounds + 1); version <= 2*rounds; version++ {
		round(version)
		if version == rounds+rounds/2 {
			log.fence() // another instance takes over in the middle
		}
	}
	log.waitRepublished(t)
	waitRelayed(t, log)
	latest := map[string]int64{}
	for _, message := range env.ReadAll(t, env.Topics.State("stock")) {
		state, err := kafka.DecodeState(message)
		if err != nil {
			t.Fatal(err)
		}
		if state.Version < latest[state.Stream.Key] {
			t.Errorf("%s goes back from version %d to %d", state.Stream.Key, latest[state.Stream.Key], state.Version)
		}
		latest[state.Stream.Key] = state.Version
	}
	for key, version := range latest {
		if version != 2*rounds {
			t.Errorf("%s ends on version %d", key, version)
		}
	}
	if len(latest) != keys || len(env.ReadAll(t, env.Topics.Events("stock"))) < 2*keys*rounds {
		t.Errorf("%d keys", len(latest))
	}
}

func republishWaits(t *testing.T, env *kafkatest.Env) {
	known := ensure(t, env, kafka.Settings{Partitions: 1})
	log := newLog()
	log.commit(placedEvent("o1", 1), event("stock", "sku0", 1, "stock.counted", `{"onHand":3}`))
	startRelay(t, env, known, log)
	waitRelayed(t, log)
	lost := env.Topics.State("stock")
	env.Lose(t, lost)
	log.order(eventstore.Republication{ID: "1", To: 2})
	log.commit(placedEvent("o1", 2))
	waitRelayed(t, log)
	if order := log.ordered(); !order.Open() {
		t.Errorf("it is done without the topic: %+v", order)
	}
	ensure(t, env, kafka.Settings{Partitions: 1})
	log.waitRepublished(t)
	if states := env.ReadAll(t, lost); len(states) != 1 {
		t.Errorf("%d states", len(states))
	}
}
