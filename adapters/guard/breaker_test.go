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

	"github.com/prometheus/client_golang/prometheus"

	"andes/adapters/guard"
	"andes/eventstore"
)

// switched is a system that a test turns ill and well, and that answers at once unless told otherwise.
type switched struct {
	calls  atomic.Int32
	answer atomic.Pointer[func(*http.Request) (*http.Response, error)]
}

func switchedTo(answer func(*http.Request) (*http.Response, error)) *switched {
	s := &switched{}
	s.turn(answer)
	return s
}

func (s *switched) turn(answer func(*http.Request) (*http.Response, error)) { s.answer.Store(&answer) }

func (s *switched) RoundTrip(r *http.Request) (*http.Response, error) {
	s.calls.Add(1)
	return (*s.answer.Load())(r)
}

// made gives the calls since it was asked last.
func (s *switched) made() int { return int(s.calls.Swap(0)) }

var (
	well = ok(`{"a":1}`)
	sick = says(503, "application/json", `{}`)
)

func behind(t *testing.T, s http.RoundTripper, change func(*guard.Settings)) *guard.Guard {
	t.Helper()
	settings := guard.Defaults(10)
	settings.Jitter, settings.Rate = 0, 10_000
	if change != nil {
		change(&settings)
	}
	g, err := guard.New(guard.Config{System: "oms", Settings: settings, Transport: s, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// post makes a call that is sent once.
func post(t *testing.T, g *guard.Guard) error {
	t.Helper()
	_, err := g.Call(request(t, t.Context(), http.MethodPost), nil)
	return err
}

func opened(t *testing.T, g *guard.Guard, s *switched) {
	t.Helper()
	s.turn(sick)
	for range 20 {
		if err := post(t, g); !errors.Is(err, guard.ErrStatus) {
			t.Fatalf("error %v", err)
		}
	}
	is(t, g, guard.Open)
	s.made()
}

func is(t *testing.T, g *guard.Guard, want guard.State) {
	t.Helper()
	if got := g.Snapshot().Breaker; got.State != want {
		t.Errorf("the breaker is %s: %+v, want %s", got.State, got, want)
	}
}

func TestAnOpenBreakerKeepsCallsFromAnIllSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := switchedTo(well)
		g := behind(t, s, nil)
		opened(t, g, s)
		for range 100 {
			err := post(t, g)
			fault, is := errors.AsType[*guard.Fault](err)
			if !errors.Is(err, guard.ErrOpen) || !is || fault.MayHaveArrived() || eventstore.Classify(err) != eventstore.Unavailable {
				t.Fatalf("error %v of class %s", err, eventstore.Classify(err))
			}
			time.Sleep(299 * time.Millisecond)
		}
		if n := s.made(); n != 0 || !g.Away() {
			t.Errorf("%d calls were made", n)
		}
		time.Sleep(time.Second)
		for range 10 { // a probe, which fails
			_ = post(t, g)
		}
		if n := s.made(); n != 1 {
			t.Errorf("%d probes were made", n)
		}
		is(t, g, guard.Open)
		s.turn(well)
		time.Sleep(30 * time.Second)
		for range 3 {
			if err := post(t, g); err != nil {
				t.Error(err)
			}
		}
		is(t, g, guard.Closed)
		if got := g.Snapshot().Breaker; got.Opened != 2 || got.Late != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// A probe that was sent and failed is a failure of its record, or one that always fails would be put off,
// be the next probe, and keep the breaker open for ever.
func TestAFailedProbeIsATryAndIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := switchedTo(well)
		g := behind(t, s, nil)
		opened(t, g, s)
		time.Sleep(30 * time.Second)
		_, err := g.Call(request(t, t.Context(), http.MethodGet), nil)
		if !errors.Is(err, guard.ErrStatus) || eventstore.Classify(err) != eventstore.Transient {
			t.Errorf("error %v of class %s", err, eventstore.Classify(err))
		}
		if n := s.made(); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

func TestAHungProbeBlocksNobodyForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := switchedTo(well)
		g := behind(t, s, func(s *guard.Settings) { s.Breaker.Probes = 1 })
		opened(t, g, s)
		time.Sleep(30 * time.Second)
		release := make(chan struct{})
		s.turn(func(r *http.Request) (*http.Response, error) {
			<-release // whatever its context says
			return well(r)
		})
		var hung sync.WaitGroup
		hung.Go(func() { _ = post(t, g) })
		synctest.Wait()
		is(t, g, guard.HalfOpen)
		s.turn(well)
		begun := time.Now()
		if err := g.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		if waited := time.Since(begun); waited != 0 { // the one that Ready lets in for the probe
			t.Errorf("waited for %s", waited)
		}
		if err := post(t, g); !errors.Is(err, guard.ErrOpen) {
			t.Errorf("error %v beside the hung probe", err)
		}
		if err := g.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		// The probe's wait of 10 s, and then open for 30 s.
		if waited := time.Since(begun); waited != 40*time.Second {
			t.Errorf("waited for %s", waited)
		}
		if err := post(t, g); err != nil {
			t.Error(err)
		}
		is(t, g, guard.Closed)
		close(release)
		hung.Wait()
		is(t, g, guard.Closed)
		if late := g.Snapshot().Breaker.Late; late != 1 {
			t.Errorf("%d late results", late)
		}
	})
}

func TestACancelledProbeGivesItsPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := switchedTo(well)
		g := behind(t, s, func(s *guard.Settings) { s.Breaker.Probes = 1 })
		opened(t, g, s)
		time.Sleep(30 * time.Second)
		s.turn(silent)
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := g.Call(request(t, ctx, http.MethodPost), nil)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
			is(t, g, guard.HalfOpen)
		}
		s.turn(well)
		if err := post(t, g); err != nil {
			t.Error(err)
		}
		is(t, g, guard.Closed)
	})
}

func TestALateResultOfAnOlderStateSaysNothing(t *testing.T) {
	for name, late := range map[string]func(*http.Request) (*http.Response, error){"success": well, "failure": sick} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := switchedTo(well)
				g := behind(t, s, func(s *guard.Settings) {
					s.Timeout, s.Breaker.OpenFor, s.Breaker.Probes = 10*time.Second, time.Second, 1
				})
				var before sync.WaitGroup
				s.turn(func(r *http.Request) (*http.Response, error) {
					time.Sleep(5 * time.Second)
					return late(r)
				})
				for range 3 {
					before.Go(func() { _ = post(t, g) })
				}
				synctest.Wait()
				opened(t, g, s)
				time.Sleep(3 * time.Second)
				s.turn(func(r *http.Request) (*http.Response, error) {
					time.Sleep(5 * time.Second)
					return well(r)
				})
				before.Go(func() { _ = post(t, g) }) // the probe
				time.Sleep(3 * time.Second)
				is(t, g, guard.HalfOpen) // the results from before came, and changed nothing
				before.Wait()
				is(t, g, guard.Closed)
				if got := g.Snapshot().Breaker.Late; got != 3 {
					t.Errorf("%d late results", got)
				}
			})
		})
	}
}

// At one call a minute each call comes when probes are due: nothing is refused, and every call tells.
func TestOneCallAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := switchedTo(sick)
		g := behind(t, s, nil)
		minutes := func(n int, want error) {
			t.Helper()
			for range n {
				if err := post(t, g); !errors.Is(err, want) {
					t.Errorf("error %v, want %v", err, want)
				}
				time.Sleep(time.Minute)
			}
		}
		minutes(19, guard.ErrStatus)
		is(t, g, guard.Closed)
		minutes(60, guard.ErrStatus)
		is(t, g, guard.Open)
		s.turn(well)
		minutes(2, nil)
		is(t, g, guard.HalfOpen)
		minutes(1, nil)
		is(t, g, guard.Closed)
	})
}

func TestReadyPausesConsumersAndLetsTheProbesThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := switchedTo(well)
		g := behind(t, s, nil)
		opened(t, g, s)
		var handled, failed atomic.Int32
		ctx, stop := context.WithCancel(t.Context())
		var lanes sync.WaitGroup
		for range 64 {
			lanes.Go(func() {
				for g.Ready(ctx) == nil {
					if err := post(t, g); err != nil {
						failed.Add(1)
						continue
					}
					handled.Add(1)
					return
				}
			})
		}
		time.Sleep(29 * time.Second)
		if n := s.made(); n != 0 {
			t.Errorf("%d calls while the breaker is open", n)
		}
		for range 10 {
			time.Sleep(30 * time.Second)
			if n := s.made(); n < 1 || n > 3 {
				t.Errorf("%d probes", n)
			}
		}
		if refused := failed.Load(); refused > 30 {
			t.Errorf("%d records failed or were put off", refused)
		}
		s.turn(well)
		time.Sleep(31 * time.Second)
		if n := handled.Load(); n != 64 {
			t.Errorf("%d were handled", n)
		}
		stop()
		lanes.Wait()
		is(t, g, guard.Closed)
	})
}

func TestReadyEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := switchedTo(well)
		g := behind(t, s, nil)
		opened(t, g, s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

func TestACallThatWasNotSentSaysNothingOfTheSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := switchedTo(silent)
		g := behind(t, s, func(s *guard.Settings) { s.Concurrency, s.QueueWait = 1, 500*time.Millisecond })
		var first sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		first.Go(func() { _, _ = g.Call(request(t, ctx, http.MethodPost), nil) })
		synctest.Wait()
		for range 30 {
			first.Go(func() {
				if err := post(t, g); !errors.Is(err, guard.ErrBusy) || eventstore.Classify(err) != eventstore.Unavailable {
					t.Errorf("error %v of class %s", err, eventstore.Classify(err))
				}
			})
		}
		time.Sleep(time.Second)
		cancel()
		first.Wait()
		if got := g.Snapshot(); got.Breaker.Results != 0 || got.Breaker.State != guard.Closed || got.InFlight != 0 || got.Waiting != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestSlowAnswersAreCountedAndOpenNothingByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := switchedTo(slow(1600 * time.Millisecond))
		g := behind(t, s, nil)
		for range 25 {
			if err := post(t, g); err != nil {
				t.Error(err)
			}
		}
		if got := g.Snapshot().Breaker; got.State != guard.Closed || got.Slow != 20 || got.Failures != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestTheStateIsShown(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := guard.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	settings := guard.Defaults(10)
	s := switchedTo(sick)
	g, err := guard.New(guard.Config{System: "oms", Settings: settings, Transport: s, Metrics: metrics, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	shown := func() string {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if family.GetName() == "andes_legacy_breaker_state" && metric.GetGauge().GetValue() == 1 {
					return metric.GetLabel()[0].GetValue()
				}
			}
		}
		return ""
	}
	if got := shown(); got != string(guard.Closed) {
		t.Errorf("shown as %q", got)
	}
	opened(t, g, s)
	if got := shown(); got != string(guard.Open) {
		t.Errorf("shown as %q", got)
	}
	if got := g.Snapshot(); got.Breaker.ProbesAt.Sub(got.Breaker.Since) != settings.Breaker.OpenFor || time.Since(got.Breaker.Since) > time.Minute {
		t.Errorf("%+v", got)
	}
}
