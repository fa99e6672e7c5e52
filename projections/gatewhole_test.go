package projections_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"andes/commands/source"
	"andes/eventstore"
	"andes/projections"
)

func TestAWatermarkWaitsUntilTheReadModelHasAllThatWasAppliedToIt(t *testing.T) {
	lost, through := errors.New("it may lack something"), 0
	var fault error
	gate, err := projections.NewGate(projections.GateConfig{
		Apply:    func(_ context.Context, records []eventstore.StateRecord) error { through += len(records); return nil },
		Progress: &way{published: 10, parts: map[string]map[string]projections.Reached{"stock": {"0": {Applied: 1, End: 1}}}},
		Whole:    func(context.Context) error { return fault }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := gate.Project(t.Context(), []eventstore.StateRecord{mark(t, source.WMSStock, 10)}); err != nil {
		t.Fatal(err)
	}
	fault = lost
	if err := gate.Step(t.Context()); !errors.Is(err, lost) || through != 0 {
		t.Errorf("%v, %d were let through", err, through)
	}
	fault = nil
	if err := gate.Step(t.Context()); err != nil || through != 1 {
		t.Errorf("%v, %d were let through", err, through)
	}
}
