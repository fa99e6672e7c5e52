package rebuild_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"andes/adapters/kafka"
	"andes/adapters/postgres"
	"andes/adapters/redis"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/rebuild"
	"andes/test/kafkatest"
)

func (w *world) expectPointer(want string) {
	w.t.Helper()
	if got := w.pointer(); got != want {
		w.t.Errorf("the pointer says %q, want %q", got, want)
	}
}

func TestANewGenerationServesWhatPostgresHas(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	w.fill(200)
	w.execute(product.Report{SKU: sku(0), SourceVersion: 2, At: at, Removed: true})
	w.publish(w.set.Categories()...)
	run := w.rebuild(rebuild.Request{Actor: "an operator"})
	if run.Generation != 2 || run.Records != 600 || run.Phase != rebuild.Done || run.Mended != 0 {
		t.Errorf("the run is %+v", run)
	}
	w.expectPointer("2 1")
	w.expectSame()
	found, err := redis.NewReader(w.client).Stock(t.Context(), []string{sku(7), "unknown"})
	if err != nil || found.Found[sku(7)].Net != 7 || len(found.Lacking) != 1 {
		t.Errorf("read %+v, %v", found, err)
	}
}

func TestTheGenerationBeforeIsKeptUpToDateUntilTheNextRebuild(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	w.fill(20)
	w.publish(w.set.Categories()...)
	w.rebuild(rebuild.Request{})
	w.rebuild(rebuild.Request{})
	w.expectPointer("3 2")
	if n := w.keysOf(1); n != 0 {
		t.Errorf("generation 1 still has %d keys", n)
	}
	w.feed()
	w.relay()
	w.execute(level(sku(3), 77, 2))
	r := w.rebuilder(nil)
	for _, want := range []string{"2 3", "3 2"} {
		kafkatest.Eventually(t, "both generations have the change", func() bool { return len(w.differing()) == 0 })
		if _, err := r.Rollback(t.Context(), nil, "an operator", "a trial"); err != nil {
			t.Fatal(err)
		}
		w.expectPointer(want)
		w.expectSame()
	}
}

func TestOneReadModelIsRebuiltAloneAndTheOthersStay(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	w.fill(20)
	w.publish(w.set.Categories()...)
	w.rebuild(rebuild.Request{})
	run := w.rebuild(rebuild.Request{Models: []string{"stock"}})
	if run.Records != 20 {
		t.Errorf("%d records were read for one read model", run.Records)
	}
	w.expectPointer("2 1 stock=3,2")
	w.expectSame()
	if _, err := w.rebuilder(nil).Rollback(t.Context(), []string{"stock"}, "", ""); err != nil {
		t.Fatal(err)
	}
	w.expectPointer("2 1 stock=2,3")
	w.rebuild(rebuild.Request{})
	w.expectPointer("4 2")
	w.expectSame()
	if n := w.keysOf(3) + w.keysOf(1); n != 0 {
		t.Errorf("the generations that gave way still have %d keys", n)
	}
}

func TestUnknownReadModelsAndNothingToGoBackToAreToldPlainly(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	r := w.rebuilder(nil)
	if _, err := r.Rebuild(t.Context(), rebuild.Request{Models: []string{"stonk"}}); err == nil || !strings.Contains(err.Error(), "stock, price, product, source") {
		t.Errorf("an unknown read model: %v", err)
	}
	if _, err := r.Rollback(t.Context(), nil, "", ""); !errors.Is(err, rebuild.ErrNothingKept) {
		t.Errorf("nothing to go back to: %v", err)
	}
	status, err := r.Status(t.Context())
	if err != nil || status.Pointer != "1" || len(status.Models) != 4 || status.Last != nil {
		t.Errorf("the status of an empty platform is %+v, %v", status, err)
	}
}

// PROJ-03: a rebuild of nothing ended in an error.
func TestEmptyTopicsMakeAnEmptyGeneration(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	if run := w.rebuild(rebuild.Request{}); run.Records != 0 {
		t.Errorf("the run is %+v", run)
	}
	w.expectPointer("2 1")
	w.expectSame()
}

// PROJ-03: an unknown record in the middle. KAFKA-01: a poisoned one.
func TestABrokenRecordGoesToTheDLQAndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1})
	w.fill(50)
	w.publish("stock", "price")
	broken := eventstore.StateRecord{Stream: stock.Aggregate.Stream("of no use"), Version: 1, Position: 1, State: []byte(`{"onHand":"many"}`)}
	w.produce(broken)
	w.kafka.Produce(t, &sarama.ProducerMessage{
		Topic: w.kafka.Topics.State("product"), Key: sarama.StringEncoder("k"), Value: sarama.StringEncoder("no state at all"),
	})
	w.publish("product")
	run := w.rebuild(rebuild.Request{})
	if run.Broken != 2 || len(w.broken) != 2 {
		t.Errorf("%d broken records, told of %v", run.Broken, w.broken)
	}
	for _, b := range w.broken {
		if !strings.Contains(b.Where, w.kafka.Topics.Prefix) || b.Why == "" {
			t.Errorf("told only %+v", b)
		}
	}
	if letters := w.kafka.ReadAll(t, w.kafka.Topics.DLQ("projector")); len(letters) != 2 {
		t.Errorf("%d records are in the DLQ", len(letters))
	}
	w.expectSame()
	// The same records are met again, by this reader and by another process.
	w.rebuild(rebuild.Request{})
	w.reader = w.openReader()
	if run := w.rebuild(rebuild.Request{}); run.Broken != 2 {
		t.Errorf("%d broken records are told the next time", run.Broken)
	}
	if letters := w.kafka.ReadAll(t, w.kafka.Topics.DLQ("projector")); len(letters) != 2 {
		t.Errorf("%d records are in the DLQ after three rebuilds", len(letters))
	}
	w.produce(broken) // another one like it
	w.rebuild(rebuild.Request{})
	if letters := w.kafka.ReadAll(t, w.kafka.Topics.DLQ("projector")); len(letters) != 3 {
		t.Errorf("%d records are in the DLQ after a new one", len(letters))
	}
}

func TestWhatTheProjectorParkedIsNotParkedAgain(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	w.kafka.Produce(t, &sarama.ProducerMessage{
		Topic: w.kafka.Topics.State("stock"), Key: sarama.StringEncoder("k"), Value: sarama.StringEncoder("no state at all"),
	})
	stop := w.feed()
	kafkatest.Eventually(t, "the projector parks it", func() bool { return len(w.kafka.ReadAll(t, w.kafka.Topics.DLQ("projector"))) == 1 })
	stop()
	if run := w.rebuild(rebuild.Request{}); run.Broken != 1 {
		t.Errorf("%d broken records", run.Broken)
	}
	if letters := w.kafka.ReadAll(t, w.kafka.Topics.DLQ("projector")); len(letters) != 1 {
		t.Errorf("%d records are in the DLQ", len(letters))
	}
}

func TestDeletedStreamsAreNotBroughtBack(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	w.fill(10)
	w.publish(w.set.Categories()...)
	gone := eventstore.StateRecord{Stream: stock.Aggregate.Stream(sku(4)), Version: 2, Position: 1_000_000}
	w.produce(gone)
	other := w.rebuilder(func(c *rebuild.Config) { c.States = without{w.store.DB, gone.Stream} })
	if _, err := other.Rebuild(t.Context(), rebuild.Request{}); err != nil {
		t.Fatal(err)
	}
	copied, err := redis.NewReader(w.client).Stock(t.Context(), []string{sku(4), sku(5)})
	if err != nil || len(copied.Found) != 1 || len(copied.Lacking) != 0 {
		t.Errorf("read %+v, %v", copied, err)
	}
}

// without are states less a stream, as if it had been deleted.
type without struct {
	*postgres.DB
	gone eventstore.Stream
}

func (s without) EachState(ctx context.Context, category string, take func([]eventstore.StateRecord) error) error {
	return s.DB.EachState(ctx, category, func(records []eventstore.StateRecord) error {
		for i := range records {
			if records[i].Stream == s.gone {
				records[i].State, records[i].Position = nil, 1_000_000
			}
		}
		return take(records)
	})
}

func TestAnOlderRecordNeverOverwritesANewerOne(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1})
	w.fill(5)
	w.publish("stock")
	w.execute(level(sku(1), 500, 2))
	w.publish("stock")
	// A second relay repeats an old state behind the new one.
	w.produce(eventstore.StateRecord{Stream: stock.Aggregate.Stream(sku(1)), Version: 1, Position: 1, State: []byte(`{"onHand":1}`)})
	w.rebuild(rebuild.Request{Models: []string{"stock"}})
	w.expectSameOf("stock")
}

func (w *world) expectSameOf(models ...string) {
	w.t.Helper()
	report, err := w.rebuilder(nil).Verify(w.t.Context(), rebuild.Check{Models: models})
	if err != nil || report.Differing() != 0 {
		w.t.Errorf("%+v, %v", report, err)
	}
}

// lose empties the state topics, as a lost disk does.
func (w *world) lose(categories ...string) {
	w.t.Helper()
	admin := w.kafka.Admin(w.t)
	for _, category := range categories {
		if err := admin.DeleteTopic(w.kafka.Topics.State(category)); err != nil {
			w.t.Fatal(err)
		}
		kafkatest.Eventually(w.t, "the topic is gone", func() bool {
			topics, err := admin.ListTopics()
			_, exists := topics[w.kafka.Topics.State(category)]
			return err == nil && !exists
		})
	}
	w.kafka.Ensure(w.t, w.topics(), kafka.Settings{Partitions: 3})
}

func TestStatesThatTheTopicsLostAreFoundAndComeFromPostgres(t *testing.T) {
	t.Parallel()
	w := open(t, choice{ownKafka: true})
	const many = 1100 // more than is mended on the way
	w.fill(many)
	w.publish(w.set.Categories()...)
	w.rebuild(rebuild.Request{})
	w.lose("stock")
	r := w.rebuilder(nil)
	run, err := r.Rebuild(t.Context(), rebuild.Request{})
	if !errors.Is(err, rebuild.ErrDiffers) || !strings.Contains(err.Error(), "--from=states") || !strings.Contains(err.Error(), "stock:") {
		t.Fatalf("the rebuild from an empty topic: %v", err)
	}
	if run.Phase != rebuild.Failed || w.pointer() != "2" || w.keysOf(run.Generation) != 0 {
		t.Errorf("the run is %+v, the pointer %q, %d keys of generation %s are left", run, w.pointer(), w.keysOf(run.Generation), run.Generation)
	}
	w.expectSame()
	for _, source := range []string{rebuild.FromStates, rebuild.FromEvents} {
		run := w.rebuild(rebuild.Request{Source: source})
		if run.Records != 3*many || run.Mended != 0 {
			t.Errorf("from %s: %+v", source, run)
		}
		w.expectSame()
	}
}

func TestAFewStatesThatTheTopicsLostAreMendedOnTheWay(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	w.fill(30)
	w.publish("stock", "price") // no products
	run := w.rebuild(rebuild.Request{})
	if run.Mended != 30 {
		t.Errorf("%d keys were mended", run.Mended)
	}
	w.expectSame()
}

func TestStateIsFoldedFromEventsWhateverTheStateRowsSay(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	w.execute(level("A", 5, 1), level("A", 6, 2), level("A/b", 1, 1), level("A", 7, 3), level("B", 1, 1))
	source := postgres.StateSource{DB: w.store.DB, Events: true}
	parts, err := source.Parts(t.Context(), []string{"stock"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = source.Read(t.Context(), parts[0], func(_ context.Context, batch rebuild.Batch) error {
		for _, record := range batch.Records {
			got = append(got, record.Stream.Key)
			states, err := w.store.States(t.Context(), []eventstore.Stream{record.Stream})
			if err != nil {
				return err
			}
			kept := states[record.Stream]
			if string(kept.State) != string(record.State) || kept.Position != record.Position || kept.Version != record.Version {
				t.Errorf("%s is folded to %+v, kept is %+v", record.Stream, record, kept)
			}
		}
		return nil
	})
	if err != nil || !slices.Equal(got, []string{"A", "A/b", "B"}) {
		t.Errorf("folded %v, %v", got, err)
	}
}

func TestARateIsKept(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	w.fill(30)
	w.publish(w.set.Categories()...)
	began := time.Now()
	w.rebuild(rebuild.Request{Rate: 60}) // 90 records in some batches; the last one is not paid for
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("90 records at 60 a second took %s", took)
	}
}
