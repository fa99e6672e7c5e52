package rebuild_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	"github.com/jackc/pgx/v5"

	"andes/adapters/kafka"
	"andes/adapters/redis"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/rebuild"
	"andes/test/kafkatest"
)

// stockIn gives what a reader finds of a SKU: its units, absent, or lacking where nothing is known.
func (w *world) stockIn(sku string) string {
	w.t.Helper()
	copied, err := redis.NewReader(w.client).Stock(w.t.Context(), []string{sku})
	if err != nil {
		w.t.Fatal(err)
	}
	if view, found := copied.Found[sku]; found {
		return fmt.Sprint(view.Net)
	}
	if len(copied.Lacking) > 0 {
		return "lacking"
	}
	return "absent"
}

func (w *world) expectStock(sku, want string) {
	w.t.Helper()
	kafkatest.Eventually(w.t, sku+" is "+want, func() bool { return w.stockIn(sku) == want })
}

// KAFKA-02: tombstones crashed consumers, or became a stock of 0.
func TestATombstoneRemovesASKUAndOnlyANewerStateRevivesIt(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1})
	w.feed()
	gone := func(sku string, position int64) eventstore.StateRecord {
		state := stateOf(sku, position)
		state.State = nil
		return state
	}
	w.produce(stateOf("A", 7), stateOf("B", 8))
	w.expectStock("A", "7")
	w.produce(gone("A", 9), gone("never", 10))
	w.expectStock("A", "absent")
	w.expectStock("never", "absent")

	topic := w.kafka.Topics.State("stock")
	literal, emptyKey := kafka.EncodeState(topic, stateOf("B", 11)), kafka.EncodeState(topic, stateOf("B", 11))
	literal.Value, emptyKey.Key = sarama.StringEncoder("null"), sarama.StringEncoder("")
	w.kafka.Produce(t, literal, emptyKey)
	w.produce(stateOf("A", 6), stateOf("C", 12)) // A's is older than what was removed
	w.expectStock("C", "12")
	if a, b := w.stockIn("A"), w.stockIn("B"); a != "absent" || b != "8" {
		t.Errorf("A is %s, B is %s", a, b)
	}
	w.produce(stateOf("A", 13))
	w.expectStock("A", "13")
	if letters := w.kafka.ReadAll(t, w.kafka.Topics.DLQ("projector")); len(letters) != 2 {
		t.Errorf("%d records are in the DLQ, want those without a state and without a key", len(letters))
	}
}

// KAFKA-11: more partitions gave keys a new one, and the old value outlived there; new partitions were not read
// from their start; another client put keys elsewhere.
func TestMorePartitionsAndForeignPartitionersLeaveTheNewestState(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 3})
	const many = 60
	w.fill(many)
	w.publish(w.set.Categories()...)
	topic := w.kafka.Topics.State("stock")
	if err := w.kafka.Admin(t).CreatePartitions(topic, 6, nil, false); err != nil {
		t.Fatal(err)
	}
	kafkatest.Eventually(t, "the partitions are there", func() bool {
		topics, err := w.kafka.Admin(t).DescribeTopics([]string{topic})
		return err == nil && len(topics) == 1 && len(topics[0].Partitions) == 6
	})
	var commands []eventstore.Command
	for i := range many {
		commands = append(commands, level(sku(i), int64(1000+i), 2))
	}
	w.execute(commands...)
	w.publish("stock")
	w.scatter(topic, stock.Aggregate.Stream(sku(1)))

	w.reader = w.openReader()
	w.rebuild(rebuild.Request{Models: []string{"stock"}})
	w.expectSameOf("stock")
	rebuilt := w.stockIn(sku(1))
	w.feed()
	w.settleFeed()
	if live := w.stockIn(sku(1)); live != rebuilt {
		t.Errorf("%s is %s when it is kept live, %s rebuilt", sku(1), live, rebuilt)
	}
}

// scatter puts old states of a stream behind whatever each partition has.
func (w *world) scatter(topic string, stream eventstore.Stream) {
	w.t.Helper()
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	producer, err := sarama.NewSyncProducer(w.kafka.Cluster.Brokers, config)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = producer.Close() }()
	for partition := range int32(6) {
		message := kafka.EncodeState(topic, eventstore.StateRecord{Stream: stream, Version: 1, Position: int64(partition) + 1, State: []byte(`{"onHand":7}`)})
		message.Partition = partition
		if _, _, err := producer.SendMessage(message); err != nil {
			w.t.Fatal(err)
		}
	}
}

// PROJ-04: values of 100 KB among small ones. Nothing that is held at once grows with them.
func TestLargeValuesAmongSmallOnesAreRebuiltInBoundedPieces(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1})
	const large, attributes, size = 60, 60, 1800
	wide := map[string]string{}
	for i := range attributes {
		wide[fmt.Sprint("attribute", i)] = strings.Repeat("x", size)
	}
	var commands []eventstore.Command
	for i := range 10 * large {
		report := product.Report{SKU: sku(i), Name: "Lamp", Segment: "home", SourceVersion: 1, At: at}
		if i%10 == 0 {
			report.Attributes = wide
		}
		commands = append(commands, report)
	}
	w.execute(commands...)
	w.publish("product")
	parts, err := w.reader.Parts(t.Context(), []string{"product"})
	if err != nil || len(parts) != 1 {
		t.Fatalf("%+v, %v", parts, err)
	}
	records, most := 0, 0
	err = w.reader.Read(t.Context(), parts[0], func(_ context.Context, batch rebuild.Batch) error {
		bytes := 0
		for _, record := range batch.Records {
			bytes += len(record.State)
		}
		records, most = records+len(batch.Records), max(most, bytes)
		return nil
	})
	if bound := kafka.DefaultReadBytes + kafka.DefaultMaxRecordBytes; err != nil || records != 10*large || most > bound {
		t.Errorf("%d records, up to %d bytes at once, want at most %d: %v", records, most, bound, err)
	}
	w.rebuild(rebuild.Request{Models: []string{"product"}})
	w.expectSameOf("product")
}

// OUTBOX-02: a rebuild from the log stopped at a gap.
func TestAFoldOfEventsGoesOverBurntPositions(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1})
	w.fill(3)
	conn, err := pgx.Connect(t.Context(), w.postgres.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), "SELECT setval('"+w.postgres.Schema+".position_0', 1000000)"); err != nil {
		t.Fatal(err)
	}
	w.execute(level(sku(1), 500, 2), level(sku(77), 1, 1))
	if run := w.rebuild(rebuild.Request{Models: []string{"stock"}, Source: rebuild.FromEvents}); run.Records != 4 {
		t.Errorf("%+v", run)
	}
	w.expectSameOf("stock")
}

// A Redis without room (maxmemory, noeviction) is told by the command, and what served serves on.
func TestAFullRedisIsToldByTheCommand(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 1, ownRedis: true})
	w.fill(500)
	w.publish(w.set.Categories()...)
	w.projections("rebuild").expect(t, 0, "generation 2 serves")
	w.server.Must("CONFIG", "SET", "maxmemory-policy", "noeviction")
	w.server.Must("CONFIG", "SET", "maxmemory", "1")
	w.projections("rebuild").expect(t, 1, "maxmemory")
	w.expectPointer("2 1")
	w.expectSame()
	w.server.Must("CONFIG", "SET", "maxmemory", "0")
	w.projections("rebuild").expect(t, 0, "verified")
	w.expectSame()
}
