package guard_test

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"andes/adapters/guard"
)

func change(t *testing.T, g *guard.Guard, change func(*guard.Settings)) {
	t.Helper()
	if err := g.Change(func(s guard.Settings) guard.Settings { change(&s); return s }); err != nil {
		t.Fatal(err)
	}
}

func TestACallKeepsItsTimeoutWhenSettingsAreSwapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := behind(t, switchedTo(silent), nil)
		var both sync.WaitGroup
		begun := time.Now()
		both.Go(func() {
			if err := post(t, g); !errors.Is(err, guard.ErrTimeout) || time.Since(begun) != 2*time.Second {
				t.Errorf("error %v after %s", err, time.Since(begun))
			}
		})
		synctest.Wait()
		change(t, g, func(s *guard.Settings) { s.Timeout = 500 * time.Millisecond })
		if err := post(t, g); !errors.Is(err, guard.ErrTimeout) || time.Since(begun) != 500*time.Millisecond {
			t.Errorf("error %v after %s", err, time.Since(begun))
		}
		both.Wait()
	})
}

func TestPlacesOfNewSettingsAreGivenToThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := behind(t, switchedTo(slow(time.Second)), func(s *guard.Settings) { s.Concurrency = 1 })
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if err := post(t, g); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		change(t, g, func(s *guard.Settings) { s.Concurrency = 3 })
		synctest.Wait()
		if got := g.Snapshot(); got.InFlight != 3 || got.Waiting != 0 {
			t.Errorf("%d in flight, %d waiting", got.InFlight, got.Waiting)
		}
		change(t, g, func(s *guard.Settings) { s.Concurrency = 1 })
		all.Wait()
	})
}

func TestAnOpenBreakerAndThoseWhoWaitForItGoByTheNewestSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := switchedTo(well)
		g := behind(t, s, nil)
		opened(t, g, s)
		begun := time.Now()
		var waits sync.WaitGroup
		waits.Go(func() {
			if err := g.Ready(t.Context()); err != nil || time.Since(begun) != 10*time.Second {
				t.Errorf("ready after %s, error %v", time.Since(begun), err)
			}
		})
		time.Sleep(5 * time.Second)
		change(t, g, func(s *guard.Settings) { s.Breaker.OpenFor = time.Minute })
		synctest.Wait()
		change(t, g, func(s *guard.Settings) { s.Breaker.OpenFor = 10 * time.Second })
		waits.Wait()
	})
}

func TestFewerProbesMayBeEnoughAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := switchedTo(well)
		g := behind(t, s, nil)
		opened(t, g, s)
		s.turn(well)
		time.Sleep(30 * time.Second)
		_, _ = post(t, g), post(t, g)
		is(t, g, guard.HalfOpen)
		change(t, g, func(s *guard.Settings) { s.Breaker.Probes = 2 })
		is(t, g, guard.Closed)
	})
}

func TestChangesFromSeveralSidesAreAllMade(t *testing.T) {
	g := behind(t, switchedTo(well), func(s *guard.Settings) { s.MaxBody = 1 })
	var all sync.WaitGroup
	for range 500 {
		all.Go(func() { change(t, g, func(s *guard.Settings) { s.MaxBody++ }) })
	}
	all.Wait()
	if got := g.Settings().MaxBody; got != 501 {
		t.Errorf("%d changes", got-1)
	}
}

func TestAChangeThatMakesNoSenseIsNone(t *testing.T) {
	g := behind(t, switchedTo(well), nil)
	before := g.Settings()
	err := g.Change(func(s guard.Settings) guard.Settings {
		s.Concurrency, s.Rate, s.Timeout = 0, math.MaxInt, time.Hour
		s.Breaker = guard.Breaker{MinCalls: 30, FailPercent: 101, SlowPercent: -1}
		return s
	})
	if err == nil || !strings.Contains(err.Error(), "oms") || strings.Count(err.Error(), "\n") != 11 {
		t.Errorf("want twelve faults, got: %v", err)
	}
	if g.Settings() != before {
		t.Error("the settings are others")
	}
}
