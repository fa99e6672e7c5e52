package quota

import (
	"context"
	"log/slog"
	"testing"
	"time"
)

// BenchmarkTake is what a request pays: a busy partner's mostly out of a lease, and one of a flood.
func BenchmarkTake(b *testing.B) {
	for _, tier := range []string{"bronze", "gold"} {
		b.Run(tier, func(b *testing.B) {
			config, now := DefaultConfig(), time.Unix(0, 0)
			config.Tiers, _ = ParseTiers("bronze=20/2,silver=100/10,gold=1000000/50", 1)
			config.Store, config.Logger = &shared{}, slog.New(slog.DiscardHandler)
			config.Now = func() time.Time {
				now = now.Add(time.Microsecond)
				return now
			}
			config.Route, config.Client = Limit{PerSecond: maxPerSecond, Burst: 1 << 40}, Limit{PerSecond: maxPerSecond, Burst: 1 << 40}
			quotas, err := New(config)
			if err != nil {
				b.Fatal(err)
			}
			defer quotas.Close()
			ask := asks(tier, Reads)
			b.ReportAllocs()
			for b.Loop() {
				quotas.Take(context.Background(), ask)
			}
		})
	}
}
