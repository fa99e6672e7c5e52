package redis_test

import (
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"andes/adapters/redis"
	"andes/projections"
	"andes/test/redistest"
)

// Field case: an older version with another id overwrote a newer one; repeats were errors.
func TestOnlyAHigherPositionOverwrites(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	model := newModel(t, client, redis.ReadModelConfig{})
	for _, step := range []struct {
		position, net int64
		want          string
	}{{7, 3, "3"}, {5, 9, "3"}, {7, 3, "3"}, {8, 2, "2"}, {10, 1, "1"}, {9, 5, "1"}} {
		apply(t, model, stockEntry("A", step.position, step.net))
		if got := netOf(t, client, "A"); got != step.want {
			t.Errorf("after position %d the stock is %s, want %s", step.position, got, step.want)
		}
	}
}

func TestTheHighestPositionOfABatchWins(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	apply(t, newModel(t, client, redis.ReadModelConfig{}), stockEntry("A", 7, 3), stockEntry("A", 9, 1), stockEntry("A", 8, 2))
	if got := netOf(t, client, "A"); got != "1" {
		t.Errorf("the stock is %s, want 1", got)
	}
}

func TestPositionsBeyondADoubleAreCompared(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	model := newModel(t, client, redis.ReadModelConfig{})
	const beyond = int64(1)<<53 + 1
	apply(t, model, stockEntry("A", beyond, 1))
	apply(t, model, stockEntry("A", beyond-1, 2)) // the same double
	if got := netOf(t, client, "A"); got != "1" {
		t.Errorf("the stock is %s, want 1", got)
	}
	apply(t, model, stockEntry("A", beyond+1, 3))
	if got := netOf(t, client, "A"); got != "3" {
		t.Errorf("the stock is %s, want 3", got)
	}
}

func TestWhatWasRemovedIsNotRevivedByAnOlderRecord(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	model := newModel(t, client, redis.ReadModelConfig{})
	apply(t, model, stockEntry("A", 7, 3))
	apply(t, model, projections.Entry{Key: projections.StockKey("A"), Position: 8})
	apply(t, model, stockEntry("A", 7, 3))
	if got := netOf(t, client, "A"); got != "absent" {
		t.Errorf("the stock is %s, want absent", got)
	}
	apply(t, model, stockEntry("A", 9, 4))
	if got := netOf(t, client, "A"); got != "4" {
		t.Errorf("the stock is %s, want 4", got)
	}
}

func TestConcurrentWritersLeaveTheHighestPosition(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	const writers, keys, positions = 4, 7, 60
	var wait sync.WaitGroup
	for writer := range writers {
		client := redistest.Open(t, config)
		model := newModel(t, client, redis.ReadModelConfig{})
		wait.Go(func() {
			for step := range positions {
				position := int64(1 + (step*(2*writer+7))%positions) // each writer in an order of its own
				var batch []projections.Entry
				for key := range keys {
					batch = append(batch, stockEntry(fmt.Sprint(key), position, position))
				}
				if err := model.Apply(t.Context(), batch); err != nil {
					t.Error(err)
				}
			}
		})
	}
	reading := redistest.Open(t, config)
	written := make(chan struct{})
	go func() { wait.Wait(); close(written) }()
	for last, done := int64(0), false; !done; {
		select {
		case <-written:
			done = true
		default:
		}
		copied, err := redis.NewReader(reading).Stock(t.Context(), []string{"0"})
		if err != nil {
			t.Fatal(err)
		}
		if seen := copied.Found["0"].Net; seen < last {
			t.Errorf("a reader saw %d after %d", seen, last)
		} else {
			last = seen
		}
	}
	for key := range keys {
		if got := netOf(t, reading, fmt.Sprint(key)); got != fmt.Sprint(positions) {
			t.Errorf("key %d has %s, want %d", key, got, positions)
		}
	}
}

func TestTheReadModelIsTheLatestOfEachKeyWhateverArrivesInWhateverOrder(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	model := newModel(t, client, redis.ReadModelConfig{})
	reader := redis.NewReader(client)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		expected := map[string]projections.Entry{}
		steps := rapid.IntRange(1, 12).Draw(rt, "batches")
		for range steps {
			var batch []projections.Entry
			for range rapid.IntRange(1, 8).Draw(rt, "entries") {
				sku := fmt.Sprintf("%d-%s", run, rapid.SampledFrom([]string{"A", "B", "{", "{}", "a{b}c", "ü "}).Draw(rt, "sku"))
				position := rapid.Int64Range(1, 15).Draw(rt, "position")
				// The value follows from key and position, as it does in the event store.
				entry := stockEntry(sku, position, position*7%5)
				if position%4 == 0 {
					entry.Value = nil
				}
				if known, held := expected[sku]; !held || position > known.Position {
					expected[sku] = entry
				}
				batch = append(batch, entry)
			}
			if err := model.Apply(t.Context(), batch); err != nil {
				rt.Fatal(err)
			}
		}
		for sku, entry := range expected {
			copied, err := reader.Stock(t.Context(), []string{sku})
			if err != nil {
				rt.Fatal(err)
			}
			want := "absent"
			if entry.Value != nil {
				want = fmt.Sprint(entry.Position * 7 % 5)
			}
			if got := describe(copied, sku); got != want {
				rt.Fatalf("%q is %s, want %s (position %d)", sku, got, want, entry.Position)
			}
		}
	})
}
