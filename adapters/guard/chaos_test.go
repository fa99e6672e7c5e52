package guard_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"andes/adapters/guard"
)

// moody is a system of which nobody knows what it does next, until it is well.
type moody struct {
	well         atomic.Bool
	inside, most atomic.Int64
}

func (m *moody) RoundTrip(r *http.Request) (*http.Response, error) {
	inside := m.inside.Add(1)
	defer m.inside.Add(-1)
	for most := m.most.Load(); inside > most && !m.most.CompareAndSwap(most, inside); most = m.most.Load() {
		continue
	}
	if m.well.Load() {
		return well(r)
	}
	switch rand.IntN(6) {
	case 0:
		return silent(r)
	case 1:
		return cutOff(r)
	case 2:
		return sick(r)
	case 3:
		return says(429, "application/json", "{}", "Retry-After", "1")(r)
	}
	return slow(rand.N(3 * time.Second))(r)
}

// unsteady swaps the settings until ctx ends.
func unsteady(ctx context.Context, t *testing.T, g *guard.Guard) {
	for ctx.Err() == nil {
		change(t, g, func(s *guard.Settings) {
			s.Concurrency, s.Rate, s.QueueWait = 1+rand.IntN(20), 10+rand.IntN(500), rand.N(5*time.Second)
			s.Timeout, s.Attempts = time.Millisecond+rand.N(4*time.Second), 1+rand.IntN(4)
			s.Breaker.Window = 1 + rand.IntN(30)
			s.Breaker.MinCalls = 1 + rand.IntN(s.Breaker.Window)
			s.Breaker.FailPercent, s.Breaker.SlowPercent = 1+rand.IntN(100), rand.IntN(101)
			s.Breaker.OpenFor, s.Breaker.Probes = time.Millisecond+rand.N(10*time.Second), 1+rand.IntN(5)
		})
		time.Sleep(rand.N(2 * time.Second))
	}
}

func TestWhateverHappensNothingIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &moody{}
		g := behind(t, s, nil)
		var all, swapping sync.WaitGroup
		ctx, settle := context.WithCancel(t.Context())
		swapping.Go(func() { unsteady(ctx, t, g) })
		for range 3000 {
			all.Go(func() {
				time.Sleep(rand.N(2 * time.Minute))
				mine, cancel := context.WithTimeout(t.Context(), rand.N(20*time.Second))
				defer cancel()
				if rand.IntN(2) == 0 && g.Ready(mine) != nil {
					return
				}
				method := []string{http.MethodGet, http.MethodPost}[rand.IntN(2)]
				_, _ = g.Call(request(t, mine, method), nil)
			})
		}
		all.Wait()
		settle()
		swapping.Wait()
		if s.most.Load() > 20+20 { // those of before a swap may still be inside
			t.Errorf("%d calls at once", s.most.Load())
		}
		if got := g.Snapshot(); got.InFlight != 0 || got.Waiting != 0 || got.Breaker.Probing != 0 {
			t.Errorf("left behind: %+v", got)
		}
		s.well.Store(true)
		change(t, g, func(s *guard.Settings) { s.Timeout = time.Second })
		begun := time.Now()
		for range g.Settings().Breaker.Probes {
			if err := g.Ready(t.Context()); err != nil {
				t.Error(err)
			}
			if err := post(t, g); err != nil {
				t.Error(err)
			}
		}
		is(t, g, guard.Closed)
		if took, most := time.Since(begun), g.Settings().Breaker.OpenFor+g.Settings().Breaker.ProbeWait; took > most {
			t.Errorf("it took %s until the system was called again", took)
		}
	})
}
