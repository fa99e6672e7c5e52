package stock_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"andes/commands/source"
	"andes/commands/stock"
	"andes/test/memtest"
)

// found is a level that a comparison found that began so many minutes after the start, where the store's clock stands
// a minute later.
func found(s *memtest.Store, minutes int, onHand, version int64) stock.Report {
	r := report(onHand, version)
	r.Compared = memtest.Start.Add(time.Duration(minutes) * time.Minute)
	s.Now = r.Compared.Add(time.Minute)
	return r
}

// A WMS that was restored from a backup goes on at versions below the known ones, or one record had a version that
// was none.
func TestALevelGoesBackWhenTwoComparisonsFindThat(t *testing.T) {
	s := memtest.Open(t)
	s.Do(t, report(5, 1<<61))
	s.Do(t, found(s, 10, 42, 7))
	suspected := s.Now
	if got := level(t, s); got.OnHand != 5 || !got.Doubt.At.Equal(suspected) || got.Doubt.Code != source.CodeWentBack {
		t.Errorf("after one comparison: %+v", got)
	}
	s.Do(t, found(s, 10, 42, 7)) // a page that is read twice
	s.Do(t, report(42, 7))       // a poll
	if got := level(t, s); got.OnHand != 5 {
		t.Errorf("the same comparison confirmed itself, or a poll did: %+v", got)
	}
	s.Do(t, found(s, 20, 41, 8))
	if got := level(t, s); got.OnHand != 41 || got.SourceVersion != 8 || !got.Doubt.At.IsZero() {
		t.Errorf("after two comparisons: %+v", got)
	}
	s.Do(t, report(40, 9))
	s.Do(t, report(41, 8))
	if got := level(t, s); got.OnHand != 40 {
		t.Errorf("after it went on: %+v", got)
	}
	var versions, back []int64
	for _, e := range s.Log(t) {
		if e.Type != "stock.level_reported" {
			continue
		}
		var reported stock.LevelReported
		if err := json.Unmarshal(e.Data, &reported); err != nil {
			t.Fatal(err)
		}
		versions = append(versions, reported.SourceVersion)
		if reported.Back {
			back = append(back, reported.SourceVersion)
		}
	}
	if !slices.Equal(versions, []int64{1 << 61, 8, 9}) || !slices.Equal(back, []int64{8}) {
		t.Errorf("versions %v are recorded, of which %v went back", versions, back)
	}
	s.CheckFolds(t)
}

// A page of a comparison may be on its way while a newer level comes.
func TestALateAnswerNeverReplacesANewerLevel(t *testing.T) {
	s := memtest.Open(t)
	s.Do(t, report(5, 7))
	s.Do(t, found(s, 10, 6, 6))
	s.Do(t, report(4, 8)) // a push; what was suspected is not known any more
	if got := level(t, s); !got.Doubt.At.IsZero() || got.OnHand != 4 {
		t.Errorf("after a newer level: %+v", got)
	}
	s.Do(t, found(s, 20, 5, 7))
	if got := level(t, s); got.OnHand != 4 || got.Doubt.At.IsZero() {
		t.Errorf("one comparison was enough: %+v", got)
	}
	s.Do(t, found(s, 30, 4, 8))
	if got := level(t, s); got.OnHand != 4 || !got.Doubt.At.IsZero() {
		t.Errorf("the next one found what is known: %+v", got)
	}
	s.CheckFolds(t)
}
