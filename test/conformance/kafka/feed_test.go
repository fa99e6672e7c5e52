package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/IBM/sarama"

	"andes/adapters/kafka"
	"andes/eventstore"
	"andes/test/kafkatest"
)

var feedTrials = []trial{
	{"state feed hands over batches in order per key, with tombstones", feedHandsOver},
	{"state feed repeats a failed batch and commits only what was taken", feedRepeats},
	{"state feed tells how far it is", feedTellsItsProgress},
	{"KAFKA-01 state feed sends undecodable records to the DLQ and goes on", feedSkipsUndecodable},
}

// applied is a projector in memory.
type applied struct {
	mu     sync.Mutex
	states map[string]eventstore.StateRecord
	seen   int
}

func (a *applied) take(batch []eventstore.StateRecord) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.states == nil {
		a.states = map[string]eventstore.StateRecord{}
	}
	for _, state := range batch {
		a.seen++
		if state.Position >= a.states[state.Stream.Key].Position {
			a.states[state.Stream.Key] = state
		}
	}
}

func (a *applied) version(key string) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.states[key].Version
}

func feed(t *testing.T, env *kafkatest.Env) kafka.StateFeed {
	return kafka.StateFeed{Cluster: env.Cluster, Names: env.Topics, Group: "projector", Topics: []string{env.Topics.State("stock")}, Logger: logger(t)}
}

func stockMessages(env *kafkatest.Env, keys int, versions int64) []*sarama.ProducerMessage {
	var messages []*sarama.ProducerMessage
	for version := int64(1); version <= versions; version++ {
		for key := range keys {
			messages = append(messages, kafka.EncodeState(env.Topics.State("stock"), stockState(fmt.Sprintf("sku%d", key), version, `{"onHand":1}`)))
		}
	}
	return messages
}

func feedHandsOver(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 3}, "projector")
	const keys, versions = 40, 50
	env.Produce(t, stockMessages(env, keys, versions)...)
	env.Produce(t, kafka.EncodeState(env.Topics.State("stock"), stockState("sku0", versions+1, "")))
	got := &applied{}
	last := map[string]int64{}
	start(t, func(ctx context.Context) error {
		return feed(t, env).Run(ctx, func(_ context.Context, batch []eventstore.StateRecord) error {
			if len(batch) > kafka.DefaultFeedBatch {
				t.Errorf("a batch of %d", len(batch))
			}
			for _, state := range batch {
				if key := state.Stream.Key; state.Version != last[key]+1 {
					t.Errorf("%s jumps from version %d to %d", key, last[key], state.Version)
				}
				last[state.Stream.Key] = state.Version
			}
			got.take(batch)
			return nil
		})
	})
	kafkatest.Eventually(t, "every state arrives", func() bool {
		got.mu.Lock()
		defer got.mu.Unlock()
		return got.seen == keys*versions+1
	})
	if state := got.states["sku0"]; state.State != nil || state.Version != versions+1 {
		t.Errorf("sku0 ends as %+v, want its tombstone", state)
	}
}

func feedRepeats(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 1}, "projector")
	topic := env.Topics.State("stock")
	env.Produce(t, stockMessages(env, 1, 10)...)
	tried := make(chan struct{}, 100)
	stop := start(t, func(ctx context.Context) error {
		return feed(t, env).Run(ctx, func(context.Context, []eventstore.StateRecord) error {
			tried <- struct{}{}
			return errors.New("redis is away")
		})
	})
	for range 3 {
		<-tried
	}
	stop()
	if offset := env.Committed(t, env.Topics.Group("projector"), topic, 0); offset > 0 {
		t.Fatalf("offset %d was committed, though nothing was taken", offset)
	}
	got := &applied{}
	stop = start(t, func(ctx context.Context) error {
		return feed(t, env).Run(ctx, func(_ context.Context, batch []eventstore.StateRecord) error {
			got.take(batch)
			return nil
		})
	})
	kafkatest.Eventually(t, "the batch comes again", func() bool { return got.version("sku0") == 10 })
	stop()
	if offset := env.Committed(t, env.Topics.Group("projector"), topic, 0); offset != 10 {
		t.Errorf("offset %d is committed after a clean stop, want 10", offset)
	}
}

func feedSkipsUndecodable(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 1}, "projector")
	topic := env.Topics.State("stock")
	bad := undecodables(topic)
	env.Produce(t, stockMessages(env, 1, 1)...)
	env.Produce(t, bad...)
	env.Produce(t, kafka.EncodeState(topic, stockState("sku0", 2, `{"onHand":2}`)))
	got := &applied{}
	stop := start(t, func(ctx context.Context) error {
		return feed(t, env).Run(ctx, func(_ context.Context, batch []eventstore.StateRecord) error {
			got.take(batch)
			return nil
		})
	})
	kafkatest.Eventually(t, "the valid neighbours arrive", func() bool { return got.version("sku0") == 2 })
	stop()
	if letters := env.ReadAll(t, env.Topics.DLQ("projector")); len(letters) != len(bad) {
		t.Errorf("%d records in the DLQ, want %d", len(letters), len(bad))
	}
	if offset := env.Committed(t, env.Topics.Group("projector"), topic, 0); offset != int64(len(bad)+2) {
		t.Errorf("offset %d is committed, want %d: past the bad ones", offset, len(bad)+2)
	}
}

// undecodables are records that are none of ours, for any topic. (Kafka itself refuses a record without
// a key on a compacted one.)
func undecodables(topic string) []*sarama.ProducerMessage {
	var messages []*sarama.ProducerMessage
	for _, value := range []string{"not-json", "{}", "[]", "null", "\xff\xfe", ""} {
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder("k"), Value: sarama.StringEncoder(value)})
	}
	valid := func() *sarama.ProducerMessage { return kafka.EncodeState(topic, stockState("sku0", 9, `{"onHand":1}`)) }
	for _, value := range []string{"null", "[]", "", "\xff\xfe"} {
		message := valid()
		message.Value = sarama.StringEncoder(value)
		messages = append(messages, message)
	}
	emptyKey, otherKey := valid(), valid()
	emptyKey.Key, otherKey.Key = sarama.StringEncoder(""), sarama.StringEncoder("other")
	return append(messages, emptyKey, otherKey)
}
