package quota

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Field case RATE-03: a fixed window lets twice the limit through around its boundary.
func TestInAnyStretchNoMoreThanTheBurstAndTheRatePass(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := Limit{PerSecond: rapid.Int64Range(1, 100_000).Draw(rt, "rate")}
		limit.Burst = limit.PerSecond * rapid.Int64Range(1, 3).Draw(rt, "seconds")
		level, now := Level{}, int64(0)
		type passed struct{ at, cost int64 }
		var all []passed
		for range rapid.IntRange(1, 60).Draw(rt, "requests") {
			now += rapid.Int64Range(0, micro/2).Draw(rt, "pause")
			var granted int64
			level, granted = limit.Take(level, now, rapid.Int64Range(1, limit.Burst).Draw(rt, "cost"), rapid.Int64Range(0, limit.Burst).Draw(rt, "extra"))
			all = append(all, passed{now, granted})
		}
		for i := range all {
			sum := int64(0)
			for _, later := range all[i:] {
				sum += later.cost
				if most := limit.Burst*micro + (later.at-all[i].at)*limit.PerSecond; sum*micro > most {
					rt.Fatalf("%d passed in %d µs, %d millionths may", sum, later.at-all[i].at, most)
				}
			}
		}
	})
}

func TestAfterTheToldWaitARequestFits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := Limit{PerSecond: rapid.Int64Range(1, maxPerSecond).Draw(rt, "rate")}
		limit.Burst = limit.PerSecond * rapid.Int64Range(1, maxBurstSeconds).Draw(rt, "seconds")
		level := Level{Used: rapid.Int64Range(0, limit.Burst*micro).Draw(rt, "used")}
		cost := rapid.Int64Range(1, limit.Burst).Draw(rt, "cost")
		wait := limit.Wait(level, cost).Microseconds()
		if _, granted := limit.Take(level, wait, cost, 0); granted != cost {
			rt.Fatalf("%d of %d fit after %d µs", granted, cost, wait)
		}
		if wait > 0 {
			if _, granted := limit.Take(level, wait-1, cost, 0); granted != 0 {
				rt.Fatalf("%d fit before %d µs", granted, wait)
			}
		}
		if full := limit.Full(level).Microseconds(); limit.Draining(level, full).Used != 0 {
			rt.Fatalf("not empty after %d µs", full)
		}
	})
}

func TestNothingIsLentFromTheLowerHalfOfTheBurst(t *testing.T) {
	limit := Limit{PerSecond: 20, Burst: 20}
	for used, want := range map[int64]int64{0: 9, 5: 4, 8: 1, 9: 0, 15: 0} {
		if level, granted := limit.Take(Level{Used: used * micro}, 0, 1, 50); granted != 1+want || level.Used != (used+1+want)*micro {
			t.Errorf("%d used: granted %d, left %+v", used, granted, level)
		}
	}
}

func TestWhateverWasKeptTheBurstIsBackAfterItsTime(t *testing.T) {
	limit := Limit{PerSecond: 20, Burst: 20}
	const now = 1_000 * micro
	for name, level := range map[string]Level{
		"beyond the burst": {Used: 1 << 62, At: now}, "from the future": {Used: 20 * micro, At: 1 << 62}, "negative": {Used: -5, At: -5}, "ages ago": {Used: 20 * micro, At: -1 << 61},
	} {
		level, _ = limit.Take(level, now, 1, 0)
		if _, granted := limit.Take(level, now+micro, 20, 0); granted != 20 {
			t.Errorf("%s: granted %d", name, granted)
		}
	}
}

func TestFieldsAreThoseOfTheDraft(t *testing.T) {
	v := Verdict{Allowed: true, Group: Reads, Limit: Limit{PerSecond: 20, Burst: 20}, Remaining: 19, Reset: 50 * time.Millisecond}
	if v.Policy() != `"reads";q=20;w=1` || v.State() != `"reads";r=19;t=1` {
		t.Error(v.Policy(), v.State())
	}
	v = Verdict{Group: Orders, Limit: Limit{PerSecond: 2, Burst: 6}, Reset: 1001 * time.Millisecond, RetryAfter: 1001 * time.Millisecond}
	if v.Policy() != `"orders";q=6;w=3` || v.State() != `"orders";r=0;t=2` || v.RetryField() != "2" {
		t.Error(v.Policy(), v.State(), v.RetryField())
	}
	if (Verdict{}).RetryField() != "1" {
		t.Error("Retry-After is 0")
	}
}

func TestTiersAreReadOrAllFaultsNamed(t *testing.T) {
	tiers, err := ParseTiers("gold=500/50, bronze=20/2,silver=100/10", 2)
	if err != nil || tiers[0].Name != "bronze" || tiers.Of("gold").Of(Orders) != (Limit{50, 100}) || tiers.Of("silver").Of(Reads) != (Limit{100, 200}) || tiers.Of("none").Name != "bronze" {
		t.Errorf("%+v, %v", tiers, err)
	}
	for text, part := range map[string]string{
		"": "bronze has no rates", "bronze=20/2,silver=100/10": "gold has no rates", DefaultTiers + ",gold=1/1": "twice",
		"bronze=0/2,silver=100/10,gold=500/50": `"0" of bronze`, "bronze=20,silver=100/10,gold=500/50": `"bronze=20"`,
		"bronze=20/2,silver=100/10,gold=9999999/50": "9999999", DefaultTiers + ",iron=1/1": "iron", "bronze=2e1/2,silver=1.5/10,gold=500/-1": `"-1" of gold`,
	} {
		if _, err := ParseTiers(text, 1); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, seconds := range []int64{0, -1, 61} {
		if _, err := ParseTiers(DefaultTiers, seconds); err == nil {
			t.Errorf("a burst of %d s is taken", seconds)
		}
	}
}
