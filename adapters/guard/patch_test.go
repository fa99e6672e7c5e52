package guard_test

import (
	"strings"
	"testing"
	"time"

	"andes/adapters/guard"
	"andes/tuning"
)

func whole(n int) *int { return &n }

func TestAPatchIsLaidOverTheConfiguration(t *testing.T) {
	g := behind(t, switchedTo(well), func(s *guard.Settings) { s.Rate = 40 })
	configured := g.Settings()
	want := configured
	want.Concurrency, want.Timeout, want.Attempts, want.Waits = 3, time.Second, 2, [3]time.Duration{100 * time.Millisecond, time.Second, time.Second}
	want.QueueWait, want.MaxRetryAfter = 0, 7*time.Second
	want.Breaker = guard.Breaker{
		Window: 50, MinCalls: 10, FailPercent: 30, SlowAfter: 800 * time.Millisecond, SlowPercent: 60, OpenFor: time.Minute, OpenFirst: 3 * time.Second, Probes: 5, ProbeWait: 4 * time.Second,
	}
	err := g.Tune(tuning.Patch{
		Concurrency: whole(3), Timeout: "1s", Attempts: whole(2), Waits: []string{"100ms", "1s"}, QueueWait: "0s", MaxRetryAfter: "7s",
		Window: whole(50), MinCalls: whole(10), FailPercent: whole(30), SlowAfter: "800ms", SlowPercent: whole(60), OpenFor: "1m", OpenFirst: "3s", Probes: whole(5), ProbeWait: "4s",
	})
	if got := g.Settings(); err != nil || got != want {
		t.Errorf("%+v, want %+v; %v", got, want, err)
	}
	// The next patch is laid over the configuration too, not over the one before.
	if err := g.Tune(tuning.Patch{Rate: whole(9)}); err != nil {
		t.Error(err)
	}
	want = configured
	want.Rate = 9
	if got := g.Settings(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := g.Tune(tuning.Patch{}); err != nil || g.Settings() != configured {
		t.Errorf("%+v, %v", g.Settings(), err)
	}
}

func TestAPatchIsCheckedAsAWhole(t *testing.T) {
	g := behind(t, switchedTo(well), nil)
	before := g.Settings()
	for fault, patch := range map[string]tuning.Patch{
		"timeout \"soon\" is no duration":            {Timeout: "soon", Rate: whole(5)},
		"rate 0/s is not 1..":                        {Rate: whole(0)},
		"concurrency -1 is not 1..":                  {Concurrency: whole(-1)},
		"minimum of calls 20 is not 1..10, the wind": {Window: whole(10)}, // each by itself would do
		"probe wait 10s is below the timeout 11s":    {Timeout: "11s"},
		"timeout -1s is not above 0":                 {Timeout: "-1s"},
		"4 waits, more than 3":                       {Waits: []string{"1s", "1s", "1s", "1s"}},
		"wait \"x\" is no duration":                  {Waits: []string{"x"}},
		"failures 101% are not":                      {FailPercent: whole(101)},
		"open for 48h0m0s is not":                    {OpenFor: "48h"},
	} {
		if err := g.Tune(patch); err == nil || !strings.Contains(err.Error(), fault) || g.Settings() != before {
			t.Errorf("%+v: %v", patch, err)
		}
	}
}

func TestHowLongACallMayTakeIsReckonedWithAllItsAttempts(t *testing.T) {
	s := guard.Defaults(10) // 3 attempts of 5 s for a place and 2 s, and two pauses of up to 5 s
	if got := s.Longest(); got != 31*time.Second {
		t.Errorf("%s", got)
	}
	s.Attempts, s.MaxRetryAfter = 4, time.Second // the waits with their jitter: 1 s (asked), 1.25 s, 6.25 s
	if got := s.Longest(); got != 28*time.Second+8500*time.Millisecond {
		t.Errorf("%s", got)
	}
}
