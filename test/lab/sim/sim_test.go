package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"andes/test/lab/labtest"
	"andes/test/lab/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type knobs struct {
	sim.Faults
	Secret string `json:"secret"`
}

// system counts how often its work was done.
type system struct {
	*sim.Core[knobs]
	done atomic.Int64
}

func newSystem(t *testing.T, k knobs) *system {
	t.Helper()
	s := &system{Core: sim.NewCore(sim.Config{Name: "test", Seed: 7}, k)}
	s.Handle("GET /work/{id}", func(w http.ResponseWriter, r *http.Request) {
		s.done.Add(1)
		sim.Answer(w, http.StatusOK, map[string]string{"id": r.PathValue("id")})
	})
	t.Cleanup(s.Close)
	return s
}

func (s *system) call(ctx context.Context) int {
	return labtest.Call(ctx, s.Handler(), http.MethodGet, "/work/1", "").Status
}

func inBubble(t *testing.T, k knobs, test func(t *testing.T, s *system)) {
	synctest.Test(t, func(t *testing.T) { test(t, newSystem(t, k)) })
}

func TestLatencyIsAtLeastTheKnobAndAtMostTheJitterMore(t *testing.T) {
	inBubble(t, knobs{Faults: sim.Faults{LatencyMs: 100, JitterMs: 50}}, func(t *testing.T, s *system) {
		for range 100 {
			start := time.Now()
			if status := s.call(t.Context()); status != http.StatusOK {
				t.Fatalf("status %d", status)
			}
			if took := time.Since(start); took < 100*time.Millisecond || took > 150*time.Millisecond {
				t.Fatalf("took %v", took)
			}
		}
	})
}

func TestCallsBeyondTheCapacityQueueAndThenGet503After5s(t *testing.T) {
	inBubble(t, knobs{Faults: sim.Faults{CapacityPerSecond: 10}}, func(t *testing.T, s *system) {
		var mu sync.Mutex
		took := map[int]time.Duration{} // longest by status
		count := map[int]int{}
		start := time.Now()
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() {
				status := s.call(t.Context())
				mu.Lock()
				defer mu.Unlock()
				count[status]++
				took[status] = max(took[status], time.Since(start))
			})
		}
		calls.Wait()
		// A slot each 100 ms: the first at once, the last one at 5 s.
		if count[http.StatusOK] != 51 || count[http.StatusServiceUnavailable] != 49 {
			t.Fatalf("by status: %v", count)
		}
		if took[http.StatusOK] != 5*time.Second || took[http.StatusServiceUnavailable] != 5*time.Second {
			t.Fatalf("longest by status: %v", took)
		}
	})
}

func TestFailureRateFailsThatShareWithoutDoingTheWork(t *testing.T) {
	inBubble(t, knobs{Faults: sim.Faults{FailureRate: 0.3}}, func(t *testing.T, s *system) {
		failed := 0
		for range 1000 {
			if s.call(t.Context()) == http.StatusInternalServerError {
				failed++
			}
		}
		if failed < 250 || failed > 350 || int(s.done.Load()) != 1000-failed {
			t.Fatalf("%d failed, work done %d times", failed, s.done.Load())
		}
	})
}

func TestTheSameSeedDecidesAlike(t *testing.T) {
	inBubble(t, knobs{Faults: sim.Faults{FailureRate: 0.5}}, func(t *testing.T, a *system) {
		b := newSystem(t, knobs{Faults: sim.Faults{FailureRate: 0.5}})
		for i := range 200 {
			if x, y := a.call(t.Context()), b.call(t.Context()); x != y {
				t.Fatalf("call %d: %d and %d", i, x, y)
			}
		}
	})
}

func TestOutageCutsWithoutDoingTheWorkAndTakesWaitingCallsAlong(t *testing.T) {
	inBubble(t, knobs{Faults: sim.Faults{LatencyMs: 1000}}, func(t *testing.T, s *system) {
		waiting := make(chan int, 1)
		go func() { waiting <- s.call(t.Context()) }()
		synctest.Wait()
		labtest.Turn(t, s.Handler(), `{"outage":true}`)
		if status := s.call(t.Context()); status != labtest.Cut {
			t.Fatalf("status %d", status)
		}
		if status := <-waiting; status != labtest.Cut {
			t.Fatalf("waiting call: status %d", status)
		}
		if s.done.Load() != 0 {
			t.Fatal("the work was done")
		}
		labtest.Turn(t, s.Handler(), `{"outage":false}`)
		if status := s.call(t.Context()); status != http.StatusOK {
			t.Fatalf("after the outage: status %d", status)
		}
	})
}

func TestHangHoldsTheCallUntilTheClientLeaves(t *testing.T) {
	inBubble(t, knobs{Faults: sim.Faults{Hang: true}}, func(t *testing.T, s *system) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		if status := s.call(ctx); status != labtest.Cut || time.Since(start) != time.Hour {
			t.Fatalf("status %d after %v", status, time.Since(start))
		}
		if s.Stats().Calls.ByRoute["GET /work/{id}"]["left"] != 1 || s.done.Load() != 0 {
			t.Fatalf("stats %+v", s.Stats())
		}
	})
}

func TestResponseLostDoesTheWorkAndThenCuts(t *testing.T) {
	inBubble(t, knobs{Faults: sim.Faults{ResponseLostRate: 1}}, func(t *testing.T, s *system) {
		if status := s.call(t.Context()); status != labtest.Cut || s.done.Load() != 1 {
			t.Fatalf("status %d, work done %d times", status, s.done.Load())
		}
	})
}

func TestKnobsMergeOnlyTheMembersGiven(t *testing.T) {
	inBubble(t, knobs{Faults: sim.Faults{LatencyMs: 5}, Secret: "s"}, func(t *testing.T, s *system) {
		labtest.Turn(t, s.Handler(), `{"failureRate":0.25,"secret":"other"}`)
		want := knobs{Faults: sim.Faults{LatencyMs: 5, FailureRate: 0.25}, Secret: "other"}
		if got := labtest.Do[knobs](t, s.Handler(), http.MethodGet, "/_lab/knobs", "", http.StatusOK); got != want {
			t.Fatalf("knobs %+v", got)
		}
	})
}

func TestABadKnobIsRefusedAndChangesNothing(t *testing.T) {
	for name, patch := range map[string]string{
		"unknown member":    `{"latencyMs":9,"latency":1}`,
		"other case":        `{"LatencyMs":9}`,
		"wrong type":        `{"latencyMs":"9"}`,
		"rate above 1":      `{"latencyMs":9,"failureRate":1.5}`,
		"negative latency":  `{"latencyMs":-1}`,
		"null":              `{"latencyMs":null}`,
		"negative capacity": `{"capacityPerSecond":-1}`,
		"not an object":     `[1]`,
		"not JSON":          `latencyMs=9`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, knobs{Faults: sim.Faults{LatencyMs: 5}})
			labtest.Do[map[string]any](t, s.Handler(), http.MethodPut, "/_lab/knobs", patch, http.StatusBadRequest)
			if got := s.Knobs(); got != (knobs{Faults: sim.Faults{LatencyMs: 5}}) {
				t.Fatalf("knobs %+v", got)
			}
		})
	}
}

func TestAKnobOfTheWrongTypeIsToldByItsName(t *testing.T) {
	s := newSystem(t, knobs{})
	answer := labtest.Do[map[string]string](t, s.Handler(), http.MethodPut, "/_lab/knobs", `{"outage":"maybe"}`, http.StatusBadRequest)
	if want := `knob "outage" can't be a string: it is a bool`; answer["error"] != want {
		t.Errorf("%q, want %q", answer["error"], want)
	}
}

func TestStatsCountCallsByRouteAndStatusAndResetEmptiesThem(t *testing.T) {
	inBubble(t, knobs{}, func(t *testing.T, s *system) {
		for range 20 {
			s.call(t.Context())
			time.Sleep(100 * time.Millisecond) // of the bubble's clock
		}
		labtest.Call(t.Context(), s.Handler(), http.MethodGet, "/nowhere", "")
		stats := labtest.Do[sim.Stats](t, s.Handler(), http.MethodGet, "/_lab/stats", "", http.StatusOK)
		if stats.System != "test" || stats.Calls.Total != 21 || stats.Calls.PeakPerSecond != 10 || stats.Calls.PerSecond != 2 ||
			stats.Calls.ByRoute["GET /work/{id}"]["200"] != 20 || stats.Calls.ByRoute["unknown"]["404"] != 1 {
			t.Fatalf("stats %+v", stats)
		}
		labtest.Call(t.Context(), s.Handler(), http.MethodPost, "/_lab/reset", "")
		if stats := s.Stats(); stats.Calls.Total != 0 || len(stats.Calls.ByRoute) != 0 || stats.Calls.PerSecond != 0 {
			t.Fatalf("after the reset: %+v", stats)
		}
	})
}

func TestDelayedWorkRunsInDueOrder(t *testing.T) {
	inBubble(t, knobs{}, func(t *testing.T, s *system) {
		var got []string
		add := func(delay time.Duration, name string) {
			if err := s.After(delay, func() { got = append(got, name) }); err != nil {
				t.Fatal(err)
			}
		}
		add(3*time.Second, "d")
		add(time.Second, "b")
		add(time.Second, "c")
		add(0, "a")
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if strings.Join(got, "") != "abcd" {
			t.Fatalf("order %v", got)
		}
	})
}

func TestABodyOverTheBoundIsRefused(t *testing.T) {
	s := newSystem(t, knobs{})
	s.Handle("POST /work", func(w http.ResponseWriter, r *http.Request) { t.Error("the work was done") })
	answer := labtest.Call(t.Context(), s.Handler(), http.MethodPost, "/work", strings.Repeat("x", 5<<20))
	if answer.Status != http.StatusRequestEntityTooLarge {
		t.Fatalf("status %d", answer.Status)
	}
}

func TestOverTheNetworkFaultsAreWhatAClientSees(t *testing.T) {
	s := newSystem(t, knobs{})
	url, err := s.Start(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(ctx context.Context) (int, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/work/a%2Fb", nil)
		if err != nil {
			return 0, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && string(body) != `{"id":"a/b"}` {
			err = fmt.Errorf("body %s", body)
		}
		return resp.StatusCode, err
	}
	if status, err := get(t.Context()); status != http.StatusOK || err != nil {
		t.Fatalf("healthy: %d %v", status, err)
	}
	labtest.Turn(t, s.Handler(), `{"outage":true}`)
	if _, err := get(t.Context()); !errors.Is(err, io.EOF) {
		t.Fatalf("outage: %v", err)
	}
	labtest.Turn(t, s.Handler(), `{"outage":false,"hang":true}`)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := get(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("hang: %v", err)
	}
	labtest.Turn(t, s.Handler(), `{"hang":false,"responseLostRate":1}`)
	if _, err := get(t.Context()); !errors.Is(err, io.EOF) || s.done.Load() != 2 {
		t.Fatalf("response lost: %v, work done %d times", err, s.done.Load())
	}
}

func TestCloseReleasesAHangingCall(t *testing.T) {
	inBubble(t, knobs{Faults: sim.Faults{Hang: true}}, func(t *testing.T, s *system) {
		released := make(chan int, 1)
		go func() { released <- s.call(t.Context()) }()
		synctest.Wait()
		s.Close()
		if status := <-released; status != labtest.Cut {
			t.Fatalf("status %d", status)
		}
	})
}
