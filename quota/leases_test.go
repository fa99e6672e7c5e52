package quota

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// ticking is a store on a clock of the test's.
type ticking struct {
	now   *time.Time
	level Level
}

func (s *ticking) Take(_ context.Context, _ Key, limit Limit, cost, extra int64) (Level, int64, error) {
	var granted int64
	s.level, granted = limit.Take(s.level, s.now.UnixMicro(), cost, extra)
	return s.level, granted, nil
}

// Whatever instances borrow and whenever requests come: from the start no more pass than the burst and the
// rate, and a refusal is right: the shared level had no room for the request.
func TestLeasesNeitherAddToAQuotaNorTakeFromItsUse(t *testing.T) {
	tiers, err := ParseTiers(DefaultTiers, 1)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Unix(1_000, 0)
		store := &ticking{now: &now}
		config := DefaultConfig()
		config.Tiers, config.Store, config.Wait, config.Logger = tiers, store, time.Minute, slog.New(slog.DiscardHandler)
		config.Now = func() time.Time { return now }
		var all []*Quotas
		for range 3 {
			quotas, err := New(config)
			if err != nil {
				rt.Fatal(err)
			}
			all = append(all, quotas)
		}
		limit := tiers.Of("gold").Of(Reads)
		passed, began := int64(0), now
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 30_000).Draw(rt, "µs")) * time.Microsecond)
			ask := asks("gold", Reads)
			ask.Cost = rapid.Int64Range(1, 40).Draw(rt, "cost")
			before := limit.Draining(store.level, now.UnixMicro())
			if all[rapid.IntRange(0, 2).Draw(rt, "instance")].Take(context.Background(), ask).Allowed {
				passed += ask.Cost
			} else if room := limit.Remaining(before); room >= ask.Cost {
				rt.Fatalf("refused %d although there was room for %d", ask.Cost, room)
			}
			if most := limit.Burst*micro + now.Sub(began).Microseconds()*limit.PerSecond; passed*micro > most {
				rt.Fatalf("%d passed, %d millionths may", passed, most)
			}
		}
	})
}
