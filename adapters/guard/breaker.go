package guard

import (
	"context"
	"sync"
	"time"
)

// breaker is a machine with a lock, a clock and those who wait for it.
type breaker struct {
	begun    time.Time // with a monotonic reading: setting the clock of the host changes nothing
	settings func() *Breaker
	told     func(change) // of each change of the state, in order; must not block

	mu      sync.Mutex
	machine machine
	changed chan struct{} // closed with the next change
	late    int64         // results of older generations
	opened  int64         // times
}

// change of a breaker's state.
type change struct {
	from, to State
	after    time.Duration // in the state before
}

func newBreaker(settings func() *Breaker, told func(change)) *breaker {
	return &breaker{begun: time.Now(), settings: settings, told: told, machine: newMachine(0), changed: make(chan struct{})}
}

// step runs one step of the machine and tells of the changes that it brought.
func (b *breaker) step(do func(m *machine, now time.Duration, s *Breaker)) {
	s := b.settings()
	b.mu.Lock()
	defer b.mu.Unlock()
	before, since, generation := b.machine.state, b.machine.since, b.machine.generation
	now := time.Since(b.begun)
	do(&b.machine, now, s)
	if b.machine.generation == generation {
		return
	}
	close(b.changed)
	b.changed = make(chan struct{})
	if b.machine.state == Open {
		b.opened++
	}
	b.told(change{before, b.machine.state, now - since})
}

func (b *breaker) admits() (admitted bool) {
	b.step(func(m *machine, now time.Duration, s *Breaker) { admitted = m.admits(now, s) })
	return admitted
}

func (b *breaker) admit() (given permit, admitted bool) {
	b.step(func(m *machine, now time.Duration, s *Breaker) { given, admitted = m.admit(now, s) })
	return given, admitted
}

func (b *breaker) settle(p permit, v verdict) {
	b.step(func(m *machine, now time.Duration, s *Breaker) {
		if !m.settle(p, v, now, s) {
			b.late++
		}
	})
}

// reconsider is called when the settings are new: those who wait may go on, or have to wait longer.
func (b *breaker) reconsider() {
	b.step(func(m *machine, now time.Duration, s *Breaker) { m.advance(now, s) })
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
}

// ready blocks while the breaker is open, and lets as many through as there are probes to be made.
func (b *breaker) ready(ctx context.Context) error {
	for {
		b.mu.Lock()
		changed := b.changed
		b.mu.Unlock()
		var (
			wait   time.Duration
			passed bool
		)
		b.step(func(m *machine, now time.Duration, s *Breaker) { wait, passed = m.pass(now, s) })
		if passed {
			return ctx.Err()
		}
		if !sleep(ctx, wait, changed) {
			return ctx.Err()
		}
	}
}

// sleep waits for the time or the signal; false when ctx is done first.
func sleep(ctx context.Context, wait time.Duration, signal <-chan struct{}) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-signal:
	}
	return true
}
