package broker_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"andes/test/broker"
)

const (
	waitForBroker = time.Minute
	topic         = "andes.events.order"
)

func client(t *testing.T, addr string) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(
		kgo.SeedBrokers(addr),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestEmbeddedBrokerKeepsRecordsOverARestart(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), waitForBroker)
	defer cancel()
	dir := t.TempDir()

	first, err := broker.Start(broker.Config{Addr: "127.0.0.1:0", Dir: dir, SyncWrites: true, Topics: []string{topic}})
	if err != nil {
		t.Fatal(err)
	}
	record := &kgo.Record{Topic: topic, Key: []byte("order-1"), Value: []byte("placed")}
	err = client(t, first.Addr()).ProduceSync(ctx, record).FirstErr()
	first.Close()
	if err != nil {
		t.Fatal(err)
	}

	second, err := broker.Start(broker.Config{Addr: first.Addr(), Dir: dir, SyncWrites: true})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	fetches := client(t, second.Addr()).PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	records := fetches.Records()
	if len(records) != 1 || string(records[0].Value) != "placed" {
		t.Fatalf("after the restart: %d records, want the one that was acknowledged", len(records))
	}
}

func TestProbeTellsAServingBrokerFromNone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), waitForBroker)
	defer cancel()
	b := broker.StartEmbedded(t, "")
	if err := broker.Probe(ctx, b.Addr()); err != nil {
		t.Errorf("serving broker: %v", err)
	}
	if err := broker.Probe(ctx, "127.0.0.1:1"); err == nil {
		t.Error("closed port: no error")
	}
}
