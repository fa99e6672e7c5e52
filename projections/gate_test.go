package projections_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"andes/commands/source"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/projections"
)

// way is how far states have come, as a test says.
type way struct {
	published int64
	parts     map[string]map[string]projections.Reached
	fault     error
}

func (w *way) Published(context.Context) (int64, error) { return w.published, w.fault }

func (w *way) Parts(_ context.Context, category string) (map[string]projections.Reached, error) {
	return w.parts[category], w.fault
}

// gated is a gate before a read model that remembers what was let through.
func gated(t *testing.T, w *way) (*projections.Gate, func() []string) {
	t.Helper()
	var applied []string
	gate, err := projections.NewGate(projections.GateConfig{
		Apply: func(_ context.Context, records []eventstore.StateRecord) error {
			for _, record := range records {
				applied = append(applied, record.Stream.Key)
			}
			return w.fault
		},
		Progress: w, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return gate, func() []string {
		got := applied
		applied = nil
		return got
	}
}

func mark(t *testing.T, feed string, position int64) eventstore.StateRecord {
	t.Helper()
	return record(t, source.Aggregate, feed, position, source.State{SyncedAt: time.UnixMilli(position)})
}

func TestAWatermarkWaitsForTheValuesThatItVouchesFor(t *testing.T) {
	w := &way{published: 9, parts: map[string]map[string]projections.Reached{
		"stock": {"0": {Applied: 5, End: 8}, "1": {Applied: 3, End: 3}}, "price": {"0": {Applied: 2, End: 2}},
	}}
	gate, applied := gated(t, w)
	step := func(what string, want ...string) {
		t.Helper()
		if err := gate.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := applied(); !slices.Equal(got, want) {
			t.Errorf("%s: %v was let through, want %v", what, got, want)
		}
	}
	batch := []eventstore.StateRecord{
		record(t, stock.Aggregate, "A", 7, stock.State{}), mark(t, source.WMSStock, 10),
		mark(t, source.ERPPrices, 9), mark(t, source.WMSShipments, 8),
	}
	if err := gate.Project(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if got := applied(); !slices.Equal(got, []string{"A", source.WMSShipments}) {
		t.Errorf("%v was applied at once", got)
	}
	step("prices are applied, stock is not even published", source.ERPPrices)
	w.published = 10
	step("published, not applied")
	w.parts["stock"] = map[string]projections.Reached{"0": {Applied: 8, End: 20}, "1": {Applied: 2, End: 3}}
	step("one part is late")
	if err := gate.Project(t.Context(), []eventstore.StateRecord{mark(t, source.WMSStock, 12), mark(t, source.WMSStock, 11)}); err != nil {
		t.Fatal(err)
	}
	w.parts["stock"] = map[string]projections.Reached{"0": {Applied: 9, End: 30}, "1": {Applied: 3, End: 4}}
	step("applied up to where it was published", source.WMSStock)
	w.published = 12
	step("the next one begins to wait")
	w.parts["stock"] = map[string]projections.Reached{"0": {Applied: 30, End: 30}, "1": {Applied: 4, End: 4}}
	step("and passes", source.WMSStock)
	step("nothing waits")
}

func TestAWatermarkThatCouldNotPassIsNotLost(t *testing.T) {
	w := &way{published: 10, parts: map[string]map[string]projections.Reached{"stock": {"0": {Applied: 1, End: 1}}}}
	gate, applied := gated(t, w)
	if err := gate.Project(t.Context(), []eventstore.StateRecord{mark(t, source.WMSStock, 10)}); err != nil {
		t.Fatal(err)
	}
	w.fault = errors.New("away")
	if err := gate.Step(t.Context()); err == nil {
		t.Error("no fault was told")
	}
	applied()
	w.fault = nil
	if err := gate.Step(t.Context()); err != nil || !slices.Equal(applied(), []string{source.WMSStock}) {
		t.Errorf("it was not let through: %v", err)
	}
}

// A read model that is behind for long: each watermark waits for what was published before it, and for no more.
func TestWatermarksWaitSideBySide(t *testing.T) {
	w := &way{parts: map[string]map[string]projections.Reached{"stock": {"0": {}}}}
	gate, applied := gated(t, w)
	var through []int64
	for n := int64(1); n <= 200; n++ { // each second a watermark, and the read model is 50 s behind
		w.published = n
		w.parts["stock"]["0"] = projections.Reached{Applied: max(0, n-50), End: n}
		if err := gate.Project(t.Context(), []eventstore.StateRecord{mark(t, source.WMSStock, n)}); err != nil {
			t.Fatal(err)
		}
		if err := gate.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(applied()) > 0 {
			through = append(through, n)
		}
	}
	if len(through) != 150 || through[0] != 51 {
		t.Errorf("%d were let through from %v on, want 150 from 51 on", len(through), through[:min(1, len(through))])
	}
	w.parts["stock"]["0"] = projections.Reached{Applied: 0, End: 1000} // and now it stands still
	for n := int64(201); n <= 1000; n++ {
		w.published = n
		if err := gate.Project(t.Context(), []eventstore.StateRecord{mark(t, source.WMSStock, n)}); err != nil {
			t.Fatal(err)
		}
		if err := gate.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.parts["stock"]["0"] = projections.Reached{Applied: 1000, End: 1000}
	if err := gate.Step(t.Context()); err != nil || len(applied()) != 1 {
		t.Errorf("the latest alone passes: %v", err)
	}
	if err := gate.Step(t.Context()); err != nil || len(applied()) != 0 {
		t.Errorf("nothing waits any more: %v", err)
	}
}

// Redis may be emptied, and projectors restarted, while a source is away: no further watermark comes by the feed.
func TestWatermarksArePutAgainAsLongAsTheyHold(t *testing.T) {
	w := &way{published: 10, parts: map[string]map[string]projections.Reached{"stock": {"0": {Applied: 4, End: 5}}}}
	states := []eventstore.StateRecord{mark(t, source.WMSStock, 10), {Stream: source.Aggregate.Stream(source.ERPPrices)}, mark(t, source.WMSShipments, 3)}
	var put []int64
	var unread error
	gate, err := projections.NewGate(projections.GateConfig{
		Apply: func(_ context.Context, records []eventstore.StateRecord) error {
			for _, record := range records {
				put = append(put, record.Position)
			}
			return nil
		},
		Marks: func(context.Context) ([]eventstore.StateRecord, error) { return states, unread },
		Again: 1, Progress: w, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	step := func(what string, want ...int64) {
		t.Helper()
		put = nil
		if err := gate.Step(t.Context()); (err != nil) != (unread != nil) || !slices.Equal(put, want) {
			t.Errorf("%s: %v was put, want %v; %v", what, put, want, err)
		}
	}
	step("its values are not there yet")
	w.parts["stock"]["0"] = projections.Reached{Applied: 5, End: 9}
	step("they are", 10)
	states[0] = mark(t, source.WMSStock, 12)
	step("it holds on while the next one waits", 10)
	unread = errors.New("away")
	step("the states can't be read")
	unread, w.published, w.parts["stock"]["0"] = nil, 12, projections.Reached{Applied: 9, End: 9}
	step("the next one passes", 10, 12)
	states[0] = mark(t, source.WMSStock, 7)
	step("the log was set back to an earlier time", 7)
	step("and goes on from there", 7)
}

func TestAGateRunsUntilItIsStopped(t *testing.T) {
	w := &way{}
	gate, _ := gated(t, w)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- gate.Run(ctx) }()
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := projections.NewGate(projections.GateConfig{}); err == nil {
		t.Error("a gate of nothing was made")
	}
}
