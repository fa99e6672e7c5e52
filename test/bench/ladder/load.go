package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"andes/adapters/kafka"
	"andes/eventstore"
	"andes/test/bench/measure"
	"andes/test/members"
)

// bench is what the measurements share.
type bench struct {
	options
	report   measure.Report
	cluster  kafka.Cluster
	names    kafka.Topics
	registry *eventstore.Registry
	groups   int
	loaded   bool
}

const (
	consumerName = "bench"
	partitions   = 3
	keys         = 10_000
)

// group names a consumer group that has read nothing yet.
func (b *bench) group(kind string) string {
	b.groups++
	return fmt.Sprintf("%s%d", kind, b.groups)
}

func (b *bench) ensure(ctx context.Context, names kafka.Topics, count int32, ladder ...kafka.Topic) error {
	return kafka.Provision{
		Cluster: b.cluster, Topics: slices.Concat(names.All(b.registry), ladder), Settings: kafka.Settings{Partitions: count},
	}.Ensure(ctx)
}

// load fills the topic that the throughput is measured on.
func (b *bench) load(ctx context.Context) error {
	if b.loaded {
		return nil
	}
	b.loaded = true
	if err := b.ensure(ctx, b.names, partitions); err != nil {
		return err
	}
	return b.produce(ctx, b.names, b.records, func(i int) eventstore.Record {
		return members.Record(fmt.Sprintf("o%d", i%keys), int64(i/keys+1))
	}, nil)
}

// produce writes records; pace, if any, is waited for before each chunk.
func (b *bench) produce(ctx context.Context, names kafka.Topics, count int, record func(i int) eventstore.Record, pace <-chan time.Time) error {
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.Producer.Return.Successes = true
	config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
	config.Producer.Retry.Max = 20 // a topic that was just created takes a moment to have a leader
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewMurmur2Partitioner
	producer, err := sarama.NewSyncProducer(b.cluster.Brokers, config)
	if err != nil {
		return err
	}
	defer func() { _ = producer.Close() }()
	const chunk = 2000
	size := chunk
	if pace != nil {
		size = chunk / 40
	}
	for from := 0; from < count; from += size {
		if pace != nil {
			<-pace
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var messages []*sarama.ProducerMessage
		for i := from; i < min(from+size, count); i++ {
			messages = append(messages, kafka.EncodeRecord(names.Events("order"), record(i)))
		}
		if err := producer.SendMessages(messages); err != nil {
			if failed, are := errors.AsType[sarama.ProducerErrors](err); are {
				err = failed[0]
			}
			return fmt.Errorf("produce: %w", err)
		}
	}
	return nil
}

// consume runs a consumer with the whole chain until stop is called.
func (b *bench) consume(ctx context.Context, names kafka.Topics, consumer kafka.Consumer) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- kafka.Consume(ctx, kafka.ConsumeConfig{
			Cluster: b.cluster, Names: names, Registry: b.registry, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		}, consumer)
	}()
	return func() error {
		cancel()
		return <-ended
	}
}

// meter takes the rate of records, from the first one on.
type meter struct {
	mu    sync.Mutex
	first time.Time
	count int
	limit int // records after which done is closed
	done  chan struct{}
	took  time.Duration
}

func newMeter(limit int) *meter { return &meter{limit: limit, done: make(chan struct{})} }

func (m *meter) tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.count++; m.count == 1 {
		m.first = time.Now()
	}
	if m.count == m.limit {
		m.took = time.Since(m.first)
		close(m.done)
	}
}

// perSecond is the rate when all have been read.
func (m *meter) perSecond() float64 { return float64(m.limit) / m.took.Seconds() }

// during gives the rate over a time that begins with the first record.
func (m *meter) during(ctx context.Context, duration time.Duration) (float64, error) {
	started := time.NewTicker(time.Millisecond)
	defer started.Stop()
	for {
		m.mu.Lock()
		first := m.first
		m.mu.Unlock()
		if !first.IsZero() {
			break
		}
		select {
		case <-started.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	select {
	case <-time.After(duration):
	case <-m.done:
		return m.perSecond(), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(m.count) / time.Since(m.first).Seconds(), nil
}
