package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/google/uuid"

	"andes/adapters/kafka"
	"andes/adapters/postgres"
	"andes/deadletters"
	"andes/eventstore"
)

const (
	consumer   = "payer"
	partitions = 6
	batch      = 500
)

// placed is an event of about 500 bytes.
type placed struct {
	Text  string `json:"text"`
	Token string `json:"token" sensitive:"true"`
}

type order struct{ Events int }

var orders = eventstore.NewAggregate(eventstore.Category[order]{Name: "order", Events: []eventstore.Definition[order]{
	eventstore.Define("order.placed", func(s *order, _ placed) { s.Events++ }),
}})

// place appends events to many orders at once.
type place struct {
	keys []string
	each int
}

func (c place) Needs() []eventstore.Stream {
	streams := make([]eventstore.Stream, len(c.keys))
	for i, key := range c.keys {
		streams[i] = orders.Stream(key)
	}
	return streams
}

func (c place) Decide(u *eventstore.Unit) (any, error) {
	event := placed{Text: strings.Repeat("x", 400), Token: "tok_visa"}
	for _, key := range c.keys {
		for range c.each {
			orders.Append(u, key, event)
		}
	}
	return nil, nil
}

// pipeline is a DLQ with its letters, and the service that settles them.
type pipeline struct {
	service *deadletters.Service
	log     *kafka.DeadLetterLog
	store   *postgres.Store
	topics  kafka.Topics
	cluster kafka.Cluster
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// prepare fills an event store and a DLQ of their own.
func prepare(ctx context.Context, letters, keys int) (*pipeline, error) {
	registry, err := eventstore.NewRegistry(orders)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("bench_replay_%d", time.Now().UnixNano())
	config := postgres.Config{URL: os.Getenv("ANDES_POSTGRES_URL"), Schema: name}
	if err := postgres.Migrate(ctx, config); err != nil {
		return nil, err
	}
	db, err := postgres.Open(ctx, config, registry)
	if err != nil {
		return nil, err
	}
	settings := postgres.DefaultExecutorConfig()
	settings.Now, settings.NewID, settings.Logger = time.Now, newID, slog.New(slog.DiscardHandler)
	executor, err := postgres.NewExecutor(db, settings)
	if err != nil {
		return nil, err
	}
	p := &pipeline{
		store: &postgres.Store{Executor: executor, DB: db}, topics: kafka.Topics{Prefix: name + "."},
		cluster: kafka.Cluster{Brokers: strings.Split(os.Getenv("ANDES_KAFKA_BROKERS"), ","), ClientID: "bench"},
	}
	provision := kafka.Provision{Cluster: p.cluster, Topics: p.topics.All(registry, consumer), Settings: kafka.Settings{Partitions: partitions}}
	if err := provision.Ensure(ctx); err != nil {
		return nil, err
	}
	if err := p.fill(ctx, registry, letters, keys); err != nil {
		return nil, err
	}
	if p.log, err = kafka.NewDeadLetterLog(ctx, kafka.DeadLetterLogConfig{Cluster: p.cluster, Names: p.topics}); err != nil {
		return nil, err
	}
	p.service, err = deadletters.New(deadletters.Config{
		Consumers: []deadletters.Consumer{{Name: consumer, Topics: []string{p.topics.Events("order")}, Ordered: true, Replays: true}},
		Log:       p.log, Ledger: postgres.Settlements{DB: db}, Events: db, Registry: registry, Now: time.Now, NewID: newID,
	})
	return p, err
}

func (p *pipeline) close() {
	p.log.Close()
	p.store.Close()
}

// fill appends the events and parks each of them: the first of a key failed, those behind it wait.
func (p *pipeline) fill(ctx context.Context, registry *eventstore.Registry, letters, keys int) error {
	running, stop := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = p.store.Run(running)
	}()
	defer func() { stop(); <-stopped }()
	each := letters / keys
	for from := 0; from < keys; from += batch / each {
		command := place{each: each}
		for k := from; k < min(keys, from+batch/each); k++ {
			command.keys = append(command.keys, fmt.Sprintf("order-%06d", k))
		}
		if _, err := p.store.Execute(ctx, eventstore.Request{Command: command}); err != nil {
			return err
		}
	}
	return p.parkAll(ctx, registry)
}

func (p *pipeline) parkAll(ctx context.Context, registry *eventstore.Registry) error {
	config := sarama.NewConfig()
	config.Version, config.Producer.Return.Successes = sarama.V4_0_0_0, true
	config.Producer.Partitioner = sarama.NewMurmur2Partitioner
	out, err := sarama.NewSyncProducer(p.cluster.Brokers, config)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	for after := int64(0); ; {
		records, err := p.store.ReadAll(ctx, after, batch)
		if err != nil || len(records) == 0 {
			return err
		}
		messages := make([]*sarama.ProducerMessage, len(records))
		for i, record := range records {
			if messages[i], err = p.letter(registry, record); err != nil {
				return err
			}
		}
		if err := out.SendMessages(messages); err != nil {
			return err
		}
		after = records[len(records)-1].Position
	}
}

// letter gives an event as the consumer parks it.
func (p *pipeline) letter(registry *eventstore.Registry, record eventstore.Record) (*sarama.ProducerMessage, error) {
	message := kafka.EncodeRecord(p.topics.DLQ(consumer), record)
	declaration, _ := registry.Declaration(record.Type)
	value, redacted, err := declaration.Redact(record.Data)
	if err != nil {
		return nil, err
	}
	message.Value = sarama.ByteEncoder(value)
	partition, err := sarama.NewMurmur2Partitioner("").Partition(message, partitions)
	if err != nil {
		return nil, err
	}
	class := deadletters.Behind
	if record.Version == 1 {
		class = deadletters.Permanent
	}
	now := time.Now().UTC().Format(time.RFC3339Nano)
	for name, text := range map[string]string{
		"andes_consumer": consumer, "andes_origin_topic": p.topics.Events("order"), "andes_origin_partition": strconv.Itoa(int(partition)),
		"andes_origin_offset": strconv.FormatInt(record.Position, 10), "andes_origin_timestamp": now, "andes_attempt": "4", "andes_first_failure": now,
		"andes_error_class": class, "andes_error": "refused by the gateway", "andes_due": now, "andes_payload_redacted": strings.Join(redacted, ","),
	} {
		message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(name), Value: []byte(text)})
	}
	return message, nil
}
