package partner_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the machine may have none

	"andes/commands/partner"
)

// localDay is a day as people of a place reckon it, which has 23 or 25 hours when their clocks change.
func localDay(t *testing.T, place string, year int, month time.Month, day int) (from, until time.Time) {
	t.Helper()
	zone, err := time.LoadLocation(place)
	if err != nil {
		t.Fatal(err)
	}
	return time.Date(year, month, day, 0, 0, 0, 0, zone), time.Date(year, month, day+1, 0, 0, 0, 0, zone)
}

// Field case TIME-02: a day's promotion of two channels, each by its own midnight; the offset is part of what is configured.
func TestEachChannelsDayBeginsAndEndsAtItsOwnMidnight(t *testing.T) {
	for _, c := range []struct {
		place       string
		from, until string
	}{
		{"Europe/Rome", "2026-11-26T23:00:00Z", "2026-11-27T23:00:00Z"},
		{"Australia/Sydney", "2026-11-26T13:00:00Z", "2026-11-27T13:00:00Z"},
	} {
		from, until := localDay(t, c.place, 2026, time.November, 27)
		policy := partner.Policy{Discounts: []partner.Discount{{Percent: "50", From: from, Until: until}}}
		begin, _ := time.Parse(time.RFC3339, c.from)
		end, _ := time.Parse(time.RFC3339, c.until)
		for at := begin.Add(-24 * time.Hour); at.Before(end.Add(24 * time.Hour)); at = at.Add(30 * time.Minute) {
			want := "10.00"
			if !at.Before(begin) && at.Before(end) {
				want = "5.00"
			}
			if got := policy.Price(usd("10.00"), "A", "", at); got != usd(want) {
				t.Errorf("%s at %s: %s, want %s", c.place, at, got, want)
			}
		}
	}
}

// Field case TIME-02: three days in a row, of which one has 23 or 25 hours, leave no gap and do not overlap.
func TestDaysInWhichClocksChangeLeaveNoGap(t *testing.T) {
	for _, c := range []struct {
		month time.Month
		day   int
		hours float64
	}{{time.March, 29, 23}, {time.October, 25, 25}} {
		var policy partner.Policy
		var first, last time.Time
		for i, percent := range []string{"10", "20", "30"} {
			from, until := localDay(t, "Europe/Rome", 2026, c.month, c.day-1+i)
			policy.Discounts = append(policy.Discounts, partner.Discount{Percent: percent, From: from, Until: until})
			if i == 0 {
				first = from
			}
			last = until
		}
		lasted := map[string]time.Duration{}
		const step = 15 * time.Minute
		for at := first; at.Before(last); at = at.Add(step) {
			lasted[policy.Price(usd("10.00"), "A", "", at).Amount()] += step
		}
		if len(lasted) != 3 || lasted["9.00"].Hours() != 24 || lasted["8.00"].Hours() != c.hours || lasted["7.00"].Hours() != 24 {
			t.Errorf("%s: prices lasted %v", c.month, lasted)
		}
	}
}
