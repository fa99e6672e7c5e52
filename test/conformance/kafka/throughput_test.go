package kafka_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"andes/adapters/kafka"
	"andes/eventstore"
	"andes/test/kafkatest"
)

// The three benchmarks read the same records, so that the price of the lanes and of the chain shows:
//
//	go test -run - -bench . -benchtime 200000x ./test/conformance/kafka

const benchPartitions = 3

func benchEnv(b *testing.B) *kafkatest.Env {
	b.Helper()
	env := kafkatest.Embedded(b)
	known := registry(b)
	env.Ensure(b, env.Topics.All(known, consumerName), kafka.Settings{Partitions: benchPartitions})
	payload := `{"lines":2,"token":"` + strings.Repeat("x", 480) + `"}`
	const chunk = 5000
	for produced := 0; produced < b.N; produced += chunk {
		messages := make([]*sarama.ProducerMessage, 0, chunk)
		for i := produced; i < min(produced+chunk, b.N); i++ {
			record := event("order", fmt.Sprintf("o%d", i%10_000), int64(i/10_000+1), "order.placed", payload)
			messages = append(messages, kafka.EncodeRecord(env.Topics.Events("order"), record))
		}
		env.Produce(b, messages...)
	}
	b.ReportAllocs()
	return env
}

// counting gives a function to call per record; done closes with the last.
func counting(b *testing.B) (count func(), done chan struct{}) {
	var seen atomic.Int64
	done = make(chan struct{})
	return func() {
		if seen.Add(1) == int64(b.N) {
			close(done)
		}
	}, done
}

func report(b *testing.B) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

type rawGroup struct{ count func() }

func (rawGroup) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (rawGroup) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (g rawGroup) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		g.count()
	}
	return nil
}

func BenchmarkRawGroup(b *testing.B) {
	env := benchEnv(b)
	count, done := counting(b)
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	b.ResetTimer()
	group, err := sarama.NewConsumerGroup(env.Cluster.Brokers, "raw", config)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- group.Consume(ctx, []string{env.Topics.Events("order")}, rawGroup{count}) }()
	<-done
	report(b)
	cancel()
	<-ended
	_ = group.Close()
}

func BenchmarkLanes(b *testing.B) {
	env := benchEnv(b)
	count, done := counting(b)
	b.ResetTimer()
	subscriber, err := kafka.NewLanes(kafka.LaneConfig{Cluster: env.Cluster, Group: "lanes", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	messages, err := subscriber.Subscribe(b.Context(), env.Topics.Events("order"))
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		for m := range messages {
			m.Ack()
			count()
		}
	}()
	<-done
	report(b)
	_ = subscriber.Close()
}

func BenchmarkConsume(b *testing.B) {
	env := benchEnv(b)
	count, done := counting(b)
	ctx, cancel := context.WithCancel(b.Context())
	cfg := kafka.ConsumeConfig{
		Cluster: env.Cluster, Names: env.Topics, Registry: registry(b), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	consumer := kafka.Consumer{Name: consumerName, Topics: []string{env.Topics.Events("order")},
		Handle: func(context.Context, eventstore.Record) error {
			count()
			return nil
		}}
	ended := make(chan error, 1)
	b.ResetTimer()
	go func() { ended <- kafka.Consume(ctx, cfg, consumer) }()
	<-done
	report(b)
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}

func BenchmarkStateFeed(b *testing.B) {
	env := kafkatest.Embedded(b)
	env.Ensure(b, env.Topics.All(registry(b), consumerName), kafka.Settings{Partitions: benchPartitions})
	const chunk = 5000
	for produced := 0; produced < b.N; produced += chunk {
		messages := make([]*sarama.ProducerMessage, 0, chunk)
		for i := produced; i < min(produced+chunk, b.N); i++ {
			messages = append(messages, kafka.EncodeState(env.Topics.State("stock"), stockState(fmt.Sprintf("sku%d", i%10_000), int64(i+1), `{"onHand":12,"reserved":3}`)))
		}
		env.Produce(b, messages...)
	}
	count, done := counting(b)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		ended <- kafka.StateFeed{Cluster: env.Cluster, Names: env.Topics, Group: "projector", Topics: []string{env.Topics.State("stock")},
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}.Run(ctx, func(_ context.Context, batch []eventstore.StateRecord) error {
			for range batch {
				count()
			}
			return nil
		})
	}()
	<-done
	report(b)
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}

func BenchmarkRelay(b *testing.B) {
	env := kafkatest.Embedded(b)
	known := registry(b)
	env.Ensure(b, env.Topics.All(known), kafka.Settings{Partitions: benchPartitions})
	log := newLog()
	payload := `{"lines":2,"token":"` + strings.Repeat("x", 480) + `"}`
	for i := range b.N {
		log.commit(event("order", fmt.Sprintf("o%d", i%1000), int64(i/1000+1), "order.placed", payload))
	}
	relay, err := kafka.NewRelay(kafka.RelayConfig{Cluster: env.Cluster, Topics: env.Topics, Registry: known, Log: log,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { ended <- relay.Run(ctx) }()
	kafkatest.Eventually(b, "everything is relayed", func() bool { return log.saved() == log.head() })
	report(b)
	cancel()
	<-ended
}

// BenchmarkCommitToProjector measures how long a committed change takes to reach the projector at a
// pace of 500 changes a second: relay, broker and state feed together.
func BenchmarkCommitToProjector(b *testing.B) {
	const pace = 2 * time.Millisecond
	env := kafkatest.New(b)
	known := registry(b)
	env.Ensure(b, env.Topics.All(known, "projector"), kafka.Settings{})
	log := newLog()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	relay, err := kafka.NewRelay(kafka.RelayConfig{Cluster: env.Cluster, Topics: env.Topics, Registry: known, Log: log, Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var workers sync.WaitGroup
	workers.Go(func() { _ = relay.Run(ctx) })
	count, done := counting(b)
	var mu sync.Mutex
	committed := make([]time.Time, 0, b.N+1)
	var waits []time.Duration
	ready := make(chan struct{}, 1)
	feed := kafka.StateFeed{Cluster: env.Cluster, Names: env.Topics, Group: "projector", Topics: []string{env.Topics.State("stock")}, Logger: quiet}
	workers.Go(func() {
		_ = feed.Run(ctx, func(_ context.Context, batch []eventstore.StateRecord) error {
			now := time.Now()
			mu.Lock()
			defer mu.Unlock()
			for _, state := range batch {
				if state.Position == 1 {
					ready <- struct{}{}
					continue
				}
				waits = append(waits, now.Sub(committed[state.Position-1]))
				count()
			}
			return nil
		})
	})
	commit := func(i int) {
		mu.Lock()
		committed = append(committed, time.Now())
		mu.Unlock()
		log.commit(event("stock", fmt.Sprintf("sku%d", i), 1, "stock.counted", `{"onHand":3}`))
	}
	commit(0)
	<-ready
	b.ResetTimer()
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for i := range b.N {
		<-ticker.C
		commit(i + 1)
	}
	<-done
	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1e3, "p50-ms")
	b.ReportMetric(float64(waits[len(waits)*95/100].Microseconds())/1e3, "p95-ms")
	b.ReportMetric(float64(waits[len(waits)-1].Microseconds())/1e3, "max-ms")
	cancel()
	workers.Wait()
}
