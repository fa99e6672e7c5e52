package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"andes/adapters/kafka"
	"andes/eventstore"
	"andes/test/kafkatest"
)

var laneTrials = []trial{
	{"lanes keep the order per key, failures included", lanesKeepOrder},
	{"a slow key does not hold the others", slowKeyHoldsNobody},
	{"KAFKA-13 nothing is committed past the lowest unfinished record", lowWaterMark},
	{"what is read and unfinished is bounded", inFlightIsBounded},
	{"a nacked message comes again from the subscriber", nackComesAgain},
	{"a second member takes over without loss while handlers are busy", memberJoins},
}

func lanesKeepOrder(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 2}, consumerName)
	const keys, versions = 30, 40
	var records []eventstore.Record
	for version := int64(1); version <= versions; version++ {
		for key := range keys {
			records = append(records, placedEvent(fmt.Sprintf("o%d", key), version))
		}
	}
	produceEvents(t, env, records...)
	got := &recorder{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		if record.Version%13 == 0 && got.try(record) < 5 {
			return errors.New("not yet")
		}
		got.done(record)
		return nil
	})
	kafkatest.Eventually(t, "everything is handled", func() bool { return got.count() >= keys*versions })
	last := map[string]int64{}
	for _, record := range got.handled {
		if key := record.Stream.Key; record.Version != last[key]+1 {
			t.Fatalf("%s: version %d after %d", key, record.Version, last[key])
		}
		last[record.Stream.Key] = record.Version
	}
}

func slowKeyHoldsNobody(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 1}, consumerName)
	records := []eventstore.Record{placedEvent("slow", 1), placedEvent("slow", 2)}
	for i := range 200 {
		records = append(records, placedEvent(fmt.Sprintf("o%d", i), 1))
	}
	produceEvents(t, env, records...)
	got := &recorder{}
	release := make(chan struct{})
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		if record.Stream.Key == "slow" {
			<-release
		}
		got.done(record)
		return nil
	}, func(_ *kafka.ConsumeConfig, c *kafka.Consumer) { c.Lanes = 512 })
	// One of 512 lanes is held: with luck two others share it, never half of them.
	kafkatest.Eventually(t, "the other keys are handled", func() bool { return got.count() >= 190 })
	close(release)
	waitCommitted(t, env, int64(len(records)))
}

func lowWaterMark(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 1}, consumerName)
	const records, blocked = 1000, 10
	all := make([]eventstore.Record, records)
	for i := range all {
		all[i] = placedEvent(fmt.Sprintf("o%d", i), 1)
	}
	produceEvents(t, env, all...)
	got := &recorder{}
	stop := consume(t, env, func(ctx context.Context, record eventstore.Record) error {
		if record.Stream.Key == fmt.Sprintf("o%d", blocked) {
			<-ctx.Done() // the OMS does not answer
			return ctx.Err()
		}
		got.done(record)
		return nil
	}, grace(10*time.Millisecond), func(_ *kafka.ConsumeConfig, c *kafka.Consumer) {
		c.Lanes, c.Policy.Timeout = 256, time.Hour
	})
	kafkatest.Eventually(t, "most others are handled", func() bool { return got.count() > records*9/10 })
	waitCommitted(t, env, blocked)
	stop()
	if offset := committed(t, env); offset != blocked {
		t.Fatalf("offset %d is committed, want %d: the unfinished record", offset, blocked)
	}
	again := &recorder{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		again.done(record)
		return nil
	})
	waitCommitted(t, env, records)
	if !again.has(fmt.Sprintf("o%d", blocked), 1) {
		t.Error("the unfinished record was lost")
	}
}

func lanes(t *testing.T, env *kafkatest.Env, shape func(*kafka.LaneConfig)) *kafka.Lanes {
	t.Helper()
	cfg := kafka.LaneConfig{Cluster: env.Cluster, Group: env.Topics.Group(consumerName), Logger: logger(t), RedeliveryMin: time.Millisecond}
	shape(&cfg)
	subscriber, err := kafka.NewLanes(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return subscriber
}

func inFlightIsBounded(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 1}, consumerName)
	const records, bound = 300, 20
	all := make([]eventstore.Record, records)
	for i := range all {
		all[i] = placedEvent(fmt.Sprintf("o%d", i), 1)
	}
	produceEvents(t, env, all...)
	subscriber := lanes(t, env, func(cfg *kafka.LaneConfig) { cfg.Lanes, cfg.InFlight = 400, bound })
	messages, err := subscriber.Subscribe(t.Context(), env.Topics.Events("order"))
	if err != nil {
		t.Fatal(err)
	}
	var held []*message.Message
	total := 0
	for total < records {
		select {
		case m := <-messages:
			held = append(held, m)
			total++
			if len(held) > bound {
				t.Fatalf("%d messages are in flight, the bound is %d", len(held), bound)
			}
		case <-time.After(50 * time.Millisecond): // all that may be in flight is here
			for _, m := range held {
				m.Ack()
			}
			held = nil
		}
	}
	for _, m := range held {
		m.Ack()
	}
	if err := subscriber.Close(); err != nil {
		t.Error(err)
	}
	if _, err := subscriber.Subscribe(t.Context(), "x"); !errors.Is(err, kafka.ErrLanesClosed) {
		t.Errorf("subscribe after close: %v", err)
	}
	if offset := committed(t, env); offset != records {
		t.Errorf("offset %d is committed after close, want %d", offset, records)
	}
}

func nackComesAgain(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 1}, consumerName)
	produceEvents(t, env, placedEvent("o1", 1), placedEvent("o1", 2))
	subscriber := lanes(t, env, func(*kafka.LaneConfig) {})
	messages, err := subscriber.Subscribe(t.Context(), env.Topics.Events("order")+","+env.Topics.Events("stock"))
	if err != nil {
		t.Fatal(err)
	}
	for attempt := 1; attempt <= 3; attempt++ {
		m := <-messages
		delivery, found := kafka.Delivered(m.Context())
		if !found || delivery.Message.Offset != 0 || delivery.Attempt != attempt {
			t.Fatalf("got offset %d, attempt %d, want 0, attempt %d", delivery.Message.Offset, delivery.Attempt, attempt)
		}
		if attempt < 3 {
			m.Nack()
		} else {
			m.Ack()
		}
	}
	(<-messages).Ack()
	if err := subscriber.Close(); err != nil {
		t.Error(err)
	}
	if _, open := <-messages; open {
		t.Error("a message after Close")
	}
	if offset := committed(t, env); offset != 2 {
		t.Errorf("offset %d is committed after close, want 2", offset)
	}
}

func memberJoins(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 4}, consumerName)
	const keys, versions = 100, 20
	var mu sync.Mutex
	highest := map[string]int64{}
	var byMember [2]atomic.Int64
	handle := func(member int) handler {
		return func(_ context.Context, record eventstore.Record) error {
			mu.Lock()
			defer mu.Unlock()
			key := record.Stream.Key
			if record.Version > highest[key]+1 {
				t.Errorf("%s: version %d after %d", key, record.Version, highest[key])
			}
			highest[key] = max(highest[key], record.Version)
			byMember[member].Add(1)
			return nil
		}
	}
	consume(t, env, handle(0))
	for version := int64(1); version <= versions; version++ {
		var records []eventstore.Record
		for key := range keys {
			records = append(records, placedEvent(fmt.Sprintf("o%d", key), version))
		}
		produceEvents(t, env, records...)
		if version == 5 {
			kafkatest.Eventually(t, "the first member works", func() bool { return byMember[0].Load() > 0 })
			consume(t, env, handle(1))
		}
		if version == versions-1 {
			kafkatest.Eventually(t, "the second member works", func() bool {
				if byMember[1].Load() > 0 {
					return true
				}
				produceEvents(t, env, records...)
				return false
			})
		}
	}
	kafkatest.Eventually(t, "every key reaches its last version", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for key := range keys {
			if highest[fmt.Sprintf("o%d", key)] != versions {
				return false
			}
		}
		return true
	})
}
