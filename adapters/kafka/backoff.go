package kafka

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is a bounded exponential wait with jitter. The zero value of wait starts it.
type backoff struct {
	least, most time.Duration
	wait        time.Duration
}

// next gives the next wait: between half of and the full current step.
func (b *backoff) next() time.Duration {
	b.wait = min(max(b.wait*2, b.least), b.most)
	return b.wait/2 + rand.N(b.wait/2+1)
}

func (b *backoff) reset() { b.wait = 0 }

// pause waits for the next step; false when ctx is done first.
func (b *backoff) pause(ctx context.Context) bool {
	return sleep(ctx, b.next())
}

// sleep waits; false when ctx is done first.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
