package redis_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"andes/adapters/redis"
	"andes/projections"
	"andes/test/redistest"
)

const built projections.Generation = 7

// fill writes to the generation that is being built, as a rebuild does.
func fill(t *testing.T, model *redis.ReadModel, entries ...projections.Entry) {
	t.Helper()
	if err := model.ApplyTo(t.Context(), built, entries); err != nil {
		t.Fatal(err)
	}
}

func expectBuilt(t *testing.T, model *redis.ReadModel, want ...projections.Entry) {
	t.Helper()
	keys := make([]string, len(want))
	for i, entry := range want {
		keys[i] = entry.Key
	}
	kept, err := model.Kept(t.Context(), built, keys)
	if err != nil {
		t.Fatal(err)
	}
	for i, entry := range want {
		if !entry.KeptAs(kept[i].Text) {
			t.Errorf("%s is %q, want %q", entry.Key, kept[i].Text, entry.Text())
		}
	}
}

// Field case PROJ-01: what is there already is guarded, whichever way it came.
func TestARebuildOverwritesByAHigherPositionOnly(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	model := newModel(t, redistest.New(t), redis.ReadModelConfig{Metrics: metrics})
	for _, step := range []struct {
		position, net         int64
		wantPosition, wantNet int64
	}{{7, 3, 7, 3}, {5, 9, 7, 3}, {7, 3, 7, 3}, {8, 2, 8, 2}, {8, 5, 8, 2}, {10, 1, 10, 1}, {9, 5, 10, 1}} {
		fill(t, model, stockEntry("A", step.position, step.net), stockEntry(fmt.Sprint("new", step.position), 1, 1))
		expectBuilt(t, model, stockEntry("A", step.wantPosition, step.wantNet))
	}
	if got := count(t, metrics, "conflict"); got != 1 {
		t.Errorf("%v conflicts are counted, want that of another value at position 8", got)
	}
	fill(t, model, stockEntry("B", 7, 3), stockEntry("B", 9, 1), stockEntry("C", 1, 1), stockEntry("B", 8, 2)) // in one batch
	expectBuilt(t, model, stockEntry("B", 9, 1), stockEntry("C", 1, 1))
	gone := projections.Entry{Key: projections.StockKey("C"), Position: 2}
	fill(t, model, gone)
	fill(t, model, stockEntry("C", 1, 1))
	expectBuilt(t, model, gone)
}

// More than one command's worth, in an order of each writer's own, while the live feed writes too.
func TestARebuildBesideOtherWritersLeavesTheHighestPosition(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	point(t, config, "1 7")
	const writers, keys, positions = 3, 300, 5
	var all sync.WaitGroup
	for writer := range writers {
		model := newModel(t, redistest.Open(t, config), redis.ReadModelConfig{})
		var entries []projections.Entry
		for key := range keys {
			for position := range int64(positions) {
				entries = append(entries, stockEntry(fmt.Sprint(key), position+1, position))
			}
		}
		rand.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		all.Go(func() {
			write := func() error { return model.ApplyTo(t.Context(), built, entries) }
			if writer == 0 {
				write = func() error { return model.Apply(t.Context(), entries) }
			}
			if err := write(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	var want []projections.Entry
	for key := range keys {
		want = append(want, stockEntry(fmt.Sprint(key), positions, positions-1))
	}
	expectBuilt(t, newModel(t, redistest.Open(t, config), redis.ReadModelConfig{}), want...)
}
