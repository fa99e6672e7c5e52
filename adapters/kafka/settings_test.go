package kafka

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"andes/catalogue"
)

func sorted[T ~uint64](list []T) []T {
	slices.Sort(list)
	return list
}

func TestSettingsReportAllFaultsAtOnce(t *testing.T) {
	if err := (Settings{}).withDefaults().validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	bad := Settings{
		Partitions: -1, ReplicationFactor: 1, MinInSyncReplicas: 2, Retention: time.Second,
		DeadLetterRetention: 13 * day, MinCompactionLag: time.Hour, MaxCompactionLag: time.Minute,
	}
	err := bad.withDefaults().validate()
	if err == nil {
		t.Fatal("bad settings are valid")
	}
	for _, word := range []string{"partitions", "min.insync.replicas", "retention of 1s", "DLQs", "compaction lag"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("no word of %q in:\n%v", word, err)
		}
	}
}

func TestAllTopicsOfTheCatalogue(t *testing.T) {
	registry, err := catalogue.Registry()
	if err != nil {
		t.Fatal(err)
	}
	topics := Topics{}.All(registry, "saga", "webhook")
	for _, want := range []Topic{
		{"andes.events.order", EventTopic}, {"andes.state.stock", StateTopic}, {"andes.commands.oms", CommandTopic},
		{"andes.commands.payment", CommandTopic}, {"andes.saga.dlq", DeadLetterTopic}, {"andes.relay.parked", DeadLetterTopic},
	} {
		if !slices.Contains(topics, want) {
			t.Errorf("%s (%s) is not listed", want.Name, want.Kind)
		}
	}
	for i := range topics[1:] {
		if topics[i].Name >= topics[i+1].Name {
			t.Errorf("%s stands before %s", topics[i].Name, topics[i+1].Name)
		}
	}
}

func TestBoundedTextIsBoundedAndValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		bounded := boundedText(text, limit)
		if !utf8.ValidString(bounded) || len(bounded) > limit+len(" (999 bytes more)") {
			t.Fatalf("%q", bounded)
		}
	})
}

func TestBackoffGrowsToItsBound(t *testing.T) {
	b := backoff{least: 10 * time.Millisecond, most: 100 * time.Millisecond}
	for i := range 20 {
		if wait := b.next(); wait < 5*time.Millisecond || wait > 100*time.Millisecond || i > 5 && wait < 50*time.Millisecond {
			t.Errorf("wait %d is %s", i, wait)
		}
	}
	b.reset()
	if wait := b.next(); wait > 10*time.Millisecond {
		t.Errorf("after reset: %s", wait)
	}
}
