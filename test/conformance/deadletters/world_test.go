// Package deadletters_test is what operators are promised of DLQs, on real Kafka and PostgreSQL, once at the
// service itself and once through the ops API and its client.
package deadletters_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	httpapi "andes/adapters/http"
	"andes/adapters/kafka"
	"andes/adapters/opsclient"
	"andes/adapters/postgres"
	"andes/commands/partner"
	"andes/deadletters"
	"andes/eventstore"
	"andes/test/kafkatest"
	"andes/test/pgtest"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

// trial is one promise.
type trial struct {
	name string
	run  func(t *testing.T, w *world)
}

var trials = slices.Concat(lookTrials, runTrials, orderTrials, badTrials)

func TestDirect(t *testing.T) {
	exercise(t, func(t *testing.T, w *world) { w.desk, w.actor = w.service, "os:ada" })
}

func TestThroughTheAPI(t *testing.T) { exercise(t, throughAPI) }

func exercise(t *testing.T, access func(t *testing.T, w *world)) {
	for _, trial := range trials {
		t.Run(strings.ReplaceAll(trial.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, kafkatest.New(t))
			access(t, w)
			trial.run(t, w)
		})
	}
}

const consumer = "payer"

// The events of the trials.
type (
	placed struct {
		Lines int    `json:"lines"`
		Name  string `json:"name,omitempty" sensitive:"true"`
		Token string `json:"token" sensitive:"true"`
	}
	paid  struct{}
	order struct{ Lines int }
)

func (s order) owner() string { return "acme" }

var orders = eventstore.NewAggregate(eventstore.Category[order]{
	Name: "order", Owner: func(s *order) string { return s.owner() },
	Events: []eventstore.Definition[order]{
		eventstore.Define("order.placed", func(s *order, e placed) { s.Lines = e.Lines }),
		eventstore.Define("order.paid", func(*order, paid) {}),
	},
})

// happen appends events to an order.
type happen struct {
	key    string
	events []any
}

func (c happen) Needs() []eventstore.Stream { return []eventstore.Stream{orders.Stream(c.key)} }

func (c happen) Decide(u *eventstore.Unit) (any, error) {
	return orders.Append(u, c.key, c.events...), nil
}

// world is a platform with one consumer, and an operator's desk at it.
type world struct {
	t        *testing.T
	env      *kafkatest.Env
	store    *postgres.Store
	registry *eventstore.Registry
	service  *deadletters.Service
	desk     httpapi.DeadLetters
	actor    string
	origin   int64 // the next origin offset

	mu      sync.Mutex
	failing map[string]error // by event id
	handled []eventstore.Record
}

func newWorld(t *testing.T, env *kafkatest.Env) *world {
	t.Helper()
	registry, err := eventstore.NewRegistry(orders)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, env: env, registry: registry, failing: map[string]error{}}
	w.store = pgtest.Store(t, pgtest.Config(t), registry)
	w.env.Ensure(t, w.env.Topics.All(registry, consumer), kafka.Settings{Partitions: 2})
	w.service = w.newService(t, postgres.Settlements{DB: w.store.DB})
	return w
}

func (w *world) topic() string { return w.env.Topics.Events("order") }

// newService makes a service as another process would.
func (w *world) newService(t *testing.T, ledger deadletters.Ledger) *deadletters.Service {
	t.Helper()
	log, err := kafka.NewDeadLetterLog(t.Context(), kafka.DeadLetterLogConfig{Cluster: w.env.Cluster, Names: w.env.Topics})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	service, err := deadletters.New(deadletters.Config{
		Consumers: []deadletters.Consumer{
			{Name: consumer, Topics: []string{w.topic()}, Ordered: true, Replays: true},
		},
		Log: log, Ledger: ledger, Events: w.store.DB, Registry: w.registry,
		Now: time.Now, NewID: func() string { return uuid.Must(uuid.NewV7()).String() },
		Rehearse: func(context.Context, string) (deadletters.Rehearsal, error) {
			return &rehearsal{preview: postgres.NewPreview(w.store.DB, time.Now, uuid.NewString)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return service
}

// rehearsal is the handler of this world: an order that was placed is paid.
type rehearsal struct{ preview *postgres.Preview }

func (r *rehearsal) Handle(ctx context.Context, record eventstore.Record) (deadletters.Effects, error) {
	if strings.Contains(string(record.Data), eventstore.Redacted) {
		return deadletters.Effects{}, errors.New("redacted")
	}
	_, err := r.preview.Execute(ctx, eventstore.Request{Command: happen{record.Stream.Key, []any{paid{}}}})
	return deadletters.Effects{Events: r.preview.Take(), Calls: []deadletters.Call{{Method: "POST", URL: "http://gateway/charges", Assumed: "none"}}}, err
}

func (r *rehearsal) Close() {}

// nobody is a set of partners without any.
type nobody struct{}

func (nobody) Partner(context.Context, string) (partner.State, bool, error) {
	return partner.State{}, false, nil
}

func throughAPI(t *testing.T, w *world) {
	t.Helper()
	metrics := prometheus.NewRegistry()
	api, err := httpapi.New(httpapi.Config{
		Roles: []httpapi.Role{httpapi.Ops}, DeadLetters: w.service, Partners: nobody{},
		Verify: func(_ context.Context, token string) (httpapi.Principal, error) {
			return httpapi.Principal{Subject: "ada", Roles: []string{token}}, nil
		},
		Clock: time.Now, NewID: uuid.NewString, Logger: slog.New(slog.DiscardHandler), Registerer: metrics, Gatherer: metrics,
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	client, err := opsclient.New(opsclient.Config{URL: server.URL, Token: httpapi.OpsAdmin, Transport: server.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	w.desk, w.actor = client, "ops-admin:ada"
}

// consume runs the consumer until the test ends, or until stop is called.
func (w *world) consume() (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- kafka.Consume(ctx, kafka.ConsumeConfig{
			Cluster: w.env.Cluster, Names: w.env.Topics, Registry: w.registry, Settled: w.store.DB,
			Logger: slog.New(slog.DiscardHandler),
		}, kafka.Consumer{Name: consumer, Topics: []string{w.topic()}, Ordered: true, Handle: w.handle})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(stop)
	kafkatest.Eventually(w.t, "the consumer runs", func() bool {
		queues, err := w.service.Stats(w.t.Context(), consumer)
		return err == nil && queues[0].Members > 0
	})
	return stop
}

func (w *world) handle(_ context.Context, record eventstore.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.failing[record.ID]; err != nil {
		return err
	}
	w.handled = append(w.handled, record)
	return nil
}

func (w *world) fail(record eventstore.Record, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing[record.ID] = err
}

func (w *world) done() []eventstore.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.handled)
}

// versions of the events of a key that were handled, in the order of handling.
func (w *world) versions(key string) []int64 {
	var versions []int64
	for _, record := range w.done() {
		if record.Stream.Key == key {
			versions = append(versions, record.Version)
		}
	}
	return versions
}

// stored appends n events to an order and gives them.
func (w *world) stored(key string, n int) []eventstore.Record {
	w.t.Helper()
	events := make([]any, n)
	for i := range events {
		events[i] = placed{Lines: i + 1, Name: "Zz Mark", Token: "tok_" + key}
	}
	if _, err := w.store.Execute(w.t.Context(), eventstore.Request{Command: happen{key, events}, Meta: eventstore.Metadata{CorrelationID: "c-" + key, Actor: "acme"}}); err != nil {
		w.t.Fatal(err)
	}
	records, err := w.store.ReadStream(w.t.Context(), orders.Stream(key), 0, n)
	if err != nil || len(records) != n {
		w.t.Fatalf("%d records, %v", len(records), err)
	}
	return records
}

// letter is a record as it lies in the DLQ.
type letter struct {
	record  eventstore.Record
	class   string
	replays int
	extra   map[string]string
}

// park puts letters into the DLQ, as the consumer's chain does, and gives their places.
func (w *world) park(letters ...letter) []deadletters.Ref {
	w.t.Helper()
	messages := make([]*sarama.ProducerMessage, len(letters))
	for i, l := range letters {
		messages[i] = w.message(l)
	}
	w.env.Produce(w.t, messages...)
	refs := make([]deadletters.Ref, len(messages))
	for i, message := range messages {
		refs[i] = deadletters.Ref{Consumer: consumer, Partition: message.Partition, Offset: message.Offset}
	}
	return refs
}

func (w *world) message(l letter) *sarama.ProducerMessage {
	w.t.Helper()
	message := kafka.EncodeRecord(w.env.Topics.DLQ(consumer), l.record)
	declaration, _ := w.registry.Declaration(l.record.Type)
	value, redacted, err := declaration.Redact(l.record.Data)
	if err != nil {
		w.t.Fatal(err)
	}
	message.Value = sarama.ByteEncoder(value)
	now := time.Now().UTC()
	class := l.class
	if class == "" {
		class = deadletters.Permanent
	}
	headers := map[string]string{
		"andes_consumer": consumer, "andes_origin_topic": w.topic(), "andes_origin_partition": strconv.Itoa(int(w.partition(l.record.Stream.Key))),
		"andes_origin_offset": strconv.FormatInt(w.origin, 10), "andes_origin_timestamp": now.Add(-time.Minute).Format(time.RFC3339Nano),
		"andes_attempt": "4", "andes_first_failure": now.Add(-time.Minute).Format(time.RFC3339Nano), "andes_error_class": class,
		"andes_error": "refused by the gateway", "andes_due": now.Format(time.RFC3339Nano), "andes_payload_redacted": strings.Join(redacted, ","),
		"andes_failures": now.Format(time.RFC3339Nano) + " 1 transient no answer\n" + now.Format(time.RFC3339Nano) + " 4 permanent refused by the gateway",
	}
	if l.replays > 0 {
		headers["andes_replays"] = strconv.Itoa(l.replays)
	}
	for name, value := range l.extra {
		headers[name] = value
	}
	for name, value := range headers {
		if value != "" {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(name), Value: []byte(value)})
		}
	}
	w.origin++
	return message
}

// partition is where the topics have a key.
func (w *world) partition(key string) int32 {
	w.t.Helper()
	partition, err := sarama.NewMurmur2Partitioner("").Partition(&sarama.ProducerMessage{Key: sarama.StringEncoder(key)}, 2)
	if err != nil {
		w.t.Fatal(err)
	}
	return partition
}

// run advances a job to its end.
func (w *world) run(desk httpapi.DeadLetters, job deadletters.Job) (deadletters.Progress, error) {
	w.t.Helper()
	job.Consumer, job.Actor = consumer, w.actor
	for steps := 0; ; steps++ {
		progress, err := desk.Advance(w.t.Context(), job)
		if err != nil || progress.Cursor == "" {
			return progress, err
		}
		if job.Cursor = progress.Cursor; steps > 100 {
			return progress, fmt.Errorf("no end: %+v", progress)
		}
	}
}

// mustRun is run for a job that has to go well.
func (w *world) mustRun(job deadletters.Job) deadletters.Progress {
	w.t.Helper()
	progress, err := w.run(w.desk, job)
	if err != nil {
		w.t.Fatal(err)
	}
	return progress
}

func replay(filter deadletters.Filter) deadletters.Job {
	return deadletters.Job{Action: deadletters.Replayed, Filter: filter, All: filter.Empty(), Reason: "mended"}
}

func refusedWith(t *testing.T, err error, code eventstore.Code, words ...string) {
	t.Helper()
	if eventstore.CodeOf(err) != code {
		t.Errorf("error %v, want %s", err, code)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("no word of %q in: %v", word, err)
		}
	}
}
