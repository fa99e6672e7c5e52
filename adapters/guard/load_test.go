package guard_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"andes/adapters/guard"
	"andes/eventstore"
)

func contextFor(t *testing.T, length time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), length)
}

// crowded is a system that fails now and then for a while, and that counts who is inside.
type crowded struct {
	inside, most, calls atomic.Int64
	fails               func(call int64) bool
}

func (c *crowded) RoundTrip(r *http.Request) (*http.Response, error) {
	inside, call := c.inside.Add(1), c.calls.Add(1)
	defer c.inside.Add(-1)
	for most := c.most.Load(); inside > most && !c.most.CompareAndSwap(most, inside); most = c.most.Load() {
		continue
	}
	time.Sleep(20 * time.Millisecond)
	if c.fails(call) {
		return sick(r)
	}
	return well(r)
}

func TestThousandsOfCallersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &crowded{fails: func(call int64) bool { return call > 300 && call < 600 }}
		g := behind(t, s, func(s *guard.Settings) { s.Concurrency = 10 })
		var all sync.WaitGroup
		var fine, busy, refused, failed atomic.Int64
		begun := time.Now()
		for i := range 5000 {
			all.Go(func() {
				time.Sleep(time.Duration(i%500) * 100 * time.Millisecond)
				switch err := post(t, g); {
				case err == nil:
					fine.Add(1)
				case errors.Is(err, guard.ErrBusy):
					busy.Add(1)
				case errors.Is(err, guard.ErrOpen):
					refused.Add(1)
				default:
					failed.Add(1)
				}
			})
		}
		all.Wait()
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("took %s", took)
		}
		if s.most.Load() > 10 {
			t.Errorf("%d calls at once", s.most.Load())
		}
		if sum := fine.Load() + busy.Load() + refused.Load() + failed.Load(); sum != 5000 || fine.Load()+failed.Load() != s.calls.Load() {
			t.Errorf("%d fine, %d busy, %d refused, %d failed; %d calls", fine.Load(), busy.Load(), refused.Load(), failed.Load(), s.calls.Load())
		}
		if refused.Load() == 0 || fine.Load() == 0 {
			t.Errorf("%d fine, %d refused", fine.Load(), refused.Load())
		}
		if got := g.Snapshot(); got.InFlight != 0 || got.Waiting != 0 || got.Breaker.Probing != 0 {
			t.Errorf("left behind: %+v", got)
		}
	})
}

func TestTooManyWhoWaitAreTurnedAwayAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := switchedTo(slow(time.Second))
		g := behind(t, s, func(s *guard.Settings) { s.Concurrency = 1 })
		var all sync.WaitGroup
		var atOnce, later atomic.Int32
		begun := time.Now()
		for range 3000 {
			all.Go(func() {
				if err := post(t, g); errors.Is(err, guard.ErrBusy) && time.Since(begun) == 0 {
					atOnce.Add(1)
				} else if errors.Is(err, guard.ErrBusy) {
					later.Add(1)
				}
			})
		}
		all.Wait()
		if atOnce.Load() != 1999 || later.Load() != 995 || time.Since(begun) > 6*time.Second {
			t.Errorf("%d turned away at once, %d later, after %s", atOnce.Load(), later.Load(), time.Since(begun))
		}
	})
}

func TestTheRateSpreadsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := switchedTo(well)
		g := behind(t, s, func(s *guard.Settings) { s.Rate, s.Concurrency, s.QueueWait = 20, 100, 3*time.Second })
		var all sync.WaitGroup
		var busy atomic.Int32
		begun := time.Now()
		for range 100 {
			all.Go(func() {
				err := post(t, g)
				if errors.Is(err, guard.ErrBusy) && eventstore.Classify(err) == eventstore.Unavailable && time.Since(begun) == 0 {
					busy.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := s.made(); n != 2 {
			t.Errorf("%d calls at once, want a tenth of a second's", n)
		}
		for range 3 {
			time.Sleep(time.Second)
			synctest.Wait()
			if n := s.made(); n != 20 {
				t.Errorf("%d calls in a second", n)
			}
		}
		all.Wait()
		if busy.Load() != 38 {
			t.Errorf("%d were turned away", busy.Load())
		}
	})
}

func TestATurnThatIsGivenUpIsLeftToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := switchedTo(well)
		g := behind(t, s, func(s *guard.Settings) { s.Rate = 1 })
		if err := post(t, g); err != nil {
			t.Error(err)
		}
		for range 4 {
			ctx, cancel := contextFor(t, 10*time.Millisecond)
			if _, err := g.Call(request(t, ctx, http.MethodPost), nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
			cancel()
		}
		begun := time.Now()
		if err := post(t, g); err != nil || time.Since(begun) > time.Second {
			t.Errorf("error %v after %s", err, time.Since(begun))
		}
	})
}

func TestWhoseTimeRunsOutWhileWaitingWasNotTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := switchedTo(slow(1900 * time.Millisecond))
		g := behind(t, s, func(s *guard.Settings) { s.Concurrency = 1 })
		var first sync.WaitGroup
		first.Go(func() { _ = post(t, g) })
		synctest.Wait()
		ctx, cancel := contextFor(t, time.Second)
		defer cancel()
		_, err := g.Call(request(t, ctx, http.MethodPost), nil)
		if !errors.Is(err, context.DeadlineExceeded) || eventstore.Classify(err) != eventstore.Unavailable {
			t.Errorf("error %v of class %s", err, eventstore.Classify(err))
		}
		first.Wait()
		ctx, cancel = contextFor(t, time.Second)
		defer cancel()
		_, err = g.Call(request(t, ctx, http.MethodPost), nil)
		if !errors.Is(err, context.DeadlineExceeded) || eventstore.Classify(err) != eventstore.Transient {
			t.Errorf("error %v of class %s after it was sent", err, eventstore.Classify(err))
		}
	})
}

// A system gets slower with each call that it works on, and more is asked of it than it can do: what it does
// stays as quick as its bulkhead makes it, and the rest is turned away.
// Field case RESIL-03.
func TestConstantOverloadIsShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside, done, shed atomic.Int64
		s := switchedTo(func(r *http.Request) (*http.Response, error) {
			took := 20*time.Millisecond + time.Duration(inside.Add(1))*2*time.Millisecond
			defer inside.Add(-1)
			return slow(took)(r)
		})
		g := behind(t, s, func(s *guard.Settings) { s.QueueWait = 500 * time.Millisecond })
		const perSecond, length = 325, 60 // 250/s are what ten at once can do
		var all sync.WaitGroup
		for range perSecond * length {
			time.Sleep(time.Second / perSecond)
			all.Go(func() {
				begun := time.Now()
				err := post(t, g)
				if took := time.Since(begun); took > 550*time.Millisecond {
					t.Errorf("took %s", took)
				}
				if errors.Is(err, guard.ErrBusy) {
					shed.Add(1)
				} else if err == nil {
					done.Add(1)
				}
			})
		}
		all.Wait()
		if done.Load()+shed.Load() != perSecond*length || done.Load() < 240*length || g.Snapshot().Breaker.State != guard.Closed {
			t.Errorf("%d done, %d shed of %d", done.Load(), shed.Load(), perSecond*length)
		}
	})
}
