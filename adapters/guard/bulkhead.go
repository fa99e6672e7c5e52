package guard

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxWaiting bounds who waits for a place. Whoever comes beyond it is turned away at once.
const maxWaiting = 1000

// bulkhead lets a limited number of calls in, first come first served. The limit may change between
// calls: it is told on each entry and exit.
type bulkhead struct {
	mu      sync.Mutex
	inside  int
	waiting []chan struct{} // closed when the place is given
}

// enter waits for a place, at most for longest. It fails with ErrBusy, or with the caller's own error.
func (b *bulkhead) enter(ctx context.Context, limit int, longest time.Duration) error {
	b.mu.Lock()
	if b.inside < limit && len(b.waiting) == 0 {
		b.inside++
		b.mu.Unlock()
		return nil
	}
	if len(b.waiting) >= maxWaiting {
		b.mu.Unlock()
		return ErrBusy
	}
	turn := make(chan struct{})
	b.waiting = append(b.waiting, turn)
	b.mu.Unlock()

	timer := time.NewTimer(longest)
	defer timer.Stop()
	var fault error
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		fault = ctx.Err()
	case <-timer.C:
		fault = ErrBusy
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, turn)
	if i < 0 {
		return nil // the place was given at the same moment
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return fault
}

// leave gives the place to those who wait, as far as the limit allows.
func (b *bulkhead) leave(limit int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inside--
	b.fill(limit)
}

// widen has a raised limit count for those who wait.
func (b *bulkhead) widen(limit int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(limit)
}

func (b *bulkhead) fill(limit int) {
	for b.inside < limit && len(b.waiting) > 0 {
		close(b.waiting[0])
		b.waiting = slices.Delete(b.waiting, 0, 1)
		b.inside++
	}
}

func (b *bulkhead) count() (inside, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inside, len(b.waiting)
}
