package promo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// counting is what a process counts: so many reads a second since it started.
func counting(reads, legacy int64, began time.Time) func(context.Context, State) (Sample, error) {
	return func(_ context.Context, promo State) (Sample, error) {
		seconds := int64(time.Since(began) / time.Second)
		s := Sample{
			Reads: Latency{Bounds: []float64{.001, .01}, Counts: []int64{reads * seconds, 0, 0}}, Answers: map[string]int64{"200": reads * seconds},
			Legacy: map[string]int64{"wms": legacy * seconds}, Cache: map[string]int64{"hit": 3 * seconds, "miss": seconds},
			Partners: map[string]int64{"acme": seconds}, Refused: seconds,
		}
		if promo.ID != "" {
			s.Ages, s.Events = map[string]float64{"wms.stock": 1.5}, map[string]int64{"order.placed": seconds}
		}
		return s, nil
	}
}

func TestAPromoIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShared()
		keeper := run(t, store, func(c *Config) { c.Keeper = true })
		ctx, stop := context.WithCancel(t.Context())
		var samplers sync.WaitGroup
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		for i := range 2 {
			sampler := NewSampler(SamplerConfig{
				Desk: keeper.Desk, Store: store, Process: fmt.Sprint("process", i), Count: counting(100, 2, time.Now()), Now: time.Now, Logger: logger,
			})
			samplers.Go(func() { _ = sampler.Run(ctx) })
		}
		time.Sleep(13 * time.Second) // neither begins nor ends with a slot
		status, err := keeper.On(t.Context(), plan("A"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second)
		store.fail(errors.New("the database is away")) // what can't be kept is kept with the next slot
		time.Sleep(20 * time.Second)
		store.fail(nil)
		time.Sleep(10 * time.Second)
		shown, err := keeper.Show(t.Context())
		if b := shown.Board; err != nil || shown.Phase != On || b.Processes != 2 || b.Legacy["wms"].PerSecond < 3 || b.Freshness["wms.stock"].Last != 1.5 || b.CacheHits != 75 {
			t.Errorf("%+v, %v", shown, err)
		}
		if report, err := keeper.Report(t.Context(), ""); err != nil || report.Final || report.Reads == 0 || len(store.kept()) != 0 {
			t.Errorf("so far: %+v, %v", report, err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if len(store.kept()) != 1 || len(store.samples[status.Promo.ID]) != 0 {
			t.Fatalf("%d reports, samples %v", len(store.kept()), store.samples)
		}
		report, err := keeper.Report(t.Context(), status.Promo.ID)
		seconds := int64(120)
		if err != nil || !report.Final || report.State.ID != status.Promo.ID || report.Until.Sub(report.From) != 2*time.Minute || report.Processes != 2 {
			t.Errorf("%+v, %v", report, err)
		}
		if report.Reads != 2*100*seconds || report.Legacy["wms"].Count != 2*2*seconds || report.Refused != 2*seconds || report.Partners["acme"] != 2*seconds ||
			report.ReadsRate != 200 || report.Peaks.ReadsRate != 200 || report.Events["order.placed"] == 0 || report.P95 > 1 || report.P95 <= 0 || len(report.Timeline) == 0 || len(report.Timeline) > maxPoints {
			t.Errorf("%+v", report.Window)
		}
		stop()
		samplers.Wait()
		keeper.end()
		if got := strings.Count(log.String(), "was not kept"); got != 2 {
			t.Errorf("%d warnings\n%s", got, log.String())
		}
	})
}

// compared gives the report of a promo of two minutes after so long a quiet time, in which act happens.
func compared(t *testing.T, quiet time.Duration, act func(t *testing.T, p *process, store *shared)) (report Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := newShared()
		p := run(t, store, func(c *Config) { c.Keeper = true })
		ctx, stop := context.WithCancel(t.Context())
		began := time.Now()
		busier := func(ctx context.Context, promo State) (Sample, error) { // three times as busy while it is on
			s, err := counting(100, 2, began)(ctx, promo)
			if from := p.Kept().From; !from.IsZero() && time.Now().After(from) {
				s, err = counting(300, 6, began.Add(from.Sub(began)*2/3))(ctx, promo)
			}
			return s, err
		}
		sampler := NewSampler(SamplerConfig{Desk: p.Desk, Store: store, Process: "one", Count: busier, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
		var running sync.WaitGroup
		running.Go(func() { _ = sampler.Run(ctx) })
		act(t, p, store)
		time.Sleep(quiet)
		if _, err := p.On(t.Context(), plan("A")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		var err error
		if report, err = p.Report(t.Context(), ""); err != nil || !report.Final {
			t.Errorf("%+v, %v", report, err)
		}
		stop()
		running.Wait()
		p.end()
	})
	return report
}

func TestAReportComparesWithTheTimeBefore(t *testing.T) {
	report := compared(t, 10*time.Minute, func(*testing.T, *process, *shared) {})
	before := report.Before
	if before == nil {
		t.Fatalf("%+v", report)
	}
	if length := before.Until.Sub(before.From); !before.Until.Equal(report.From) || length < 2*time.Minute || length > 2*time.Minute+SlotLength {
		t.Errorf("%s to %s", before.From, before.Until)
	}
	near := func(got, want float64) bool { return got > 0.95*want && got < 1.05*want }
	if !near(before.ReadsRate, 100) || !near(report.ReadsRate, 300) || !near(before.Legacy["wms"].PerSecond, 2) || !near(report.Legacy["wms"].PerSecond, 6) ||
		!near(before.Peaks.ReadsRate, 100) || before.Processes != 1 || before.CacheHits != 75 || before.Events["order.placed"] < 120 || len(before.Timeline) != 0 {
		t.Errorf("before: %+v\npromo: %+v", before, report.Window)
	}
}

func TestWhatWasNotCountedBeforeAPromoIsUnknown(t *testing.T) {
	for name, act := range map[string]func(*testing.T, *process, *shared){
		"nothing ran yet": func(*testing.T, *process, *shared) {},
		"another promo was on": func(t *testing.T, p *process, _ *shared) {
			time.Sleep(10 * time.Minute)
			if _, err := p.On(t.Context(), plan("B")); err != nil {
				t.Error(err)
			}
			time.Sleep(2*time.Minute + 10*time.Second)
		},
		"another promo was on for a part of it": func(t *testing.T, p *process, _ *shared) {
			time.Sleep(10*time.Minute + 8*time.Second)
			if _, err := p.On(t.Context(), plan("B")); err != nil {
				t.Error(err)
			}
			time.Sleep(6*time.Second + 20*time.Second)
			if _, err := p.Off(t.Context(), "ada", "it was too early"); err != nil {
				t.Error(err)
			}
			time.Sleep(30 * time.Second)
		},
		"nobody ran for a while": func(_ *testing.T, _ *process, store *shared) {
			time.Sleep(10 * time.Minute)
			store.mu.Lock()
			defer store.mu.Unlock()
			clear(store.samples)
		},
	} {
		if report := compared(t, 5*time.Second, act); report.Before != nil || report.Reads == 0 {
			t.Errorf("%s: %+v", name, report.Before)
		}
	}
}

func TestSamplesOfNoPromoAreLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShared()
		p := run(t, store)
		ctx, stop := context.WithCancel(t.Context())
		sampler := NewSampler(SamplerConfig{Desk: p.Desk, Store: store, Process: "one", Count: counting(1, 1, time.Now()), Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
		var running sync.WaitGroup
		running.Go(func() { _ = sampler.Run(ctx) })
		needed, old := time.Now().Add(-2*MaxLength).Truncate(SlotLength), time.Now().Add(-quietFor-SlotLength).Truncate(SlotLength)
		for _, slot := range []time.Time{needed, old} {
			if err := store.AddSample(t.Context(), Quiet, slot, "gone", Sample{}); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		store.mu.Lock()
		_, kept := store.samples[Quiet][needed]
		_, tooLong := store.samples[Quiet][old]
		store.mu.Unlock()
		if !kept || tooLong {
			t.Errorf("what may be needed is kept: %t; what nobody needs: %t", kept, tooLong)
		}
		stop()
		running.Wait()
		p.end()
	})
}

// What was done before a promo and could not be kept is no part of it.
func TestAnOutageAtItsBeginningAddsNothingToAPromo(t *testing.T) {
	report := compared(t, 0, func(_ *testing.T, _ *process, store *shared) {
		time.Sleep(10 * time.Minute)
		// The state is known, and only samples of no promo can't be kept from then on.
		store.mu.Lock()
		store.quietFault = errors.New("the database is away")
		store.mu.Unlock()
		time.Sleep(time.Minute)
	})
	if rate := report.ReadsRate; rate < 290 || rate > 310 {
		t.Errorf("%+v", report.Window)
	}
}

func TestAReportIsMadeAlsoWhenNobodyRanAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShared()
		p := run(t, store)
		if _, err := p.On(t.Context(), plan("A")); err != nil {
			t.Fatal(err)
		}
		p.end()
		time.Sleep(time.Hour)
		later := run(t, store, func(c *Config) { c.Keeper = true })
		synctest.Wait()
		if len(store.kept()) != 1 || !store.kept()[0].Final {
			t.Errorf("%+v", store.kept())
		}
		// The next promo leaves the one before its report, and has its own.
		if _, err := later.On(t.Context(), plan("B")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if len(store.kept()) != 2 {
			t.Errorf("%+v", store.kept())
		}
		later.end()
	})
}

func TestSamplesOfProcessesAddUp(t *testing.T) {
	a := Sample{
		Reads: Latency{[]float64{1, 2}, []int64{1, 2, 3}}, Answers: map[string]int64{"200": 5}, Ages: map[string]float64{"f": 3}, Events: map[string]int64{"e": 7}, Refused: 1,
	}
	b := Sample{
		Reads: Latency{[]float64{1, 2}, []int64{4, 4, 4}}, Answers: map[string]int64{"200": 6, "503": 1}, Ages: map[string]float64{"f": 2}, Events: map[string]int64{"e": 9}, Refused: 2,
	}
	sum := a.Plus(b)
	if !slices.Equal(sum.Reads.Counts, []int64{5, 6, 7}) || sum.Answers["200"] != 11 || sum.Answers["503"] != 1 || sum.Refused != 3 ||
		sum.Ages["f"] != 3 || sum.Events["e"] != 9 { // what all measure is not added
		t.Errorf("%+v", sum)
	}
	if left := sum.Since(a); !slices.Equal(left.Reads.Counts, []int64{4, 4, 4}) || left.Answers["200"] != 6 || left.Refused != 2 {
		t.Errorf("%+v", left)
	}
	if a.Answers["200"] != 5 || a.Reads.Counts[0] != 1 {
		t.Error("what was added to was changed")
	}
	// Of a process of another version the histogram is left out, not mixed.
	if got := a.Plus(Sample{Reads: Latency{[]float64{1}, []int64{9, 9}}}).Reads; !slices.Equal(got.Counts, []int64{1, 2, 3}) {
		t.Errorf("%+v", got)
	}
	many := map[string]int64{}
	for i := range 100 {
		many[fmt.Sprint("p", i)] = int64(i)
	}
	if named := (Sample{Partners: many}).Since(Sample{}).Partners; len(named) != maxNamed || named["p99"] != 99 || named["p79"] != 0 {
		t.Errorf("%v", named)
	}
}

func TestQuantilesAreThoseOfAHistogram(t *testing.T) {
	bounds := []float64{.001, .01, .1}
	for name, c := range map[string]struct {
		counts []int64
		q      float64
		want   float64
	}{
		"nothing":          {[]int64{0, 0, 0, 0}, .95, 0},
		"no histogram":     {nil, .95, 0},
		"the first bucket": {[]int64{100, 0, 0, 0}, .5, .0005},
		"between":          {[]int64{50, 50, 0, 0}, .75, .0055},
		"the bound itself": {[]int64{50, 50, 0, 0}, .5, .001},
		"above the last":   {[]int64{0, 0, 0, 10}, .95, .1},
	} {
		if got := (Latency{bounds, c.counts}).Quantile(c.q); got-c.want > 1e-9 || c.want-got > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
