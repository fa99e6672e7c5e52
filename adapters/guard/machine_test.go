package guard

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is the breaker as one would explain it: it counts anew each time.
type model struct {
	settings Breaker
	now      time.Duration

	state   State
	since   time.Duration
	results []verdict                // of the closed breaker
	probing map[uint64]time.Duration // probes without a result, and when they were let through
	good    int                      // probes that succeeded
	changes uint64
	opened  int // times in a row
}

func (m *model) enter(state State) {
	if state == Open {
		if m.state == Closed && m.now-m.since >= m.settings.OpenFor {
			m.opened = 0
		}
		m.opened++
	}
	m.state, m.since = state, m.now
	m.results, m.probing, m.good = nil, map[uint64]time.Duration{}, 0
	m.changes++
}

// look does what time alone does.
func (m *model) look() {
	for _, at := range m.probing {
		if m.now-at >= m.settings.ProbeWait {
			m.enter(Open)
			return
		}
	}
	if m.state == HalfOpen && m.good >= m.settings.Probes {
		m.enter(Closed)
	}
}

func (m *model) pause() time.Duration {
	pause := m.settings.OpenFirst
	if pause == 0 {
		return m.settings.OpenFor
	}
	for range m.opened - 1 {
		if pause *= 2; pause > m.settings.OpenFor {
			return m.settings.OpenFor
		}
	}
	return min(pause, m.settings.OpenFor)
}

func (m *model) admits() bool {
	switch m.state {
	case Open:
		return m.now-m.since >= m.pause()
	case HalfOpen:
		return len(m.probing)+m.good < m.settings.Probes
	}
	return true
}

func (m *model) isBad(v verdict) bool { return v == ill || v == sluggish && m.settings.SlowPercent > 0 }

// share tells of how many of the last results f is true, in percent, as an exact comparison.
func share(results []verdict, percent int, f func(verdict) bool) bool {
	n := 0
	for _, v := range results {
		if f(v) {
			n++
		}
	}
	return 100*n >= percent*len(results)
}

func (m *model) closedResult(v verdict) {
	if v == silent {
		return
	}
	m.results = append(m.results, v)
	last := m.results[max(0, len(m.results)-m.settings.Window):]
	m.results = last // what a smaller window dropped does not come back in a larger one
	if !m.isBad(v) || len(last) < m.settings.MinCalls {
		return
	}
	isIll := func(v verdict) bool { return v == ill }
	isBad := func(v verdict) bool { return v == ill || v == sluggish }
	if share(last, m.settings.FailPercent, isIll) || m.settings.SlowPercent > 0 && share(last, m.settings.SlowPercent, isBad) {
		m.enter(Open)
	}
}

func (m *model) probeResult(id uint64, v verdict) {
	delete(m.probing, id)
	switch {
	case m.isBad(v):
		m.enter(Open)
	case v != silent:
		m.good++
		m.look()
	}
}

// sent is an attempt on its way.
type sent struct {
	permit  permit
	changes uint64 // of the model, when it was let through
}

// run has the machine and its model do the same.
type run struct {
	machine machine
	model   model
	flying  []sent
}

func anyBreaker(t *rapid.T) Breaker {
	window := rapid.IntRange(1, 25).Draw(t, "window")
	return Breaker{
		Window: window, MinCalls: rapid.IntRange(1, window).Draw(t, "minimum"),
		FailPercent: rapid.SampledFrom([]int{1, 33, 50, 51, 100}).Draw(t, "failures"),
		SlowPercent: rapid.SampledFrom([]int{0, 0, 30, 100}).Draw(t, "slow"),
		OpenFor:     time.Duration(rapid.IntRange(1, 30).Draw(t, "open")) * time.Second,
		OpenFirst:   time.Duration(rapid.SampledFrom([]int{0, 0, 1, 3, 60}).Draw(t, "open first")) * time.Second,
		Probes:      rapid.IntRange(1, 4).Draw(t, "probes"),
		ProbeWait:   time.Duration(rapid.IntRange(2, 10).Draw(t, "wait")) * time.Second,
	}
}

func (r *run) attempt(t *rapid.T) {
	r.model.look()
	want := r.model.admits()
	given, admitted := r.machine.admit(r.model.now, &r.model.settings)
	if want && r.model.state == Open {
		r.model.enter(HalfOpen)
	}
	if admitted && r.model.state == HalfOpen {
		r.model.probing[given.probe] = r.model.now
	}
	if admitted {
		r.flying = append(r.flying, sent{given, r.model.changes})
	}
	if admitted != want {
		t.Fatalf("admitted: %v, want %v", admitted, want)
	}
}

func (r *run) result(t *rapid.T) {
	if len(r.flying) == 0 {
		return
	}
	i := rapid.IntRange(0, len(r.flying)-1).Draw(t, "which")
	// Failures are likely, so that breakers open.
	v := rapid.SampledFrom([]verdict{healthy, healthy, sluggish, ill, ill, ill, silent}).Draw(t, "verdict")
	attempt := r.flying[i]
	r.flying = slices.Delete(r.flying, i, i+1)
	r.model.look()
	counts := attempt.changes == r.model.changes
	if got := r.machine.settle(attempt.permit, v, r.model.now, &r.model.settings); got != counts {
		t.Fatalf("a result of generation %d counts in generation %d: %v", attempt.permit.generation, r.machine.generation, got)
	}
	switch {
	case !counts:
	case r.model.state == Closed:
		r.model.closedResult(v)
	default:
		r.model.probeResult(attempt.permit.probe, v)
	}
}

func (r *run) check(t *rapid.T) {
	r.model.look()
	if admits := r.machine.admits(r.model.now, &r.model.settings); admits != r.model.admits() {
		t.Fatalf("admits: %v", admits)
	}
	m := &r.machine
	if m.state != r.model.state || m.since != r.model.since || m.generation != r.model.changes {
		t.Fatalf("%s since %s, generation %d; want %s since %s, %d", m.state, m.since, m.generation, r.model.state, r.model.since, r.model.changes)
	}
	if len(m.probes) != len(r.model.probing) || m.recovered != r.model.good {
		t.Fatalf("%d probes, %d recovered; want %d and %d", len(m.probes), m.recovered, len(r.model.probing), r.model.good)
	}
}

func TestTheMachineDoesWhatItsModelDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &run{machine: newMachine(0)}
		r.model = model{settings: anyBreaker(t), state: Closed, probing: map[uint64]time.Duration{}}
		t.Repeat(map[string]func(*rapid.T){
			"attempt": r.attempt,
			"again":   r.attempt, // more often than the rest
			"result":  r.result,
			"results": r.result,
			"wait": func(t *rapid.T) {
				r.model.now += time.Duration(rapid.IntRange(0, 20_000).Draw(t, "ms")) * time.Millisecond
			},
			"settings": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rarely") == 0 {
					r.model.settings = anyBreaker(t)
				}
			},
			"": r.check,
		})
	})
}

// Whatever happened, whatever the clock did and with whatever settings: a half-open breaker has no more than
// its probes out, and a system that is well again is called again once OpenFor and the probes' results are there.
func TestTheMachineAlwaysRecovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(0)
		s := anyBreaker(t)
		var now time.Duration
		var flying []permit
		t.Repeat(map[string]func(*rapid.T){
			"attempt": func(*rapid.T) {
				if given, admitted := m.admit(now, &s); admitted {
					flying = append(flying, given)
				}
			},
			"failure": func(*rapid.T) {
				if len(flying) > 0 {
					m.settle(flying[0], ill, now, &s)
					flying = flying[1:]
				}
			},
			"pass": func(*rapid.T) { m.pass(now, &s) },
			"jump": func(t *rapid.T) {
				now += time.Duration(rapid.IntRange(-3_600_000, 3_600_000).Draw(t, "ms")) * time.Millisecond
			},
			"": func(t *rapid.T) {
				if m.state == HalfOpen && len(m.probes)+m.recovered > s.Probes {
					t.Fatalf("%d probes and %d successes of %d", len(m.probes), m.recovered, s.Probes)
				}
				recovers(t, m, now, s)
			},
		})
	})
}

// recovers goes on with a copy of the machine: those on their way hang, and then the system is well.
func recovers(t *rapid.T, m machine, now time.Duration, s Breaker) {
	m.probes = slices.Clone(m.probes)
	m.window.results = slices.Clone(m.window.results)
	m.advance(now, &s)
	now += s.ProbeWait
	m.advance(now, &s)
	now += s.OpenFor
	if wait, passed := m.pass(now, &s); !passed && wait > s.ProbeWait {
		t.Fatalf("who waits is not let through, and told to wait for %s", wait)
	}
	for range s.Probes {
		if m.state == Closed {
			return
		}
		given, admitted := m.admit(now, &s)
		if !admitted {
			t.Fatalf("%s breaker does not let a probe through", m.state)
		}
		m.settle(given, healthy, now, &s)
	}
	if m.state != Closed {
		t.Fatalf("the breaker is %s although its probes succeeded", m.state)
	}
}

func TestTheWindowIsJudgedExactly(t *testing.T) {
	repeat := func(v verdict, n int) []verdict { return slices.Repeat([]verdict{v}, n) }
	slowness := func(b *Breaker) { b.SlowPercent = 80 }
	for name, c := range map[string]struct {
		change  func(*Breaker)
		results []verdict
		want    State
	}{
		"nineteen failures are too few":               {nil, repeat(ill, 19), Closed},
		"twenty are enough":                           {nil, repeat(ill, 20), Open},
		"half of twenty opens":                        {nil, slices.Concat(repeat(healthy, 10), repeat(ill, 10)), Open},
		"one less does not":                           {nil, slices.Concat(repeat(healthy, 11), repeat(ill, 9)), Closed},
		"a good result opens nothing":                 {nil, slices.Concat(repeat(ill, 10), repeat(healthy, 10)), Closed},
		"what left the window does not count":         {nil, slices.Concat(repeat(ill, 10), repeat(healthy, 20), repeat(ill, 9)), Closed},
		"ignored results do not count":                {nil, slices.Concat(repeat(ill, 19), repeat(silent, 50)), Closed},
		"ignored results push nothing out":            {nil, slices.Concat(repeat(healthy, 10), repeat(ill, 9), repeat(silent, 50), repeat(ill, 1)), Open},
		"slow answers are successes by default":       {nil, repeat(sluggish, 100), Closed},
		"slow answers open where they shall":          {slowness, slices.Concat(repeat(healthy, 4), repeat(sluggish, 16)), Open},
		"one less does not open":                      {slowness, slices.Concat(repeat(healthy, 5), repeat(sluggish, 15)), Closed},
		"failures are counted among the slow":         {slowness, slices.Concat(repeat(healthy, 4), repeat(ill, 9), repeat(sluggish, 7)), Open},
		"a window of one opens with the first":        {func(b *Breaker) { b.Window, b.MinCalls = 1, 1 }, repeat(ill, 1), Open},
		"a hundred percent needs all of them to fail": {func(b *Breaker) { b.FailPercent = 100 }, slices.Concat(repeat(healthy, 1), repeat(ill, 19)), Closed},
	} {
		t.Run(name, func(t *testing.T) {
			s := Defaults(1).Breaker
			if c.change != nil {
				c.change(&s)
			}
			m := newMachine(0)
			for _, v := range c.results {
				given, admitted := m.admit(0, &s)
				if !admitted {
					t.Fatal("opened too early")
				}
				m.settle(given, v, 0, &s)
			}
			if m.state != c.want {
				t.Errorf("the breaker is %s, want %s", m.state, c.want)
			}
		})
	}
}

// A short outage is not made longer by the breaker, a system that stays dead is asked no more often than before, and one that
// is well for a moment only is not taken for well.
func TestThePauseGrowsWhileASystemIsIll(t *testing.T) {
	s := Defaults(1).Breaker
	s.Window, s.MinCalls, s.Probes, s.OpenFirst = 1, 1, 1, 2*time.Second
	m, now := newMachine(0), time.Duration(0)
	ask := func(v verdict) {
		t.Helper()
		given, admitted := m.admit(now, &s)
		if !admitted {
			t.Fatalf("nothing is let through at %s", now)
		}
		m.settle(given, v, now, &s)
	}
	pauses := func(what string, want ...time.Duration) {
		t.Helper()
		for _, pause := range want {
			wait, passed := m.pass(now, &s)
			if passed || wait != pause || m.admits(now+pause-1, &s) || !m.admits(now+pause, &s) {
				t.Errorf("%s: a pause of %s (passed %t), want %s", what, wait, passed, pause)
			}
			now += pause
			ask(ill)
		}
	}
	ask(ill)
	pauses("while it is dead", 2*time.Second, 4*time.Second, 8*time.Second, 16*time.Second, 30*time.Second, 30*time.Second)
	now += 30 * time.Second
	ask(healthy) // closed
	now += 29 * time.Second
	ask(ill)
	pauses("it was well for a moment", 30*time.Second)
	now += 30 * time.Second
	ask(healthy)
	now += 30 * time.Second
	ask(ill)
	pauses("it was well", 2*time.Second, 4*time.Second)
	s.OpenFor = 3 * time.Second
	now += s.OpenFor
	ask(ill)
	pauses("the bound is lower now", 3*time.Second)
	s.OpenFirst = 0
	pauses("it does not grow", 3*time.Second)
}

// Three are let in by Ready, and have nothing to ask: the others wait for them, but not for ever.
func TestWhoIsLetInAndAsksNothingHoldsUpTheOthersForABoundedTime(t *testing.T) {
	s := Defaults(1).Breaker
	m := newMachine(0)
	m.enter(Open, 0)
	if wait, passed := m.pass(0, &s); passed || wait != s.OpenFor {
		t.Errorf("passed %v, wait %s", passed, wait)
	}
	now := s.OpenFor
	for i := range s.Probes {
		if _, passed := m.pass(now, &s); !passed {
			t.Errorf("number %d is not let in", i)
		}
	}
	if wait, passed := m.pass(now, &s); passed || wait != s.ProbeWait {
		t.Errorf("passed %v, wait %s", passed, wait)
	}
	if _, passed := m.pass(now+s.ProbeWait, &s); !passed {
		t.Error("nobody is let in any more")
	}
}

func TestAClockThatJumpsProlongsNothing(t *testing.T) {
	s := Defaults(1).Breaker
	open := newMachine(0)
	open.enter(Open, time.Hour)
	for name, c := range map[string]struct {
		now  time.Duration
		wait time.Duration // for Ready; 0: none
	}{
		"it goes on":                    {time.Hour + 10*time.Second, 20 * time.Second},
		"put back by a minute":          {time.Hour - time.Minute, 30 * time.Second},
		"put back before the beginning": {-24 * time.Hour, 30 * time.Second},
		"put forward":                   {48 * time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := open
			if wait, passed := m.pass(c.now, &s); wait != c.wait || passed != (c.wait == 0) {
				t.Errorf("passed %v, wait %s", passed, wait)
			}
			if _, admitted := m.admit(c.now+c.wait, &s); !admitted || m.state != HalfOpen {
				t.Errorf("no probe: %s", m.state)
			}
			// The probe hangs, and the clock is put back once more.
			m.advance(c.now-time.Hour, &s)
			if m.advance(c.now-time.Hour+s.ProbeWait, &s); m.state != Open {
				t.Errorf("the probe still counts as on its way: %s", m.state)
			}
		})
	}
}

func TestAnyRetryAfterIsAPauseOrNone(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		header := http.Header{}
		header["Retry-After"] = rapid.SliceOfN(rapid.OneOf(
			rapid.String(), rapid.StringMatching(`[-+]?[0-9]{0,40}(\.[0-9]{0,20})?([eE][-+]?[0-9]{1,4})?`),
			rapid.SampledFrom([]string{"Inf", "-Inf", "NaN", "0x1p1000", "1_0", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT"}),
		), 0, 3).Draw(t, "retry after")
		header["Date"] = rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.Just("Mon, 01 Jan 0001 00:00:00 GMT")), 0, 1).Draw(t, "date")
		if pause := asked(header, now); pause < 0 {
			t.Fatalf("a pause of %s", pause)
		}
	})
}
