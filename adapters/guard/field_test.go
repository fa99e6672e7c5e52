package guard_test

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"andes/adapters/guard"
	"andes/tuning"
)

// patient is a system whose answers take as long as it is told, and of which one in oneIn fails, evenly; 0: none.
type patient struct {
	took  atomic.Int64
	oneIn atomic.Int64
	calls atomic.Int64
}

func (p *patient) RoundTrip(r *http.Request) (*http.Response, error) {
	if oneIn := p.oneIn.Load(); oneIn > 0 && p.calls.Add(1)%oneIn == 0 {
		return sick(r)
	}
	return slow(time.Duration(p.took.Load()))(r)
}

// served sends calls at a steady rate and gives how many of a hundred were answered.
func served(t *testing.T, g *guard.Guard, perSecond int, length time.Duration) float64 {
	t.Helper()
	var all sync.WaitGroup
	var fine atomic.Int64
	sent := int(length.Seconds() * float64(perSecond))
	for range sent {
		time.Sleep(time.Second / time.Duration(perSecond))
		all.Go(func() {
			if err := post(t, g); err == nil {
				fine.Add(1)
			}
		})
	}
	all.Wait()
	return 100 * float64(fine.Load()) / float64(sent)
}

// Field case RESIL-02: limits that react to a slow minute and never come back, because a trickle of errors forbids it.
func TestASlowMinuteLeavesNothingBehindWhateverTheTraffic(t *testing.T) {
	for name, perSecond := range map[string]int{"a call a second": 1, "two hundred": 200} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &patient{}
				p.took.Store(int64(50 * time.Millisecond))
				g := behind(t, p, func(s *guard.Settings) { s.Concurrency, s.Rate = 20, 400 })
				before := served(t, g, perSecond, time.Minute)
				p.took.Store(int64(2500 * time.Millisecond)) // beyond the timeout
				served(t, g, perSecond, time.Minute)
				if got := g.Snapshot().Breaker.State; got == guard.Closed {
					t.Errorf("the breaker is %s while nothing is answered", got)
				}
				p.took.Store(int64(50 * time.Millisecond))
				p.oneIn.Store(200)
				served(t, g, perSecond, time.Minute) // it is probed meanwhile
				after := served(t, g, perSecond, 2*time.Minute)
				if before < 99 || after < 99 || g.Snapshot().Breaker.State != guard.Closed {
					t.Errorf("%.1f%% were answered before and %.1f%% after, the breaker is %s", before, after, g.Snapshot().Breaker.State)
				}
			})
		})
	}
}

// Field case RESIL-02: noise, and answers of two lengths, shrank a limit to its floor.
func TestNoiseChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &patient{}
		p.oneIn.Store(20) // 5% fail
		p.took.Store(int64(20 * time.Millisecond))
		g := behind(t, p, nil)
		configured := g.Settings()
		for range 10 {
			served(t, g, 50, 10*time.Second)
			p.took.Store(int64(45*time.Millisecond) - p.took.Load()) // 20 or 25 ms
		}
		if got := g.Snapshot(); got.Breaker.State != guard.Closed || got.Breaker.Opened != 0 || g.Settings() != configured {
			t.Errorf("%+v", got)
		}
	})
}

// Field case RESIL-03: a promotion lowers a cap without a restart, and it returns after the promotion.
func TestACapIsLoweredAndComesBackWhileCallsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &patient{}
		p.took.Store(int64(100 * time.Millisecond))
		g := behind(t, p, func(s *guard.Settings) { s.Concurrency, s.QueueWait = 10, 0 })
		atOnce := func(want int) {
			t.Helper()
			var all sync.WaitGroup
			var done, busy atomic.Int64
			for range 12 {
				all.Go(func() {
					switch err := post(t, g); {
					case err == nil:
						done.Add(1)
					case errors.Is(err, guard.ErrBusy):
						busy.Add(1)
					}
				})
			}
			all.Wait()
			if int(done.Load()) != want || int(busy.Load()) != 12-want {
				t.Errorf("%d of 12 at once, %d turned away; want %d", done.Load(), busy.Load(), want)
			}
		}
		atOnce(10)
		for _, step := range []struct {
			patch tuning.Patch
			want  int
		}{{tuning.Patch{Concurrency: whole(3)}, 3}, {tuning.Patch{Concurrency: whole(1)}, 1}, {tuning.Patch{}, 10}} {
			if err := g.Tune(step.patch); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			atOnce(step.want)
		}
		// What is no limit at all is refused, and the one before counts on.
		for _, limit := range []int{0, -1, 1 << 40} {
			if err := g.Tune(tuning.Patch{Concurrency: &limit}); err == nil || g.Settings().Concurrency != 10 {
				t.Errorf("%d: %v, %d", limit, err, g.Settings().Concurrency)
			}
		}
	})
}
