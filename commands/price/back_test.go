package price_test

import (
	"testing"
	"time"

	"andes/commands/price"
	"andes/test/memtest"
)

// compared does what a comparison found that began so many minutes after the start.
func compared(t *testing.T, s *memtest.Store, minutes int, r price.Report) price.State {
	t.Helper()
	r.Compared = memtest.Start.Add(time.Duration(minutes) * time.Minute)
	s.Now = r.Compared.Add(time.Minute)
	s.Do(t, r)
	return current(t, s)
}

func TestAPriceGoesBackWhenTwoComparisonsFindThat(t *testing.T) {
	s := memtest.Open(t)
	s.Do(t, report("19.90", 70))
	if got := compared(t, s, 10, report("18.00", 7)); got.Price.Amount() != "19.90" || got.Doubt.At.IsZero() {
		t.Errorf("after one comparison: %+v", got)
	}
	if got := compared(t, s, 20, report("18.00", 7)); got.Price.Amount() != "18.00" || got.SourceVersion != 7 || !got.Doubt.At.IsZero() {
		t.Errorf("after two: %+v", got)
	}
	compared(t, s, 30, removal(5))
	if got := compared(t, s, 40, removal(5)); !got.Removed || got.SourceVersion != 5 || !got.Doubt.At.IsZero() {
		t.Errorf("after two that found a removal: %+v", got)
	}
	compared(t, s, 50, report("17.00", 4))
	if got := compared(t, s, 60, report("17.00", 4)); got.Removed || got.Price.Amount() != "17.00" || got.SourceVersion != 4 {
		t.Errorf("after two that found it again: %+v", got)
	}
	s.CheckFolds(t)
}

func TestARemovalEndsASuspicion(t *testing.T) {
	s := memtest.Open(t)
	s.Do(t, report("19.90", 70))
	compared(t, s, 10, report("18.00", 7))
	s.Do(t, removal(71))
	if got := compared(t, s, 20, report("18.00", 7)); !got.Removed {
		t.Errorf("one comparison was enough: %+v", got)
	}
	s.CheckFolds(t)
}
