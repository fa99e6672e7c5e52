package rebuild_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/IBM/sarama"

	"andes/adapters/kafka"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/rebuild"
	"andes/test/kafkatest"
)

// read gives what a reader finds in a category's topic, and the parts as they are behind it.
func (w *world) read(category string, parts []rebuild.Part) ([]eventstore.StateRecord, []rebuild.Part) {
	w.t.Helper()
	var err error
	if parts == nil {
		parts, err = w.reader.Parts(w.t.Context(), []string{category})
	} else {
		parts, err = w.reader.Extend(w.t.Context(), parts)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	var all []eventstore.StateRecord
	var mu sync.Mutex
	var readers sync.WaitGroup
	for i, part := range parts {
		readers.Go(func() {
			err := w.reader.Read(w.t.Context(), part, func(_ context.Context, batch rebuild.Batch) error {
				mu.Lock()
				defer mu.Unlock()
				all, parts[i] = append(all, batch.Records...), batch.Part
				return nil
			})
			if err != nil {
				w.t.Error(err)
			}
		})
	}
	readers.Wait()
	for _, part := range parts {
		if !part.Complete || part.Next < part.End {
			w.t.Errorf("%+v is not read to its end", part)
		}
	}
	return all, parts
}

func stateOf(sku string, position int64) eventstore.StateRecord {
	return eventstore.StateRecord{Stream: stock.Aggregate.Stream(sku), Version: position, Position: position, State: fmt.Appendf(nil, `{"onHand":%d}`, position)}
}

func keysAndPositions(records []eventstore.StateRecord) string {
	var texts []string
	for _, record := range records {
		texts = append(texts, fmt.Sprintf("%s@%d", record.Stream.Key, record.Position))
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

func (w *world) expectRead(records []eventstore.StateRecord, want string) {
	w.t.Helper()
	if got := keysAndPositions(records); got != want {
		w.t.Errorf("read %s, want %s", got, want)
	}
}

// readUntil reads on until it has what is wanted: a broker writes a transaction's marker some time after it
// has acknowledged its end.
func (w *world) readUntil(category string, parts []rebuild.Part, want string) []rebuild.Part {
	w.t.Helper()
	var all []eventstore.StateRecord
	kafkatest.Eventually(w.t, "read "+want, func() bool {
		var records []eventstore.StateRecord
		records, parts = w.read(category, parts)
		all = append(all, records...)
		return keysAndPositions(all) == want
	})
	return parts
}

// inTransaction writes records that are committed, or not.
func (w *world) inTransaction(commit bool, records ...eventstore.StateRecord) {
	w.t.Helper()
	producer := w.transaction()
	for _, record := range records {
		if _, _, err := producer.SendMessage(kafka.EncodeState(w.kafka.Topics.State("stock"), record)); err != nil {
			w.t.Fatal(err)
		}
	}
	end := producer.AbortTxn
	if commit {
		end = producer.CommitTxn
	}
	if err := end(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) transaction() sarama.SyncProducer {
	w.t.Helper()
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewMurmur2Partitioner
	config.Producer.Transaction.ID = w.kafka.Topics.Prefix + "tx"
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer(w.kafka.Cluster.Brokers, config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = producer.Close() })
	if err := producer.BeginTxn(); err != nil {
		w.t.Fatal(err)
	}
	return producer
}

func TestTransactionMarkersAndAbortedRecordsAreReadOver(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]bool{"Kafka": false, "embedded": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t, choice{partitions: 1, ownKafka: own})
			w.produce(stateOf("A", 1))
			w.inTransaction(true, stateOf("B", 2), stateOf("C", 3))
			w.inTransaction(false, stateOf("A", 99), stateOf("D", 4))
			parts := w.readUntil("stock", nil, "A@1 B@2 C@3") // the last thing there is a marker
			w.produce(stateOf("E", 5))
			parts = w.readUntil("stock", parts, "E@5")
			open := w.transaction()
			if _, _, err := open.SendMessage(kafka.EncodeState(w.kafka.Topics.State("stock"), stateOf("F", 6))); err != nil {
				t.Fatal(err)
			}
			records, parts := w.read("stock", parts) // does not wait for it
			w.expectRead(records, "")
			if err := open.CommitTxn(); err != nil {
				t.Fatal(err)
			}
			w.readUntil("stock", parts, "F@6")
		})
	}
}

func TestHolesEmptyPartitionsAndTombstonesAreReadOver(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 3, ownKafka: true})
	if records, _ := w.read("stock", nil); len(records) != 0 {
		t.Errorf("an empty topic gives %v", records)
	}
	gone := stateOf("A", 400)
	gone.State = nil
	for position := range int64(300) {
		w.produce(stateOf("A", position+1))
	}
	w.produce(gone)
	w.kafka.Compact()
	records, parts := w.read("stock", nil)
	if len(records) == 0 || !slices.ContainsFunc(records, func(r eventstore.StateRecord) bool { return r.Position == 400 && r.State == nil }) {
		t.Errorf("read %d records without the tombstone", len(records))
	}
	if begun := slices.IndexFunc(parts, func(p rebuild.Part) bool { return p.End > 0 }); begun < 0 || parts[begun].End != 301 {
		t.Errorf("the parts are %+v", parts)
	}
}

// A fetch is far smaller than a record here.
func TestRecordsThatAreLargerThanAFetchAreRead(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1})
	large := stateOf("A", 1)
	large.State = []byte(`{"onHand":1,"note":"` + strings.Repeat("x", 900_000) + `"}`)
	w.produce(stateOf("B", 2), large, stateOf("C", 3))
	reader, err := kafka.NewStateReader(t.Context(), kafka.StateReaderConfig{Cluster: w.kafka.Cluster, Names: w.kafka.Topics, Group: "projector", FetchBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	w.reader = reader
	records, _ := w.read("stock", nil)
	w.expectRead(records, "A@1 B@2 C@3")
}

func TestAReadGoesOnFromAnyOffset(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1})
	var all []eventstore.StateRecord
	for i := range int64(50) {
		all = append(all, stateOf(sku(int(i)), i+1))
	}
	w.produce(all...) // in one batch
	for _, from := range []int64{0, 1, 25, 49} {
		parts, err := w.reader.Parts(t.Context(), []string{"stock"})
		if err != nil {
			t.Fatal(err)
		}
		parts[0].Next = from
		if records, _ := w.read("stock", parts); len(records) != int(50-from) || records[0].Position != from+1 {
			t.Errorf("from offset %d: %d records", from, len(records))
		}
	}
}

func TestALostTopicIsToldPlainly(t *testing.T) {
	t.Parallel()
	w := open(t, choice{ownKafka: true})
	w.kafka.Lose(t, w.kafka.Topics.State("price"))
	w.reader = w.openReader()
	_, err := w.rebuilder(nil).Rebuild(t.Context(), rebuild.Request{})
	if err == nil || !strings.Contains(err.Error(), w.kafka.Topics.State("price")) {
		t.Errorf("the rebuild says %v", err)
	}
	w.expectPointer("1")
}
