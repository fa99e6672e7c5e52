package guard

import (
	"slices"
	"time"
)

// State of a breaker.
type State string

// The states.
const (
	Closed   State = "closed"
	Open     State = "open"
	HalfOpen State = "half-open"
)

// verdict is what the outcome of an attempt says of the system's health.
type verdict int

const (
	healthy verdict = iota
	sluggish
	ill
	silent // nothing: the caller gave up, or nothing was sent
)

// permit is the right to make one attempt. Its result only counts in the generation that gave it.
type permit struct {
	generation uint64
	probe      uint64 // 0: of a closed breaker
}

// probe is an attempt of a half-open breaker without a result yet.
type probe struct {
	id uint64
	at time.Duration
}

// machine is the breaker without a lock and without a clock: now is the time since any fixed moment, by a
// clock that may be wrong in either direction. Settings may be others at each step.
type machine struct {
	state      State
	generation uint64        // grows with each change of the state
	since      time.Duration // of the last change
	window     window        // closed: the last results
	openings   int           // since it was last closed for long enough to count as well

	probes    []probe // half-open: those without a result
	probed    uint64  // id of the last probe
	recovered int     // half-open: probes that succeeded

	passes   int           // given to those who wait, in this generation
	passedAt time.Duration // the last one
}

func newMachine(now time.Duration) machine { return machine{state: Closed, since: now} }

func (m *machine) enter(state State, now time.Duration) {
	m.state, m.since = state, now
	m.generation++
	m.window = window{}
	m.probes, m.recovered, m.passes = nil, 0, 0
}

// open shuts the system out, each time for longer. A breaker that was closed for a short while only has not shown that
// the system is well.
func (m *machine) open(now time.Duration, s *Breaker) {
	if m.state == Closed && now-m.since >= s.OpenFor {
		m.openings = 0
	}
	m.openings++
	m.enter(Open, now)
}

// maxDoublings is more than there are between the shortest and the longest pause.
const maxDoublings = 20

// pause is how long an open breaker waits before the probes.
func (m *machine) pause(s *Breaker) time.Duration {
	if s.OpenFirst == 0 {
		return s.OpenFor
	}
	return min(s.OpenFor, s.OpenFirst<<min(max(m.openings-1, 0), maxDoublings))
}

// advance does what is due by time alone, or because of new settings: a probe that hangs is one that failed.
func (m *machine) advance(now time.Duration, s *Breaker) {
	m.since = min(m.since, now) // a clock that was put back must not prolong anything
	m.passedAt = min(m.passedAt, now)
	if m.state != HalfOpen {
		return
	}
	for i := range m.probes {
		m.probes[i].at = min(m.probes[i].at, now)
	}
	switch {
	case len(m.probes) > 0 && now-m.probes[0].at >= s.ProbeWait:
		m.open(now, s)
	case m.recovered >= s.Probes:
		m.enter(Closed, now)
	}
}

// due tells whether an open breaker has waited long enough for probes.
func (m *machine) due(now time.Duration, s *Breaker) bool { return now-m.since >= m.pause(s) }

// admits tells whether an attempt would be let through.
func (m *machine) admits(now time.Duration, s *Breaker) bool {
	m.advance(now, s)
	switch m.state {
	case Open:
		return m.due(now, s)
	case HalfOpen:
		return len(m.probes)+m.recovered < s.Probes
	}
	return true
}

// admit lets an attempt through, or not.
func (m *machine) admit(now time.Duration, s *Breaker) (permit, bool) {
	if !m.admits(now, s) {
		return permit{}, false
	}
	if m.state == Closed {
		return permit{generation: m.generation}, true
	}
	if m.state == Open {
		passes, passedAt := m.passes, m.passedAt
		m.enter(HalfOpen, now)
		m.passes, m.passedAt = passes, passedAt // who was let in by Ready makes the probes of this generation
	}
	m.probed++
	m.probes = append(m.probes, probe{m.probed, now})
	return permit{m.generation, m.probed}, true
}

// settle takes an attempt's result. False: it is a late one of an older generation, and says nothing.
func (m *machine) settle(p permit, v verdict, now time.Duration, s *Breaker) bool {
	m.advance(now, s)
	if p.generation != m.generation {
		return false
	}
	bad := v == ill || v == sluggish && s.SlowPercent > 0
	if m.state == Closed {
		if v != silent {
			m.window.add(v, s.Window)
		}
		if bad && m.window.tooMany(s) {
			m.open(now, s)
		}
		return true
	}
	m.probes = slices.DeleteFunc(m.probes, func(each probe) bool { return each.id == p.probe })
	switch {
	case bad:
		m.open(now, s)
	case v != silent:
		m.recovered++
		m.advance(now, s)
	}
	return true
}

// pass lets one of those who wait go on and make its attempt. When it can't, it gives the wait after which
// asking again is worth while, if the state has not changed before.
func (m *machine) pass(now time.Duration, s *Breaker) (wait time.Duration, passed bool) {
	m.advance(now, s)
	switch {
	case m.state == Closed:
		return 0, true
	case m.state == Open && !m.due(now, s):
		return m.since + m.pause(s) - now, false
	case m.passes >= s.Probes && now-m.passedAt < s.ProbeWait:
		return m.passedAt + s.ProbeWait - now, false
	case m.passes >= s.Probes:
		m.passes = 0 // some who were let in had nothing to ask
	}
	m.passes++
	m.passedAt = now
	return 0, true
}

// window holds the last results of a closed breaker.
type window struct {
	results []verdict // a ring once it is full
	next    int
	ill     int
	slow    int
}

func (w *window) add(v verdict, size int) {
	if len(w.results) > size || len(w.results) < size && w.next > 0 {
		w.resize(size)
	}
	if len(w.results) < size {
		w.results = append(w.results, v)
	} else {
		w.count(w.results[w.next], -1)
		w.results[w.next] = v
		w.next = (w.next + 1) % size
	}
	w.count(v, 1)
}

// resize keeps the newest results.
func (w *window) resize(size int) {
	inOrder := slices.Concat(w.results[w.next:], w.results[:w.next])
	w.results, w.next = inOrder[max(0, len(inOrder)-size):], 0
	w.ill, w.slow = 0, 0
	for _, v := range w.results {
		w.count(v, 1)
	}
}

func (w *window) count(v verdict, n int) {
	switch v {
	case ill:
		w.ill += n
	case sluggish:
		w.slow += n
	}
}

// tooMany is asked after a bad result only: a system that has just got well must not be shut out because
// the minimum of results is reached by a good one.
func (w *window) tooMany(s *Breaker) bool {
	total := len(w.results)
	if total < s.MinCalls {
		return false
	}
	return w.ill*100 >= s.FailPercent*total || s.SlowPercent > 0 && (w.ill+w.slow)*100 >= s.SlowPercent*total
}
