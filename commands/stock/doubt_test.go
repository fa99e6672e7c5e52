package stock_test

import (
	"testing"
	"time"

	"andes/commands/stock"
	"andes/test/memtest"
)

func doubt(version int64, after time.Duration) stock.Doubt {
	return stock.Doubt{SKU: "A", SourceVersion: version, Code: "RECORD_INVALID", At: memtest.Start.Add(after)}
}

// The level stays, but it is not taken for right after the WMS replaced it.
func TestALevelIsDoubtedFromWhenItWasReplacedUntilAUsableOneComes(t *testing.T) {
	s := memtest.Open(t)
	s.Now = memtest.Start.Add(time.Hour)
	for _, step := range []struct {
		what string
		do   any
		want time.Duration // since when it is doubted; 0: it is not
	}{
		{"of nothing known there is no doubt", doubt(1, time.Minute), 0},
		{"a level", report(5, 2), 0},
		{"an older record", doubt(2, time.Minute), 0},
		{"a newer one", doubt(4, time.Minute), time.Minute},
		{"the same again", doubt(4, 2*time.Minute), time.Minute},
		{"another one", doubt(5, 3*time.Minute), time.Minute},
		{"a level between", report(6, 3), time.Minute},
		{"a usable one", report(7, 6), 0},
		{"one without a version, stamped before the level", doubt(0, -time.Minute), 0},
		{"one without a version, stamped after it", doubt(0, 4*time.Minute), 4 * time.Minute},
		{"a usable one again", report(8, 7), 0},
	} {
		switch command := step.do.(type) {
		case stock.Doubt:
			s.Do(t, command)
		case stock.Report:
			s.Do(t, command)
		}
		got := level(t, s)
		if want := memtest.Start.Add(step.want); step.want == 0 && !got.Doubt.At.IsZero() || step.want != 0 && !got.Doubt.At.Equal(want) {
			t.Errorf("%s: doubted since %v, want %s after the start", step.what, got.Doubt.At, step.want)
		}
	}
	if got := level(t, s).OnHand; got != 8 {
		t.Errorf("the level is %d", got)
	}
	s.CheckFolds(t)
}

// An order changes what is free, but not how recent the WMS's figure is; nor does a clock that is ahead.
func TestALevelIsAsOldAsItsReport(t *testing.T) {
	s := memtest.OpenShop(t, map[string]int64{"A": 50})
	ahead := report(50, 9)
	ahead.At = s.Now.Add(24 * time.Hour)
	s.Do(t, ahead)
	reported := s.Now
	if got := level(t, s).KnownAt(); !got.Equal(reported) {
		t.Errorf("known at %v by a clock that is ahead, reported at %v", got, reported)
	}
	s.Now = s.Now.Add(time.Hour)
	s.Do(t, memtest.Order("o-1", memtest.Line("A", 5)))
	if got := level(t, s); !got.KnownAt().Equal(reported) || !got.ChangedAt.Equal(s.Now) {
		t.Errorf("known at %v, changed at %v", got.KnownAt(), got.ChangedAt)
	}
	if got := (stock.State{ChangedAt: reported}).KnownAt(); !got.Equal(reported) {
		t.Errorf("a state of before is known at %v", got)
	}
}

func TestASKUThatTheWarehouseListsNoMoreHasNoUnitsUntilItIsListedAgain(t *testing.T) {
	s := memtest.Open(t)
	s.Do(t, report(5, 3))
	s.Do(t, stock.Vanish{SKU: "A", Version: 2, At: memtest.Start})
	if got := level(t, s).OnHand; got != 5 {
		t.Errorf("%d on hand although it changed since it was missed", got)
	}
	s.Do(t, stock.Vanish{SKU: "A", Version: 3, At: memtest.Start})
	s.Do(t, report(5, 3))
	if got := level(t, s); got.OnHand != 0 || !got.Absent {
		t.Errorf("the level is %+v", got)
	}
	back := report(4, 1)
	back.Compared = memtest.Start
	s.Do(t, back)
	if got := level(t, s); got.OnHand != 4 || got.Absent {
		t.Errorf("the level is %+v after it came back", got)
	}
}
