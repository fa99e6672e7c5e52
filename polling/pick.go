package polling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Bounds of reading single records.
const (
	MaxUrgent = 500 // records that are read more often than the rest
	MaxAgain  = 500 // records that are read once more because an operator wants it
	pickSize  = 100 // records in one call
)

// ErrNotPicked says that a source does not give the records that are asked for, but others.
var ErrNotPicked = errors.New("the source does not give the records that were asked for")

// urgency is when the urgent records are read, between the polls of all.
type urgency struct {
	mu      sync.Mutex
	slowest time.Duration // answer of the last time
	cannot  bool          // the source gives no single records
}

// rest waits until the next poll is due, and meanwhile reads the urgent records.
func (p *Poller) rest(ctx context.Context, wait time.Duration) {
	begun := p.cfg.Now()
	for ctx.Err() == nil {
		left := wait - max(0, p.cfg.Now().Sub(begun))
		if left <= 0 {
			return
		}
		ids := p.urgent()
		if len(ids) == 0 {
			pause(ctx, left)
			return
		}
		step := p.urgentRest()
		if step >= left {
			pause(ctx, left)
			return
		}
		pause(ctx, step)
		if ctx.Err() != nil || p.cfg.Away != nil && p.cfg.Away() {
			continue
		}
		if err := p.Pick(ctx, ids); err != nil && ctx.Err() == nil {
			p.cfg.Log.WarnContext(ctx, "urgent records were not read; the next poll reads all", "feed", p.cfg.Feed, "error", err)
		}
	}
}

// urgent lists what is to be read more often, or nothing when the source can't.
func (p *Poller) urgent() []string {
	if p.cfg.Urgent == nil {
		return nil
	}
	if _, can := p.cfg.Source.(Picker); !can {
		return nil
	}
	p.haste.mu.Lock()
	defer p.haste.mu.Unlock()
	if p.haste.cannot {
		return nil
	}
	ids := p.cfg.Urgent()
	return ids[:min(len(ids), MaxUrgent)]
}

// urgentRest is how long to wait before the urgent records are read again: a slow source gets rest from them
// too.
func (p *Poller) urgentRest() time.Duration {
	p.haste.mu.Lock()
	defer p.haste.mu.Unlock()
	return max(p.cfg.UrgentInterval, restFactor*p.haste.slowest)
}

// Pick reads single records and applies them. The cursor is not touched.
func (p *Poller) Pick(ctx context.Context, ids []string) error {
	picker, can := p.cfg.Source.(Picker)
	if !can {
		return fmt.Errorf("%w: %s", ErrNotPicked, p.cfg.Feed)
	}
	p.polling.Lock()
	defer p.polling.Unlock()
	var slowest time.Duration
	defer func() {
		p.haste.mu.Lock()
		defer p.haste.mu.Unlock()
		p.haste.slowest = slowest
	}()
	for some := range slices.Chunk(ids, pickSize) {
		asked := p.cfg.Now()
		items, err := picker.Pick(ctx, some)
		slowest = max(slowest, p.cfg.Now().Sub(asked))
		if errors.Is(err, ErrNotPicked) {
			p.haste.mu.Lock()
			p.haste.cannot = true
			p.haste.mu.Unlock()
		}
		if err != nil {
			p.cfg.Metrics.polls.WithLabelValues(p.cfg.Feed, "failed").Inc()
			return fmt.Errorf("pick of %s: %w", p.cfg.Feed, err)
		}
		p.cfg.Metrics.records.WithLabelValues(p.cfg.Feed).Add(float64(len(items)))
		failed, err := p.settle(ctx, items, func(refused []Refused) []Refused { return refused })
		if err = errors.Join(append(failed, err)...); err != nil {
			return fmt.Errorf("pick of %s: %w", p.cfg.Feed, err)
		}
	}
	p.cfg.Metrics.polls.WithLabelValues(p.cfg.Feed, "picked").Inc()
	return nil
}

// again reads the rejected records that an operator wants to be read once more.
func (p *Poller) again(ctx context.Context) error {
	if _, can := p.cfg.Source.(Picker); p.cfg.Ledger == nil || !can {
		return nil
	}
	ids, err := p.cfg.Ledger.Again(ctx, p.cfg.Feed, MaxAgain)
	if err != nil || len(ids) == 0 {
		return err
	}
	return p.Pick(ctx, ids)
}
