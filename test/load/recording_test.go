package load

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestQuantiles(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for share, want := range map[float64]time.Duration{0: 1, 0.005: 1, 0.5: 50, 0.95: 95, 0.951: 96, 0.99: 99, 1: 100} {
		if got := Quantile(hundred, share); got != want {
			t.Errorf("%g is %d, not %d", share, got, want)
		}
	}
	if Quantile(nil, 0.5) != 0 || Quantile([]time.Duration{7}, 0.5) != 7 {
		t.Error("of none or of one")
	}
}

func shotsOf(t *rapid.T) []Shot {
	return rapid.SliceOf(rapid.Custom(func(t *rapid.T) Shot {
		return Shot{
			Due: time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "due")), Took: time.Duration(rapid.Int64Range(-10, int64(time.Minute)).Draw(t, "took")),
			Verdict: Verdict{Outcome: Outcome(rapid.IntRange(0, int(Wrong)).Draw(t, "outcome")), Stale: rapid.Bool().Draw(t, "stale")},
		}
	})).Draw(t, "shots")
}

func TestAHistogramCountsEveryShotOnceInItsBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shots := shotsOf(t)
		var took []time.Duration
		for _, shot := range shots {
			took = append(took, shot.Took)
		}
		slices.Sort(took)
		counted, last := 0, time.Duration(-1)
		for _, bucket := range Histogram(shots) {
			if bucket.UpTo <= last || bucket.Count == 0 {
				t.Fatalf("bucket %+v after %s", bucket, last)
			}
			counted, last = counted+bucket.Count, bucket.UpTo
			below := len(took) - len(slices.DeleteFunc(slices.Clone(took), func(d time.Duration) bool { return d <= bucket.UpTo }))
			// Bounds are rounded to nanoseconds.
			if off := below - counted; off < -1 || off > 1 {
				t.Fatalf("%d are not above %s, %d counted", below, bucket.UpTo, counted)
			}
		}
		if counted != len(shots) {
			t.Fatalf("%d of %d", counted, len(shots))
		}
	})
}

func TestASummaryAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shots := shotsOf(t)
		sum := Summarise(shots)
		total := 0
		for _, n := range sum.Outcomes {
			total += n
		}
		if total != sum.Sent || sum.Errors()+sum.Outcomes[Right]+sum.Outcomes[Refused] != total {
			t.Fatalf("%+v", sum)
		}
		if sum.P50 > sum.P95 || sum.P95 > sum.P99 || sum.P99 > sum.Max {
			t.Fatalf("%+v", sum)
		}
	})
}

func TestAFullRecordingSaysSo(t *testing.T) {
	r := NewRecording(time.Time{})
	r.count = maxShots - 1
	for range 3 {
		r.Add("s", Shot{})
	}
	if r.Beyond() != 2 || len(r.Shots("s", 0, 1)) != 1 {
		t.Errorf("%d beyond, %d kept", r.Beyond(), len(r.Shots("s", 0, 1)))
	}
}
