package source_test

import (
	"math"
	"testing"
	"time"

	"andes/commands/source"
	"andes/test/memtest"
)

func TestAnOlderVersionCountsOnlyOnceASecondComparisonFindsIt(t *testing.T) {
	at := func(minutes int) time.Time { return memtest.Start.Add(time.Duration(minutes) * time.Minute) }
	known := source.Known{Version: 7, At: at(10)}
	suspected := source.Known{Version: 7, At: at(10), Doubt: source.Suspicion(5, at(30))}
	absent := source.Known{Version: 7, At: at(10), Absent: true}
	for name, c := range map[string]struct {
		known   source.Known
		version int64
		round   time.Time // zero: a poll or a push
		same    bool
		want    source.Word
	}{
		"a newer one":                                 {known, 8, time.Time{}, true, source.News},
		"a late answer":                               {known, 5, time.Time{}, false, source.Old},
		"a late answer while it is suspected":         {suspected, 5, time.Time{}, false, source.Old},
		"the same version and value":                  {known, 7, at(20), true, source.Old},
		"the same version with another value":         {known, 7, at(20), false, source.News},
		"an older one":                                {known, 5, at(20), false, source.Suspect},
		"an older one with the known value":           {known, 5, at(20), true, source.Old},
		"a page that was on its way":                  {known, 5, at(9), false, source.Old},
		"an older one again in the same comparison":   {suspected, 5, at(20), false, source.Old},
		"an older one in the next comparison":         {suspected, 5, at(40), false, source.Back},
		"another older one in the next comparison":    {suspected, 6, at(40), false, source.Back},
		"an older one that has come to be the same":   {suspected, 6, at(40), true, source.Back},
		"the known one in the next comparison":        {suspected, 7, at(40), true, source.News},
		"an older one of what was taken for gone":     {absent, 5, at(20), false, source.News},
		"a late answer about what was taken for gone": {absent, 5, time.Time{}, false, source.Old},
	} {
		if got := c.known.Word(c.version, c.round, c.same); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestAVersionLeavesRoomForLaterOnes(t *testing.T) {
	for version, usable := range map[int64]bool{math.MinInt64: false, 0: false, 1: true, 1 << 62: true, 1<<62 + 1: false, math.MaxInt64: false} {
		if fault := source.CheckVersion(version); (fault == "") != usable {
			t.Errorf("version %d: %q", version, fault)
		}
	}
}
