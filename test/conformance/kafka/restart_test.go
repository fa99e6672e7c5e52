package kafka_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"andes/adapters/kafka"
	"andes/eventstore"
	"andes/test/kafkatest"
)

var restartTrials = []trial{
	{"relay survives a broker restart without loss", relaySurvivesRestart},
	{"relay, consumer and state feed start while Kafka is away and work when it comes", workersStartBeforeKafka},
	{"a consumer survives a broker restart without loss and in order per key", consumerSurvivesRestart},
	{"a state feed survives a broker restart", feedSurvivesRestart},
	{"every worker stops in time while Kafka is away", workersStopWithoutKafka},
}

func relaySurvivesRestart(t *testing.T, env *kafkatest.Env) {
	known := ensure(t, env, kafka.Settings{Partitions: 2})
	log := newLog()
	startRelay(t, env, known, log)
	const before, after = 300, 600
	for version := int64(1); version <= before; version++ {
		log.commit(placedEvent("o1", version))
	}
	env.Stop(t)
	for version := int64(before + 1); version <= after; version++ {
		log.commit(placedEvent("o1", version))
	}
	env.Start(t)
	waitRelayed(t, log)
	seen := map[int64]bool{}
	last := int64(0)
	for _, record := range decodeAll(t, env.ReadAll(t, env.Topics.Events("order"))) {
		seen[record.Version] = true
		last = record.Version
	}
	if len(seen) != after || last != after {
		t.Errorf("%d of %d events published, the last is %d", len(seen), after, last)
	}
}

func workersStartBeforeKafka(t *testing.T, env *kafkatest.Env) {
	known := ensure(t, env, kafka.Settings{Partitions: 1}, consumerName, "projector")
	env.Stop(t)
	log, got, projected := newLog(), &recorder{}, &applied{}
	log.commit(placedEvent("o1", 1), event("stock", "sku0", 1, "stock.counted", `{"onHand":1}`))
	startRelay(t, env, known, log)
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		got.done(record)
		return nil
	})
	start(t, func(ctx context.Context) error {
		return feed(t, env).Run(ctx, func(_ context.Context, batch []eventstore.StateRecord) error {
			projected.take(batch)
			return nil
		})
	})
	env.Start(t)
	kafkatest.Eventually(t, "everything arrives", func() bool {
		return log.saved() == log.head() && got.has("o1", 1) && projected.version("sku0") == 1
	})
}

func consumerSurvivesRestart(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 2}, consumerName)
	const keys, versions = 10, 30
	produceRound := func(from, to int64) {
		var records []eventstore.Record
		for version := from; version <= to; version++ {
			for key := range keys {
				records = append(records, placedEvent(fmt.Sprintf("o%d", key), version))
			}
		}
		produceEvents(t, env, records...)
	}
	got := &recorder{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		got.done(record)
		return nil
	})
	produceRound(1, versions/2)
	kafkatest.Eventually(t, "the consumer works", func() bool { return got.count() > 0 })
	env.Stop(t)
	env.Start(t)
	produceRound(versions/2+1, versions)
	kafkatest.Eventually(t, "every key reaches its last version", func() bool {
		for key := range keys {
			if !got.has(fmt.Sprintf("o%d", key), versions) {
				return false
			}
		}
		return true
	})
	highest := map[string]int64{}
	for _, record := range got.handled {
		key := record.Stream.Key
		if record.Version > highest[key]+1 {
			t.Errorf("%s: version %d after %d", key, record.Version, highest[key])
		}
		highest[key] = max(highest[key], record.Version)
	}
}

func feedSurvivesRestart(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 2}, "projector")
	got := &applied{}
	start(t, func(ctx context.Context) error {
		return feed(t, env).Run(ctx, func(_ context.Context, batch []eventstore.StateRecord) error {
			got.take(batch)
			return nil
		})
	})
	env.Produce(t, stockMessages(env, 5, 10)...)
	kafkatest.Eventually(t, "the feed works", func() bool { return got.version("sku0") == 10 })
	env.Stop(t)
	env.Start(t)
	env.Produce(t, stockMessages(env, 5, 20)...)
	kafkatest.Eventually(t, "the feed goes on", func() bool { return got.version("sku0") == 20 && got.version("sku4") == 20 })
}

func workersStopWithoutKafka(t *testing.T, env *kafkatest.Env) {
	known := ensure(t, env, kafka.Settings{Partitions: 1}, consumerName, "projector")
	log := newLog()
	got := &recorder{}
	stops := []func(){
		startRelay(t, env, known, log),
		consume(t, env, func(_ context.Context, record eventstore.Record) error {
			got.done(record)
			return nil
		}),
		start(t, func(ctx context.Context) error {
			return feed(t, env).Run(ctx, func(context.Context, []eventstore.StateRecord) error { return nil })
		}),
	}
	log.commit(placedEvent("o1", 1))
	kafkatest.Eventually(t, "the workers work", func() bool { return got.count() > 0 })
	env.Stop(t)
	log.commit(placedEvent("o1", 2))
	began := time.Now()
	for _, stop := range stops {
		stop()
	}
	if took := time.Since(began); took > kafkatest.Patience {
		t.Errorf("stopping took %s", took)
	}
	if log.saved() == log.head() {
		t.Error("the checkpoint passed a record that no broker has")
	}
}
