package guard

import "time"

// Snapshot is what a guard is doing at one moment.
type Snapshot struct {
	System   string
	Breaker  BreakerSnapshot
	InFlight int // calls in the bulkhead
	Waiting  int // for a place in it
	Settings Settings
}

// BreakerSnapshot is a breaker at one moment.
type BreakerSnapshot struct {
	State     State
	Since     time.Time
	ProbesAt  time.Time // open: from then on; else zero
	Results   int       // closed: in the window
	Failures  int       // among them
	Slow      int       // among them
	Probing   int       // half-open: probes without a result
	Recovered int       // half-open: probes that succeeded
	Opened    int64     // times since the start
	Late      int64     // results that did not count, as they were of an older generation
}

// Snapshot tells what the guard is doing.
func (g *Guard) Snapshot() Snapshot {
	inside, waiting := g.places.count()
	return Snapshot{System: g.system, Breaker: g.breaker.snapshot(), InFlight: inside, Waiting: waiting, Settings: g.Settings()}
}

func (b *breaker) snapshot() (shown BreakerSnapshot) {
	b.step(func(m *machine, now time.Duration, s *Breaker) {
		m.advance(now, s)
		since := time.Now().Add(m.since - now)
		shown = BreakerSnapshot{
			State: m.state, Since: since,
			Results: len(m.window.results), Failures: m.window.ill, Slow: m.window.slow,
			Probing: len(m.probes), Recovered: m.recovered, Opened: b.opened, Late: b.late,
		}
		if m.state == Open {
			shown.ProbesAt = since.Add(m.pause(s))
		}
	})
	return shown
}
