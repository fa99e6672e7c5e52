package source_test

import (
	"testing"
	"time"

	"andes/commands/source"
	"andes/test/memtest"
)

func TestAWatermarkNeverGoesBack(t *testing.T) {
	s := memtest.Open(t)
	advance := func(in time.Duration, cursor string) source.State {
		command := source.Advance{Feed: source.WMSStock, Cursor: cursor}
		if in > 0 {
			command.SyncedAt = memtest.Start.Add(in)
		}
		s.Do(t, command)
		state, _ := memtest.State(t, s, source.Aggregate, source.WMSStock)
		return state
	}
	advance(2*time.Minute, "a")
	for _, in := range []time.Duration{0, time.Minute} {
		if got := advance(in, "b"); !got.SyncedAt.Equal(memtest.Start.Add(2*time.Minute)) || got.Cursor != "b" {
			t.Errorf("after %s: %+v", in, got)
		}
		if got := advance(in, "a"); got.Cursor != "a" {
			t.Errorf("the cursor did not move: %+v", got)
		}
	}
	if got := advance(3*time.Minute, "a"); !got.SyncedAt.Equal(memtest.Start.Add(3 * time.Minute)) {
		t.Errorf("%+v", got)
	}
}

func TestAPollThatFoundNothingNewLeavesNoEvent(t *testing.T) {
	s := memtest.Open(t)
	same := source.Advance{Feed: source.ERPPrices, SyncedAt: memtest.Start, Cursor: "c"}
	s.Do(t, same)
	s.Do(t, same)
	if log := s.Log(t); len(log) != 1 {
		t.Errorf("%d events", len(log))
	}
}
