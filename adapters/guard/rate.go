package guard

import (
	"context"
	"sync"
	"time"
)

// burst is the share of a second whose calls may come at once.
const burst = 10

// pace spreads calls over time: the generic cell rate algorithm (ITU-T I.371), where who comes too early
// waits for its turn. The rate may change between calls.
type pace struct {
	begun time.Time // with a monotonic reading
	mu    sync.Mutex
	next  time.Duration // since begun: when a call would come that kept the rate exactly
}

// enter waits for the call's turn. When that would take longer than longest it fails with ErrBusy at once;
// a caller who gives up leaves its turn to the next one that comes.
func (p *pace) enter(ctx context.Context, perSecond int, longest time.Duration) error {
	interval := time.Second / time.Duration(perSecond)
	wait, ok := p.reserve(interval, max(1, perSecond/burst), longest)
	if !ok {
		return ErrBusy
	}
	if wait <= 0 {
		return nil
	}
	if !sleep(ctx, wait, nil) {
		p.mu.Lock()
		p.next -= interval
		p.mu.Unlock()
		return ctx.Err()
	}
	return nil
}

func (p *pace) reserve(interval time.Duration, atOnce int, longest time.Duration) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Since(p.begun)
	next := max(p.next, now)
	wait := next - now - time.Duration(atOnce-1)*interval
	if wait > longest {
		return 0, false
	}
	p.next = next + interval
	return wait, true
}
