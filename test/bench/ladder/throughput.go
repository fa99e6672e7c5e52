package main

import (
	"context"
	"syscall"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	stock "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"

	"andes/adapters/kafka"
	"andes/eventstore"
	"andes/test/bench/measure"
)

// policy is that of the events' consumers.
var policy = kafka.Policy{Tiers: []time.Duration{time.Minute, 10 * time.Minute, time.Hour}}

// throughput reads the same records by a bare consumer group and by a consumer with everything, in turn.
func (b *bench) throughput(ctx context.Context) error {
	if err := b.load(ctx); err != nil {
		return err
	}
	for end := time.Now().Add(b.warmUp); time.Now().Before(end); {
		if _, err := b.rawGroup(ctx); err != nil {
			return err
		}
		if _, err := b.wholeChain(ctx); err != nil {
			return err
		}
	}
	var ratios measure.Series
	for i := range measure.Runs {
		begun := processorTime()
		raw, err := b.rawGroup(ctx)
		if err != nil {
			return err
		}
		between := processorTime()
		chain, err := b.wholeChain(ctx)
		if err != nil {
			return err
		}
		ratios = append(ratios, chain/raw)
		b.report.Note("run %d: raw sarama group %.0f/s (%.1f µs of processor time a record), lanes + router + chain %.0f/s (%.1f µs)",
			i+1, raw, b.perRecord(between-begun), chain, b.perRecord(processorTime()-between))
	}
	b.report.Result("ladder_ratio", ratios, "x")
	return nil
}

// processorTime is what this process has used so far. Other work on the machine does not show in it.
func processorTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // its arguments are right
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func (b *bench) perRecord(d time.Duration) float64 {
	return float64(d.Microseconds()) / float64(b.records)
}

type rawGroup struct{ meter *meter }

func (rawGroup) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (rawGroup) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (g rawGroup) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "")
		g.meter.tick()
	}
	return nil
}

func (b *bench) rawGroup(ctx context.Context) (float64, error) {
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	group, err := sarama.NewConsumerGroup(b.cluster.Brokers, b.names.Group(b.group("raw")), config)
	if err != nil {
		return 0, err
	}
	defer func() { _ = group.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newMeter(b.records)
	ended := make(chan error, 1)
	go func() { ended <- group.Consume(ctx, []string{b.names.Events("order")}, rawGroup{m}) }()
	select {
	case <-m.done:
		cancel()
		<-ended
		return m.perSecond(), nil
	case err := <-ended:
		return 0, err
	}
}

// consumerOf makes a consumer that nothing is committed for, with its topics.
func (b *bench) consumerOf(ctx context.Context, handle func(context.Context, eventstore.Record) error) (kafka.Consumer, error) {
	name := b.group(consumerName)
	err := kafka.Provision{
		Cluster: b.cluster, Topics: b.names.Ladder(name, policy.Tiers...), Settings: kafka.Settings{Partitions: partitions},
	}.Ensure(ctx)
	return kafka.Consumer{Name: name, Topics: []string{b.names.Events("order")}, Handle: handle, Policy: policy, Ordered: true}, err
}

func (b *bench) wholeChain(ctx context.Context) (float64, error) {
	m := newMeter(b.records)
	consumer, err := b.consumerOf(ctx, func(context.Context, eventstore.Record) error {
		m.tick()
		return nil
	})
	if err != nil {
		return 0, err
	}
	stop := b.consume(ctx, b.names, consumer)
	select {
	case <-m.done:
	case <-ctx.Done():
	}
	if err := stop(); err != nil {
		return 0, err
	}
	return m.perSecond(), ctx.Err()
}

// handlerWork is what a handler takes that calls a database or another system.
const handlerWork = time.Millisecond

// work compares consumers whose handler takes a millisecond.
func (b *bench) work(ctx context.Context) error {
	if err := b.load(ctx); err != nil {
		return err
	}
	var ratios measure.Series
	for i := range measure.Runs {
		stock, err := b.stockSubscriber(ctx)
		if err != nil {
			return err
		}
		chain, err := b.workingChain(ctx)
		if err != nil {
			return err
		}
		ratios = append(ratios, chain/stock)
		b.report.Note("run %d: 1 ms of work: watermill-kafka %.0f/s, lanes + router + chain %.0f/s", i+1, stock, chain)
	}
	b.report.Result("ladder_1ms_ratio", ratios, "x")
	return nil
}

func (b *bench) workingChain(ctx context.Context) (float64, error) {
	m := newMeter(b.records)
	consumer, err := b.consumerOf(ctx, func(context.Context, eventstore.Record) error {
		<-time.After(handlerWork)
		m.tick()
		return nil
	})
	if err != nil {
		return 0, err
	}
	stop := b.consume(ctx, b.names, consumer)
	rate, err := m.during(ctx, b.duration)
	if stopped := stop(); err == nil {
		err = stopped
	}
	return rate, err
}

// stockSubscriber is Watermill's own for Kafka as it comes, but for reading from the oldest record.
func (b *bench) stockSubscriber(ctx context.Context) (float64, error) {
	config := stock.DefaultSaramaSubscriberConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Version = sarama.V4_0_0_0
	subscriber, err := stock.NewSubscriber(stock.SubscriberConfig{
		Brokers: b.cluster.Brokers, ConsumerGroup: b.names.Group(b.group("stock")), OverwriteSaramaConfig: config, Unmarshaler: stock.DefaultMarshaler{},
	}, watermill.NopLogger{})
	if err != nil {
		return 0, err
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return 0, err
	}
	m := newMeter(b.records)
	router.AddConsumerHandler("stock", b.names.Events("order"), subscriber, func(*message.Message) error {
		<-time.After(handlerWork)
		m.tick()
		return nil
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- router.Run(ctx) }()
	rate, err := m.during(ctx, b.duration)
	cancel()
	if stopped := <-ended; err == nil {
		err = stopped
	}
	return rate, err
}
