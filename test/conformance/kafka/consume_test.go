package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"andes/adapters/kafka"
	"andes/eventstore"
	"andes/test/kafkatest"
)

var consumeTrials = []trial{
	{"a permanent failure goes to the DLQ with its origin, redacted, and the next record is handled", permanentGoesToDLQ},
	{"a panic goes to the DLQ and does not end the consumer", panicGoesToDLQ},
	{"a transient failure is tried at once, then comes again, and never reaches the DLQ", transientComesAgain},
	{"KAFKA-01 undecodable records go to the DLQ as they are and the offset passes them", undecodableGoesToDLQ},
	{"KAFKA-01 an event that the registry can't read goes to the DLQ whatever the handler says", unreadableGoesToDLQ},
	{"KAFKA-05 a dead letter that fails again has its headers replaced, not repeated", headersAreReplaced},
	{"KAFKA-06 while the DLQ can't be written nothing is committed past the record", dlqUnavailable},
	{"SHUT-01 a shutdown lets handlers finish and parks nothing", shutdownFinishes},
	{"SHUT-01 a handler that outlives the grace is cancelled, parked nowhere and repeated later", shutdownCancels},
	{"the handler's context carries the correlation id", correlationIsCarried},
}

const consumerName = "saga"

// recorder is a handler that remembers what it was given.
type recorder struct {
	mu      sync.Mutex
	handled []eventstore.Record
	tries   map[string]int
}

func (r *recorder) try(record eventstore.Record) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tries == nil {
		r.tries = map[string]int{}
	}
	r.tries[record.ID]++
	return r.tries[record.ID]
}

func (r *recorder) done(record eventstore.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handled = append(r.handled, record)
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.handled)
}

func (r *recorder) has(key string, version int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range r.handled {
		if record.Stream.Key == key && record.Version == version {
			return true
		}
	}
	return false
}

type handler func(ctx context.Context, record eventstore.Record) error

// consume runs one consumer of the order events.
func consume(t *testing.T, env *kafkatest.Env, handle handler, shape ...func(*kafka.ConsumeConfig, *kafka.Consumer)) (stop func()) {
	t.Helper()
	cfg := kafka.ConsumeConfig{
		Cluster: env.Cluster, Names: env.Topics, Registry: registry(t), Logger: logger(t),
		Redelivery: 200 * time.Millisecond,
	}
	consumer := kafka.Consumer{Name: consumerName, Topics: []string{env.Topics.Events("order")}, Handle: handle}
	for _, change := range shape {
		change(&cfg, &consumer)
	}
	return start(t, func(ctx context.Context) error { return kafka.Consume(ctx, cfg, consumer) })
}

func grace(d time.Duration) func(*kafka.ConsumeConfig, *kafka.Consumer) {
	return func(cfg *kafka.ConsumeConfig, _ *kafka.Consumer) { cfg.CloseGrace = d }
}

func produceEvents(t *testing.T, env *kafkatest.Env, records ...eventstore.Record) {
	t.Helper()
	messages := make([]*sarama.ProducerMessage, len(records))
	for i, record := range records {
		record.Position = int64(i + 1)
		messages[i] = kafka.EncodeRecord(env.Topics.Events("order"), record)
	}
	env.Produce(t, messages...)
}

func headers(message *sarama.ConsumerMessage) map[string]string {
	all := map[string]string{}
	for _, header := range message.Headers {
		all[string(header.Key)] += string(header.Value)
	}
	return all
}

func committed(t *testing.T, env *kafkatest.Env) int64 {
	t.Helper()
	return env.Committed(t, env.Topics.Group(consumerName), env.Topics.Events("order"), 0)
}

func waitCommitted(t *testing.T, env *kafkatest.Env, offset int64) {
	t.Helper()
	kafkatest.Eventually(t, fmt.Sprintf("offset %d is committed", offset), func() bool { return committed(t, env) == offset })
}

func permanentGoesToDLQ(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 1}, consumerName)
	produceEvents(t, env, placedEvent("bad", 1), placedEvent("good", 1))
	got := &recorder{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		if record.Stream.Key == "bad" {
			return eventstore.Refuse("UNKNOWN_SKU", "%s", strings.Repeat("long text ", 1000))
		}
		got.done(record)
		return nil
	})
	waitCommitted(t, env, 2)
	if !got.has("good", 1) {
		t.Error("the record behind was not handled")
	}
	letters := env.ReadAll(t, env.Topics.DLQ(consumerName))
	if len(letters) != 1 {
		t.Fatalf("%d dead letters, want 1", len(letters))
	}
	letter, original := letters[0], env.ReadAll(t, env.Topics.Events("order"))[0]
	if string(letter.Key) != "bad" {
		t.Errorf("key %q, want the original's", letter.Key)
	}
	if got, want := string(letter.Value), `{"lines":2,"token":"`+eventstore.Redacted+`"}`; got != want {
		t.Errorf("value %s, want %s", got, want)
	}
	is := headers(letter)
	for name, want := range headers(original) {
		if is[name] != want {
			t.Errorf("header %s is %q, want the original's %q", name, is[name], want)
		}
	}
	for name, want := range map[string]string{
		"andes_consumer": consumerName, "andes_origin_topic": original.Topic, "andes_origin_partition": "0", "andes_origin_offset": "0",
		"andes_attempt": "1", "andes_error_class": "permanent", "andes_payload_redacted": "/token",
	} {
		if is[name] != want {
			t.Errorf("header %s is %q, want %q", name, is[name], want)
		}
	}
	if text := is["andes_error"]; !strings.HasPrefix(text, "UNKNOWN_SKU: long text") || len(text) > 1100 {
		t.Errorf("error text of %d bytes: %.60s", len(text), text)
	}
	for _, name := range []string{"andes_first_failure", "andes_due", "andes_origin_timestamp"} {
		if _, err := time.Parse(time.RFC3339Nano, is[name]); err != nil {
			t.Errorf("header %s: %v", name, err)
		}
	}
}

func panicGoesToDLQ(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 1}, consumerName)
	produceEvents(t, env, placedEvent("bad", 1), placedEvent("good", 1))
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		if record.Stream.Key == "bad" {
			panic("no such line")
		}
		return nil
	})
	waitCommitted(t, env, 2)
	letters := env.ReadAll(t, env.Topics.DLQ(consumerName))
	if len(letters) != 1 || !strings.Contains(headers(letters[0])["andes_error"], "no such line") {
		t.Errorf("%d dead letters, want the panic", len(letters))
	}
}

func transientComesAgain(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 1}, consumerName)
	produceEvents(t, env, placedEvent("o1", 1), placedEvent("o1", 2))
	got := &recorder{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		if record.Version == 1 && got.try(record) < 8 {
			return errors.New("the OMS is away")
		}
		got.done(record)
		return nil
	})
	waitCommitted(t, env, 2)
	if got.handled[0].Version != 1 || got.handled[1].Version != 2 {
		t.Error("the second event of the key overtook the first")
	}
	if letters := env.ReadAll(t, env.Topics.DLQ(consumerName)); len(letters) != 0 {
		t.Errorf("%d dead letters, want none", len(letters))
	}
}

func undecodableGoesToDLQ(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 1}, consumerName)
	topic := env.Topics.Events("order")
	bad := undecodables(topic)
	noKey := kafka.EncodeRecord(topic, placedEvent("o1", 1))
	noKey.Key = nil
	bad = append(bad, noKey)
	produceEvents(t, env, placedEvent("o1", 1))
	env.Produce(t, bad...)
	produceEvents(t, env, placedEvent("o1", 2))
	got := &recorder{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		got.done(record)
		return nil
	})
	waitCommitted(t, env, int64(len(bad)+2))
	if got.count() != 2 {
		t.Errorf("%d records handled, want the 2 valid ones", got.count())
	}
	letters := env.ReadAll(t, env.Topics.DLQ(consumerName))
	if len(letters) != len(bad) {
		t.Fatalf("%d dead letters, want %d", len(letters), len(bad))
	}
	originals := map[string]*sarama.ConsumerMessage{}
	for _, original := range env.ReadAll(t, topic) {
		originals[fmt.Sprint(original.Offset)] = original
	}
	for _, letter := range letters {
		is := headers(letter)
		original := originals[is["andes_origin_offset"]]
		want := strings.ReplaceAll(string(original.Value), "tok_secret", eventstore.Redacted) // where the type is known
		if is["andes_error_class"] != "undecodable" || string(letter.Value) != want || string(letter.Key) != string(original.Key) {
			t.Errorf("offset %s: class %s, value %q, want %q", is["andes_origin_offset"], is["andes_error_class"], letter.Value, want)
		}
	}
}

func unreadableGoesToDLQ(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 1}, consumerName)
	known := registry(t)
	wrongSchema := placedEvent("o1", 1)
	wrongSchema.Schema = 9
	deep := event("order", "o2", 1, "order.placed", `{"lines":`+strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000)+`}`)
	unknown := event("order", "o3", 1, "order.forgotten", `{}`)
	produceEvents(t, env, wrongSchema, deep, unknown, placedEvent("o4", 1))
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		_, err := known.Decode(record)
		return err
	})
	waitCommitted(t, env, 4)
	letters := env.ReadAll(t, env.Topics.DLQ(consumerName))
	if len(letters) != 3 {
		t.Fatalf("%d dead letters, want 3", len(letters))
	}
	for _, letter := range letters {
		if class := headers(letter)["andes_error_class"]; class != "undecodable" {
			t.Errorf("%s: class %s", letter.Key, class)
		}
	}
}

func headersAreReplaced(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 1}, consumerName)
	replayed := kafka.EncodeRecord(env.Topics.Events("order"), placedEvent("bad", 1))
	for _, name := range []string{"andes_error", "andes_attempt", "andes_origin_topic"} {
		replayed.Headers = append(replayed.Headers, sarama.RecordHeader{Key: []byte(name), Value: []byte("earlier")})
	}
	replayed.Headers = append(replayed.Headers, sarama.RecordHeader{Key: []byte("traceparent"), Value: []byte("00-1-2-01")})
	env.Produce(t, replayed)
	consume(t, env, func(context.Context, eventstore.Record) error { return eventstore.Refuse("NO", "again") })
	waitCommitted(t, env, 1)
	is := headers(env.ReadAll(t, env.Topics.DLQ(consumerName))[0])
	if is["andes_error"] != "NO: again" || is["andes_origin_topic"] != env.Topics.Events("order") || is["traceparent"] != "00-1-2-01" {
		t.Errorf("headers %v", is)
	}
}

func dlqUnavailable(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 1}) // no DLQ
	env.Ensure(t, []kafka.Topic{{Name: env.Topics.Replay(consumerName), Kind: kafka.RetryTopic}}, kafka.Settings{Partitions: 1})
	produceEvents(t, env, placedEvent("before", 1), placedEvent("bad", 1), placedEvent("after", 1))
	got := &recorder{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		got.try(record)
		if record.Stream.Key == "bad" {
			return eventstore.Refuse("NO", "never")
		}
		got.done(record)
		return nil
	})
	kafkatest.Eventually(t, "the bad one was tried twice and the others handled", func() bool {
		got.mu.Lock()
		defer got.mu.Unlock()
		return got.tries["order-bad-1"] >= 2 && len(got.handled) >= 2
	})
	waitCommitted(t, env, 1)
	env.Ensure(t, env.Topics.All(registry(t), consumerName), kafka.Settings{Partitions: 1})
	waitCommitted(t, env, 3)
	if letters := env.ReadAll(t, env.Topics.DLQ(consumerName)); len(letters) != 1 {
		t.Errorf("%d dead letters, want 1", len(letters))
	}
}

func shutdownFinishes(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 1}, consumerName)
	const records = 20
	for i := range records {
		produceEvents(t, env, placedEvent(fmt.Sprintf("o%d", i), 1))
	}
	got := &recorder{}
	started, release := make(chan struct{}, records), make(chan struct{})
	stop := consume(t, env, func(ctx context.Context, record eventstore.Record) error {
		started <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
			return ctx.Err()
		}
		got.done(record)
		return nil
	})
	<-started
	stopping := make(chan struct{})
	go func() {
		stop()
		close(stopping)
	}()
	close(release)
	<-stopping
	first := got.count()
	if offset := committed(t, env); offset > int64(first) {
		t.Errorf("offset %d is committed with %d records handled", offset, first)
	}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		got.done(record)
		return nil
	})
	waitCommitted(t, env, records)
	for i := range records {
		if !got.has(fmt.Sprintf("o%d", i), 1) {
			t.Errorf("o%d was lost", i)
		}
	}
	if letters := env.ReadAll(t, env.Topics.DLQ(consumerName)); len(letters) != 0 {
		t.Errorf("%d dead letters, want none", len(letters))
	}
}

func shutdownCancels(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 1}, consumerName)
	produceEvents(t, env, placedEvent("slow", 1))
	started := make(chan struct{}, 1)
	stop := consume(t, env, func(ctx context.Context, _ eventstore.Record) error {
		started <- struct{}{}
		<-ctx.Done()
		return eventstore.MarkPermanent(fmt.Errorf("the driver hides the cancellation: %v", ctx.Err()))
	}, grace(50*time.Millisecond))
	<-started
	stop()
	if offset := committed(t, env); offset > 0 {
		t.Errorf("offset %d is committed", offset)
	}
	got := &recorder{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		got.done(record)
		return nil
	})
	waitCommitted(t, env, 1)
	if letters := env.ReadAll(t, env.Topics.DLQ(consumerName)); len(letters) != 0 || got.count() != 1 {
		t.Errorf("%d dead letters and %d handled, want none and 1", len(letters), got.count())
	}
}

func correlationIsCarried(t *testing.T, env *kafkatest.Env) {
	ensure(t, env, kafka.Settings{Partitions: 1}, consumerName)
	produceEvents(t, env, placedEvent("o1", 1))
	ids := make(chan string, 1)
	consume(t, env, func(ctx context.Context, _ eventstore.Record) error {
		ids <- kafka.CorrelationID(ctx)
		return nil
	})
	if id := <-ids; id != "corr-o1" {
		t.Errorf("correlation id %q, want corr-o1", id)
	}
}
