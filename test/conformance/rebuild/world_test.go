// Package rebuild_test is what a rebuild promises, with PostgreSQL, Kafka and Redis working together.
package rebuild_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"andes/adapters/kafka"
	"andes/adapters/postgres"
	"andes/adapters/redis"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/projections"
	"andes/rebuild"
	"andes/test/kafkatest"
	"andes/test/pgtest"
	"andes/test/redistest"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

// world is a platform without partners: a store, topics, and a Redis.
type world struct {
	t        *testing.T
	registry *eventstore.Registry
	store    *postgres.Store
	postgres postgres.Config
	kafka    *kafkatest.Env
	redis    redis.Config
	server   *redistest.Server // nil: the shared one
	client   *redis.Client
	model    *redis.ReadModel
	set      *projections.Set
	reader   *kafka.StateReader

	copyPatience time.Duration // of the rebuilds
	readPatience time.Duration // of the readers

	mu     sync.Mutex
	broken []rebuild.Broken
}

// Patience with what is well, on a machine that has too much to do, and with what a test takes away.
const (
	busy  = time.Minute
	short = 3 * time.Second
)

// choice says what a test needs for itself.
type choice struct {
	ownKafka, ownRedis bool
	partitions         int32
}

func open(t *testing.T, c choice) *world {
	t.Helper()
	w := &world{t: t, registry: pgtest.Registry(t), postgres: pgtest.Config(t), copyPatience: busy, readPatience: busy}
	w.store = pgtest.Store(t, w.postgres, w.registry)
	if c.ownRedis {
		w.server = redistest.StartServer(t)
		w.redis = redis.DefaultConfig
		w.redis.Addrs = []string{w.server.Addr}
	} else {
		w.redis = redistest.Config(t)
	}
	w.client = redistest.Open(t, w.redis)
	var err error
	if w.model, err = redis.NewReadModel(w.client, redis.ReadModelConfig{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	if w.set, err = projections.NewSet(projections.All()...); err != nil {
		t.Fatal(err)
	}
	if c.ownKafka {
		w.kafka, w.readPatience = kafkatest.Embedded(t), short
	} else {
		w.kafka = kafkatest.New(t)
	}
	if c.partitions == 0 {
		c.partitions = 3
	}
	w.kafka.Ensure(t, w.topics(), kafka.Settings{Partitions: c.partitions})
	w.reader = w.openReader()
	return w
}

// topics are those that a rebuild reads and writes.
func (w *world) topics() []kafka.Topic {
	topics := []kafka.Topic{{Name: w.kafka.Topics.DLQ("projector"), Kind: kafka.DeadLetterTopic}}
	for _, category := range w.set.Categories() {
		topics = append(topics, kafka.Topic{Name: w.kafka.Topics.State(category), Kind: kafka.StateTopic})
	}
	return topics
}

func (w *world) openReader() *kafka.StateReader {
	w.t.Helper()
	reader, err := kafka.NewStateReader(w.t.Context(), kafka.StateReaderConfig{
		Cluster: w.kafka.Cluster, Names: w.kafka.Topics, Group: "projector", Patience: w.readPatience, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(reader.Close)
	return reader
}

func (w *world) rebuilder(adjust func(*rebuild.Config)) *rebuild.Rebuilder {
	w.t.Helper()
	config := rebuild.Config{
		Set: w.set, Copy: w.model, States: w.store.DB, Ledger: postgres.Rebuilds{DB: w.store.DB}, Now: time.Now,
		Sources: map[string]rebuild.Source{
			rebuild.FromTopics: w.reader,
			rebuild.FromStates: postgres.StateSource{DB: w.store.DB},
			rebuild.FromEvents: postgres.StateSource{DB: w.store.DB, Events: true},
		},
		Patience: 2 * time.Second, CopyPatience: w.copyPatience, SaveEvery: 50 * time.Millisecond, ReportEvery: 20 * time.Millisecond,
		Found: func(b rebuild.Broken) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.broken = append(w.broken, b)
		},
		Logger: slog.New(slog.DiscardHandler),
	}
	if adjust != nil {
		adjust(&config)
	}
	r, err := rebuild.New(config)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// rebuild builds a generation and expects no error.
func (w *world) rebuild(request rebuild.Request) rebuild.Run {
	w.t.Helper()
	run, err := w.rebuilder(nil).Rebuild(w.t.Context(), request)
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// execute runs commands in the store, side by side so that they share transactions.
func (w *world) execute(commands ...eventstore.Command) {
	w.t.Helper()
	const callers = 32
	var all sync.WaitGroup
	slots := make(chan struct{}, callers)
	for _, command := range commands {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if _, err := w.store.Execute(w.t.Context(), eventstore.Request{Command: command}); err != nil {
				w.t.Errorf("%#v: %v", command, err)
			}
		})
	}
	all.Wait()
}

// publish puts the current states of categories into their topics, as the relay does.
func (w *world) publish(categories ...string) {
	w.t.Helper()
	for _, category := range categories {
		err := w.store.EachState(w.t.Context(), category, func(records []eventstore.StateRecord) error {
			w.produce(records...)
			return nil
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) produce(records ...eventstore.StateRecord) {
	w.t.Helper()
	var messages []*sarama.ProducerMessage
	for _, record := range records {
		messages = append(messages, kafka.EncodeState(w.kafka.Topics.State(record.Stream.Category), record))
	}
	w.kafka.Produce(w.t, messages...)
}

// relayLog gives the relay its port.
type relayLog struct{ *postgres.RelayLog }

func (l relayLog) Acquire(ctx context.Context) (kafka.Session, error) { return l.RelayLog.Acquire(ctx) }

// feed runs the projector until the test ends or stop is called.
func (w *world) feed() (stop func()) {
	var names []string
	for _, category := range w.set.Categories() {
		names = append(names, w.kafka.Topics.State(category))
	}
	feed := kafka.StateFeed{Cluster: w.kafka.Cluster, Names: w.kafka.Topics, Group: "projector", Topics: names, Logger: slog.New(slog.DiscardHandler)}
	return w.background(func(ctx context.Context) error { return feed.Run(ctx, w.model.Project) })
}

// relay runs the relay until the test ends or stop is called.
func (w *world) relay() (stop func()) {
	w.t.Helper()
	w.kafka.Ensure(w.t, w.kafka.Topics.All(w.registry), kafka.Settings{Partitions: 3})
	relay, err := kafka.NewRelay(kafka.RelayConfig{
		Cluster: w.kafka.Cluster, Topics: w.kafka.Topics, Registry: w.registry, Logger: slog.New(slog.DiscardHandler),
		Log: relayLog{postgres.NewRelayLog(w.store.DB, postgres.DefaultRelayConfig())},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.background(relay.Run)
}

func (w *world) background(run func(ctx context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			w.t.Error(err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	w.t.Cleanup(stop)
	return stop
}

// pointer gives the generation pointer.
func (w *world) pointer() string {
	w.t.Helper()
	named, err := w.client.Generations(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return named.String()
}

// differing gives the keys of the serving generation that are not as PostgreSQL has them.
func (w *world) differing() []string {
	w.t.Helper()
	report, err := w.rebuilder(nil).Verify(w.t.Context(), rebuild.Check{})
	if err != nil {
		w.t.Fatal(err)
	}
	var keys []string
	for _, d := range report.Differences {
		keys = append(keys, d.Kind+" "+d.Key)
	}
	slices.Sort(keys)
	return keys
}

// expectSame fails the test unless the serving generation is as PostgreSQL has it.
func (w *world) expectSame() {
	w.t.Helper()
	if keys := w.differing(); len(keys) > 0 {
		w.t.Errorf("keys that differ from PostgreSQL: %s", strings.Join(keys, ", "))
	}
}

// keysOf counts what a generation has of each read model.
func (w *world) keysOf(generation projections.Generation) int64 {
	w.t.Helper()
	census, err := w.model.Census(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	total := int64(0)
	for _, n := range census.Keys[generation] {
		total += n
	}
	return total
}

var at = time.Date(2026, 3, 1, 12, 0, 0, 123e6, time.UTC)

func sku(i int) string { return fmt.Sprintf("SKU-%05d", i) }

func level(sku string, onHand, version int64) eventstore.Command {
	return stock.Report{SKU: sku, OnHand: onHand, SourceVersion: version, At: at}
}

// fill has n SKUs with stock, price and product.
func (w *world) fill(n int) {
	w.t.Helper()
	var commands []eventstore.Command
	for i := range n {
		commands = append(commands, level(sku(i), int64(i), 1),
			price.Report{List: "retail", SKU: sku(i), Amount: "2.55", Currency: "GBP", SourceVersion: 1, At: at},
			product.Report{SKU: sku(i), Name: "Holder {2} lights", Segment: "home", SourceVersion: 1, At: at})
	}
	w.execute(commands...)
}
