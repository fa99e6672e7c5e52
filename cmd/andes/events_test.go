package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"andes/adapters/postgres"
	"andes/eventstore"
)

func TestMomentsAreReadOrRefused(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]moment{
		"":                          {},
		"17":                        {position: 17},
		"15m":                       {at: now.Add(-15 * time.Minute)},
		"7d":                        {at: now.AddDate(0, 0, -7)},
		"2026-11-29":                {at: time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)},
		"2026-11-29T18:30":          {at: time.Date(2026, 11, 29, 18, 30, 0, 0, time.UTC)},
		"2026-11-29T18:30:00-03:00": {at: time.Date(2026, 11, 29, 21, 30, 0, 0, time.UTC)},
	} {
		got, err := parseMoment("--from", text, now)
		if err != nil || got.position != want.position || !got.at.Equal(want.at) {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "-3", "yesterday", "2026-13-01", "2027-01-01", "-15m", "1.5", "d", "99999999999999999999"} {
		if got, err := parseMoment("--from", text, now); err == nil || !strings.HasPrefix(err.Error(), "--from") {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
}

func TestOnlyTheLastEventsAreKept(t *testing.T) {
	for _, most := range []int{0, 1, 3, 100} {
		last := lastEvents{most: most}
		var want []int64
		for i := range int64(50) {
			last.add(shownEvent{Record: eventstore.Record{Position: i}})
			if int(i) >= 50-most {
				want = append(want, i)
			}
			if len(last.events) > 2*most+1 {
				t.Fatalf("%d are held to keep %d", len(last.events), most)
			}
		}
		var got []int64
		for _, event := range last.list() {
			got = append(got, event.Position)
		}
		if !slices.Equal(got, want) {
			t.Errorf("of %d: %v", most, got)
		}
	}
}

func TestTheLargestStreamsAreFoundOverPages(t *testing.T) {
	var largest []streamCount
	for page := range int64(10) {
		var sizes []postgres.StreamSize
		for i := range int64(100) {
			sizes = append(sizes, postgres.StreamSize{Stream: eventstore.Stream{Category: "s", Key: strings.Repeat("k", int(i)+1)}, Events: (i*37 + page*11) % 1000})
		}
		largest = appendLargest(largest, sizes, 3)
	}
	if len(largest) != 3 || largest[0].Events < largest[1].Events || largest[1].Events < largest[2].Events || largest[2].Events < 980 {
		t.Errorf("%v", largest)
	}
}

func TestNothingSteersTheTerminal(t *testing.T) {
	if got := harmless("a\x1b[31m\u202eb\u009bc ñ"); got != "a\uFFFD[31m\uFFFDb\uFFFDc ñ" {
		t.Errorf("%q", got)
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
