package rebuild

import (
	"context"
	"sync"
	"time"
)

// pace limits how many records are taken a second, over all parts together. Zero is no limit.
type pace struct {
	perSecond int
	now       func() time.Time

	mu   sync.Mutex
	free time.Time // when the records that were taken are paid for
}

// take waits until n further records may be taken.
func (p *pace) take(ctx context.Context, n int) error {
	if p.perSecond <= 0 {
		return nil
	}
	p.mu.Lock()
	now := p.now()
	if p.free.Before(now) {
		p.free = now
	}
	wait := p.free.Sub(now)
	p.free = p.free.Add(time.Duration(n) * time.Second / time.Duration(p.perSecond))
	p.mu.Unlock()
	return pause(ctx, wait)
}

func pause(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
