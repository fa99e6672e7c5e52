package erp_test

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"andes/adapters/erp"
	"andes/polling"
	sim "andes/test/lab/erp"
	"andes/test/legacytest"
)

// A slow ERP: every answer takes 1 s, which is bearable, or 3 s, which no call waits for. Either way it is
// asked less than before, and as often as before soon after it is well.
func TestASlowERPIsAskedLessOften(t *testing.T) {
	for name, c := range map[string]struct {
		answer time.Duration
		most   float64 // calls a second
	}{
		"bearable": {time.Second, 0.45},
		"too slow": {3 * time.Second, 0.1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls, answer atomic.Int64
				b, run := polled(t, func(forward http.Handler, w http.ResponseWriter, r *http.Request) {
					calls.Add(1)
					select {
					case <-time.After(time.Duration(answer.Load())):
						forward.ServeHTTP(w, r)
					case <-r.Context().Done():
					}
				})
				rate := func(length time.Duration) float64 {
					calls.Store(0)
					time.Sleep(length)
					return float64(calls.Load()) / length.Seconds()
				}
				var polls sync.WaitGroup
				ctx, stop := context.WithCancel(t.Context())
				polls.Go(func() { run(ctx) })
				base := rate(5 * time.Minute)
				answer.Store(int64(c.answer))
				time.Sleep(2 * time.Minute)
				slow := rate(20 * time.Minute)
				t.Logf("%.3f calls/s, before %.3f", slow, base)
				if slow > c.most || slow < 0.02 {
					t.Errorf("that is not within 0.02 and %.2f", c.most)
				}
				if _, err := b.SetPrice(sim.Price{PriceList: "GB", SKU: "A", Amount: "2.55", Currency: "GBP"}); err != nil {
					t.Fatal(err)
				}
				answer.Store(0)
				time.Sleep(2 * time.Minute)
				if again := rate(5 * time.Minute); again < 0.95*base {
					t.Errorf("%.3f calls/s when it is well again, %.3f before", again, base)
				}
				stop()
				polls.Wait()
			})
		})
	}
}

// polled is an ERP behind a handler, with an adapter whose pollers mind the guard's breaker.
func polled(t *testing.T, before func(forward http.Handler, w http.ResponseWriter, r *http.Request)) (*sim.Sim, func(context.Context)) {
	t.Helper()
	s, err := sim.New(sim.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	bench := legacytest.New(t)
	caller := bench.Guard("erp", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { before(s.Handler(), w, r) }))
	quiet := slog.New(slog.DiscardHandler)
	adapter, err := erp.New(erp.Config{
		URL: "http://erp", Caller: caller, Executor: bench.Store, Reader: bench.Store, Lease: legacytest.Alone{}, Log: quiet,
		Away: caller.Away, Interval: 2 * time.Second, Rejects: func(context.Context, polling.Reject) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, func(ctx context.Context) {
		if err := adapter.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	}
}
