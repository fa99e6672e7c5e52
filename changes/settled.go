package changes

import (
	"context"
	"slices"
	"time"
)

// passed is how far the log was looked at, at a time.
type passed struct {
	at       time.Time
	position int64
}

const (
	// markEvery is how exactly it is remembered when the log was how long; what is asked for lies at most that much earlier.
	markEvery = 100 * time.Millisecond
	// askEvery is the same for what was before this instance began, and how often the log is asked for it.
	askEvery = time.Second
	// commitDelay is how long before its commit an event may have got its time.
	commitDelay = 5 * time.Second
)

// welcome wakes those who wait to begin anew.
func (f *Feed) welcome() {
	select {
	case <-f.ready:
	default:
		if f.ring.confirmed.position >= f.old {
			close(f.ready)
		}
	}
}

// mark remembers how far the log was looked at.
func (f *Feed) mark(now passed) {
	last := passed{}
	if len(f.marks) > 0 {
		last = f.marks[len(f.marks)-1]
	}
	if now.position > last.position && now.at.Sub(last.at) >= markEvery {
		f.marks = append(f.marks, now)
	}
	for len(f.marks) > 1 && now.at.Sub(f.marks[1].at) >= f.config.Settled+f.config.MostKept {
		f.marks = f.marks[1:]
	}
}

// settled gives what every answer of a read that is given from now on has.
func (f *Feed) settled(ctx context.Context, now time.Time) (position int64, err error) {
	back := f.config.Settled
	if f.config.Kept != nil {
		back += min(f.config.Kept(), f.config.MostKept)
	}
	at := now.Add(-back)
	f.mu.Lock()
	seen, known := f.remembered(at, now)
	f.mu.Unlock()
	if known {
		return seen, nil
	}
	// This instance was not there yet: the events tell when they were recorded.
	if position, err = f.config.Log.Before(ctx, at.Add(-clockSkew-commitDelay)); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.older, f.asked = passed{at, position}, now
	return position, nil
}

// remembered gives how far the log went at a time, if that is known exactly enough.
func (f *Feed) remembered(at, now time.Time) (position int64, known bool) {
	for _, mark := range slices.Backward(f.marks) {
		if !mark.at.After(at) {
			return mark.position, true
		}
	}
	return f.older.position, !f.older.at.IsZero() && !f.older.at.After(at) && now.Sub(f.asked) < askEvery
}
