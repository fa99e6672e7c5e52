package promo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"andes/eventstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shared is a store in memory.
type shared struct {
	mu      sync.Mutex
	text    string
	swaps   []Swap
	samples map[string]map[time.Time]map[string]Sample
	reports []Report
	fault   error
	race    func()

	quietFault error // of keeping samples of no promo
}

func newShared() *shared {
	return &shared{samples: map[string]map[time.Time]map[string]Sample{}}
}

func (s *shared) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = err
}

func (s *shared) Promo(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text, s.fault
}

func (s *shared) SwapPromo(_ context.Context, swap Swap) (bool, error) {
	if s.race != nil {
		s.race()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil || s.text != swap.Old {
		return false, s.fault
	}
	s.text, s.swaps = swap.New, append(s.swaps, swap)
	return true, nil
}

func (s *shared) ForgetSamples(_ context.Context, before time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.samples[Quiet], func(slot time.Time, _ map[string]Sample) bool { return slot.Before(before) })
	return s.fault
}

func (s *shared) OrderEvents(_ context.Context, from, until time.Time) (map[string]int64, error) {
	return map[string]int64{"order.placed": int64(until.Sub(from) / time.Second)}, nil
}

func (s *shared) AddSample(_ context.Context, promo string, slot time.Time, process string, sample Sample) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil || promo == Quiet && s.quietFault != nil {
		return errors.Join(s.fault, s.quietFault)
	}
	if s.samples[promo] == nil {
		s.samples[promo] = map[time.Time]map[string]Sample{}
	}
	if s.samples[promo][slot] == nil {
		s.samples[promo][slot] = map[string]Sample{}
	}
	s.samples[promo][slot][process] = sample
	return nil
}

func (s *shared) Samples(_ context.Context, promo string, from time.Time, each func(time.Time, string, Sample)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, slot := range slices.SortedFunc(maps.Keys(s.samples[promo]), time.Time.Compare) {
		if slot.Before(from) {
			continue
		}
		for _, process := range slices.Sorted(maps.Keys(s.samples[promo][slot])) {
			each(slot, process, s.samples[promo][slot][process])
		}
	}
	return s.fault
}

func (s *shared) KeepReport(_ context.Context, report Report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports = append(s.reports, report)
	delete(s.samples, report.State.ID)
	return nil
}

func (s *shared) Report(_ context.Context, promo string) (Report, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, report := range slices.Backward(s.reports) {
		if promo == "" || report.State.ID == promo {
			return report, true, nil
		}
	}
	return Report{}, false, s.fault
}

func (s *shared) kept() []Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.reports)
}

// shelf gives what it is told.
type shelf struct {
	look  Look
	fault error
}

func (s *shelf) Prepare(context.Context, []string) (Look, error) { return s.look, s.fault }

type process struct {
	*Desk
	metrics *prometheus.Registry
	mu      sync.Mutex
	told    []State
	stop    context.CancelFunc
	running sync.WaitGroup
}

var made int

// run starts a process that follows the store.
func run(t *testing.T, store *shared, change ...func(*Config)) *process {
	t.Helper()
	p := &process{metrics: prometheus.NewRegistry()}
	config := Config{
		Store: store, Shelf: &shelf{}, Every: 5 * time.Second, Now: time.Now, Logger: slog.New(slog.DiscardHandler), Metrics: p.metrics,
		NewID: func() string { made++; return fmt.Sprint("promo-", made) },
		Changed: func(s State) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.told = append(p.told, s)
		},
	}
	for _, apply := range change {
		apply(&config)
	}
	var err error
	if p.Desk, err = NewDesk(config); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	p.stop = stop
	p.running.Go(func() { _ = p.Run(ctx) })
	return p
}

func (p *process) end() {
	p.stop()
	p.running.Wait()
}

func (p *process) on() bool { return p.Effect().ID != "" }

func (p *process) gauge(t *testing.T) float64 {
	t.Helper()
	families, err := p.metrics.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "andes_promo_on" {
		t.Fatalf("%v, %v", families, err)
	}
	return families[0].GetMetric()[0].GetGauge().GetValue()
}

func plan(skus ...string) Plan {
	return Plan{SKUs: skus, For: 2 * time.Minute, Microcache: DefaultMicrocache, Actor: "ada", Reason: "a promotion"}
}

func TestAllProcessesBeginAndEndAtOnceAndByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShared()
		first, second := run(t, store), run(t, store)
		synctest.Wait()
		status, err := first.On(t.Context(), plan("A", "B", "A"))
		if err != nil || status.Phase != Waiting || !slices.Equal(status.Promo.SKUs, []string{"A", "B"}) || status.Left != Span(6*time.Second) {
			t.Fatalf("%+v, %v", status, err)
		}
		if first.on() || second.on() {
			t.Error("it began before all have heard of it")
		}
		time.Sleep(6*time.Second - time.Millisecond)
		if first.on() || second.on() {
			t.Error("it began too early")
		}
		time.Sleep(time.Millisecond)
		if !first.on() || !second.on() || first.gauge(t) != 1 {
			t.Error("it is not on everywhere")
		}
		synctest.Wait()
		// The database is away, and a process is started anew while it is: it ends all the same.
		store.fail(errors.New("the database is away"))
		time.Sleep(2*time.Minute - time.Millisecond)
		if !first.on() || !second.on() {
			t.Error("it ended too early")
		}
		time.Sleep(time.Millisecond)
		if first.on() || second.on() || first.gauge(t) != 0 {
			t.Error("it is on yet")
		}
		synctest.Wait()
		for _, p := range []*process{first, second} {
			if len(p.told) != 2 || p.told[0].ID == "" || p.told[1].ID != "" {
				t.Errorf("told %+v", p.told)
			}
			p.end()
		}
	})
}

func TestAPromoOutlivesEveryProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShared()
		before := run(t, store)
		if _, err := before.On(t.Context(), plan("A")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		before.end()
		time.Sleep(10 * time.Second) // nobody runs
		after := run(t, store)
		synctest.Wait()
		if !after.on() || after.Effect().Microcache != Span(2*time.Second) {
			t.Errorf("%+v", after.Effect())
		}
		after.end()
		time.Sleep(2 * time.Minute)
		late := run(t, store)
		synctest.Wait()
		if late.on() || len(late.told) != 0 {
			t.Errorf("%+v", late.told)
		}
		late.end()
	})
}

func TestOffEndsItWithItsDegradationsAndIsAudited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShared()
		p, other := run(t, store), run(t, store)
		defer p.end()
		defer other.end()
		for code, do := range map[eventstore.Code]func() error{
			CodeOff:      func() error { _, err := p.Off(t.Context(), "ada", "r"); return err },
			CodeNoReport: func() error { _, err := p.Report(t.Context(), ""); return err },
		} {
			if err := do(); eventstore.CodeOf(err) != code {
				t.Errorf("%s: %v", code, err)
			}
		}
		if _, err := p.Degrade(t.Context(), Degraded{Cap: 5}, "ada", "r"); eventstore.CodeOf(err) != CodeOff {
			t.Error(err)
		}
		if _, err := p.On(t.Context(), plan("A")); err != nil {
			t.Fatal(err)
		}
		if _, err := other.On(t.Context(), plan("B")); eventstore.CodeOf(err) != CodeOn || !strings.Contains(err.Error(), "waiting") {
			t.Error(err)
		}
		time.Sleep(6 * time.Second)
		for _, wrong := range []Degraded{{Stale: Span(time.Second)}, {Stale: Span(time.Hour)}, {Stale: -1}, {Cap: -1}, {Cap: MaxCap + 1}, {Quotas: 100}, {Quotas: -1}} {
			if _, err := p.Degrade(t.Context(), wrong, "ada", "r"); eventstore.CodeOf(err) != CodeInvalid {
				t.Errorf("%+v: %v", wrong, err)
			}
		}
		if got := p.AnswersKept(); got != DefaultMicrocache {
			t.Errorf("answers are given again for %s", got)
		}
		degraded := Degraded{Stale: Span(30 * time.Second), Cap: 5, Quotas: 50}
		status, err := p.Degrade(t.Context(), degraded, "ada", "the peak")
		if err != nil || status.Promo.Degraded != degraded || status.Phase != On {
			t.Errorf("%+v, %v", status, err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := other.Effect().Degraded; got != degraded || other.AnswersKept() != 30*time.Second {
			t.Errorf("%+v, answers are given again for %s", got, other.AnswersKept())
		}
		status, err = other.Off(t.Context(), "bob", "it is over")
		if err != nil || status.Phase != Over || status.Promo.EndedBy != "bob" || other.on() {
			t.Errorf("%+v, %v", status, err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if p.on() || p.AnswersKept() != 0 || p.Effect().Degraded != (Degraded{}) || p.told[len(p.told)-1].ID != "" {
			t.Errorf("%+v", p.told)
		}
		var actions []string
		for _, swap := range store.swaps {
			actions = append(actions, swap.Action+" "+swap.Actor+" "+swap.Reason)
		}
		if !slices.Equal(actions, []string{"promo.on ada a promotion", "promo.degrade ada the peak", "promo.off bob it is over"}) ||
			!strings.Contains(store.swaps[1].Detail, "degraded: stale=30s,cap=5,quotas=50%") {
			t.Errorf("%v %+v", actions, store.swaps)
		}
	})
}

func TestAPromoThatIsCalledOffBeforeItBeginsNeverWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShared()
		p := run(t, store, func(c *Config) { c.Keeper = true })
		defer p.end()
		later := plan("A")
		later.From = time.Now().Add(time.Hour)
		if status, err := p.On(t.Context(), later); err != nil || status.Phase != Waiting || status.Left != Span(time.Hour) {
			t.Fatalf("%+v, %v", status, err)
		}
		if status, err := p.Off(t.Context(), "ada", "r"); err != nil || status.Phase != Off {
			t.Errorf("%+v, %v", status, err)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if len(store.kept()) != 0 || p.on() {
			t.Errorf("%+v", store.kept())
		}
	})
}

func TestWhatMakesNoSenseIsRefusedAsAWhole(t *testing.T) {
	store := newShared()
	d, err := NewDesk(Config{Store: store, Shelf: &shelf{}, Every: time.Second, Now: time.Now, NewID: func() string { return "p" }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change   func(*Plan)
		pointers []string
	}{
		"no SKUs":        {func(p *Plan) { p.SKUs = nil }, []string{"/skus"}},
		"an empty SKU":   {func(p *Plan) { p.SKUs = []string{"A", ""} }, []string{"/skus"}},
		"too many":       {func(p *Plan) { p.SKUs = manySKUs(MaxSKUs + 1) }, []string{"/skus"}},
		"too short":      {func(p *Plan) { p.For = time.Second }, []string{"/for"}},
		"negative":       {func(p *Plan) { p.For = -time.Hour }, []string{"/for"}},
		"too long":       {func(p *Plan) { p.For = 25 * time.Hour }, []string{"/for"}},
		"too far":        {func(p *Plan) { p.From = time.Now().Add(31 * 24 * time.Hour) }, []string{"/from"}},
		"kept too long":  {func(p *Plan) { p.Microcache = time.Minute }, []string{"/microcache"}},
		"kept backwards": {func(p *Plan) { p.Microcache = -1 }, []string{"/microcache"}},
		"all at once": {func(p *Plan) {
			p.SKUs, p.For, p.Microcache, p.Degraded = nil, 0, time.Hour, Degraded{Cap: -1, Quotas: 200}
		},
			[]string{"/skus", "/for", "/microcache", "/degraded/cap", "/degraded/quotas"}},
		"older answers of none": {func(p *Plan) { p.Microcache, p.Degraded.Stale = 0, Span(time.Minute) }, []string{"/degraded/stale"}},
	} {
		wanted := plan("A")
		c.change(&wanted)
		_, err := d.On(t.Context(), wanted)
		refusal, is := errors.AsType[*eventstore.Refusal](err)
		if !is || refusal.Code != CodeInvalid || store.text != "" {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var pointers []string
		for _, problem := range refusal.Problems {
			pointers = append(pointers, problem.Pointer)
		}
		if !slices.Equal(pointers, c.pointers) {
			t.Errorf("%s: %v", name, refusal.Problems)
		}
	}
	now := plan("A")
	now.From, now.For = time.Now(), MinLength // begins a little later, as all begin at once
	if status, err := d.On(t.Context(), now); err != nil || status.Phase != Waiting {
		t.Errorf("%+v, %v", status, err)
	}
	past := plan("A")
	past.From = time.Now().Add(-time.Hour)
	if _, err := d.On(t.Context(), past); eventstore.CodeOf(err) != CodeInvalid {
		t.Error(err)
	}
}

func manySKUs(n int) []string {
	skus := make([]string, n)
	for i := range skus {
		skus[i] = fmt.Sprint("S", i)
	}
	return skus
}

func TestTheProductsAreLookedAtFirst(t *testing.T) {
	for name, c := range map[string]struct {
		look  Look
		fault error
		code  eventstore.Code
		says  string
	}{
		"well":      {Look{Keys: 9, Lacked: 4}, nil, "", ""},
		"unknown":   {Look{Unknown: []string{"X", "Y"}}, nil, CodeUnknown, "X, Y"},
		"many":      {Look{Unknown: manySKUs(12)}, nil, CodeUnknown, "S9 and 2 more"},
		"cold":      {Look{Keys: 9, Lacked: 4, Missing: 2}, nil, CodeCold, "2 of 9 entries"},
		"stale":     {Look{Stale: []Stale{{"A", "stock", Span(7 * time.Minute)}}}, nil, CodeStale, "stock of A (7m0s old)"},
		"all of it": {Look{Unknown: []string{"X"}, Stale: []Stale{{"A", "price", Span(time.Hour)}}}, nil, CodeUnknown, "price of A (1h0m0s old)"},
		"unsold":    {Look{Unsold: []string{"Z"}}, nil, "", "Z"},
	} {
		store := newShared()
		d, err := NewDesk(Config{Store: store, Shelf: &shelf{c.look, c.fault}, Every: time.Second, Now: time.Now, NewID: func() string { return "p" }, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		status, err := d.On(t.Context(), plan("A"))
		if eventstore.CodeOf(err) != c.code || (c.code == "") == (store.text == "") {
			t.Errorf("%s: %v", name, err)
		}
		if c.code != "" && (!strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "force")) {
			t.Errorf("%s: %v", name, err)
		}
		if c.code != "" {
			forced := plan("A")
			forced.Force = true
			if status, err = d.On(t.Context(), forced); err != nil || store.text == "" {
				t.Errorf("%s, forced: %v", name, err)
			}
		}
		if got := strings.Join(status.Warnings, " "); !strings.Contains(got, c.says) || status.Look == nil || !reflect.DeepEqual(*status.Look, c.look) {
			t.Errorf("%s: %q, %+v", name, got, status.Look)
		}
	}
}

// A service that is away says nothing of the products: it is told as an outage, after which the same request may do.
func TestAnOutageIsNoVerdictOnTheProducts(t *testing.T) {
	store, away := newShared(), fmt.Errorf("%w: Redis is away", eventstore.ErrUnavailable)
	d, err := NewDesk(Config{Store: store, Shelf: &shelf{Look{}, away}, Every: time.Second, Now: time.Now, NewID: func() string { return "p" }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.On(t.Context(), plan("A")); !errors.Is(err, eventstore.ErrUnavailable) || eventstore.CodeOf(err) != "" || store.text != "" {
		t.Errorf("%v, kept: %q", err, store.text)
	}
	forced := plan("A")
	forced.Force = true
	status, err := d.On(t.Context(), forced)
	if err != nil || store.text == "" || len(status.Warnings) != 1 || !strings.Contains(status.Warnings[0], "Redis is away") {
		t.Errorf("forced: %+v, %v", status.Warnings, err)
	}
}

func TestAShelfThatHangsIsNotWaitedForWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := NewDesk(Config{Store: newShared(), Shelf: hanging{}, Every: time.Second, Now: time.Now, NewID: func() string { return "p" }, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.On(t.Context(), plan("A")); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		forced := plan("A")
		forced.Force = true
		status, err := d.On(t.Context(), forced)
		if err != nil || status.Phase != Waiting || len(status.Warnings) != 1 {
			t.Errorf("forced: %+v, %v", status, err)
		}
		// However long the look took, all processes have the time to hear of it before it begins.
		if p := status.Promo; p.From.Sub(time.Now()) != 2*time.Second || p.Until.Sub(p.From) != forced.For {
			t.Errorf("it begins at %s, now it is %s; %+v", p.From, time.Now(), p)
		}
	})
}

// hanging is a shelf whose services do not answer.
type hanging struct{}

func (hanging) Prepare(ctx context.Context, _ []string) (Look, error) {
	<-ctx.Done()
	return Look{}, ctx.Err()
}

func TestWhileNothingCanBeReadTheLastThatWasHeardIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, away := newShared(), errors.New("the database is away")
		p := run(t, store)
		defer p.end()
		synctest.Wait()
		if _, err := p.On(t.Context(), plan("A")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(16 * time.Second)
		store.fail(away)
		status, err := p.Show(t.Context())
		if err != nil || status.Phase != On || !slices.Equal(status.Promo.SKUs, []string{"A"}) || status.Left != Span(110*time.Second) ||
			status.Board.Processes != 0 || !strings.Contains(status.Unread, away.Error()) {
			t.Errorf("%+v, %v", status, err)
		}
		time.Sleep(2 * time.Minute)
		if status, err := p.Show(t.Context()); err != nil || status.Phase != Over || status.Unread == "" {
			t.Errorf("%+v, %v", status, err)
		}
		// Who never heard of it says nothing.
		late, err := NewDesk(Config{Store: store, Every: time.Second, Now: time.Now, NewID: func() string { return "p" }, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := late.Show(t.Context()); !errors.Is(err, away) || late.Kept().ID != "" || late.Effect().ID != "" {
			t.Error(err)
		}
		store.fail(nil)
		if status, err := p.Show(t.Context()); err != nil || status.Unread != "" {
			t.Errorf("%+v, %v", status, err)
		}
	})
}

func TestTwoOperatorsWhoSwitchAtOnce(t *testing.T) {
	store := newShared()
	d, err := NewDesk(Config{Store: store, Shelf: &shelf{}, Every: time.Second, Now: time.Now, NewID: func() string { return "mine" }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	other := State{ID: "theirs", SKUs: []string{"B"}, From: now, Until: now.Add(time.Hour)}
	store.race = func() { store.text, store.race = other.Text(), nil }
	if _, err := d.On(t.Context(), plan("A")); eventstore.CodeOf(err) != CodeOn {
		t.Error(err)
	}
	turn := 0
	store.race = func() { turn++; other.Reason = fmt.Sprint(turn); store.text = other.Text() }
	if _, err := d.Off(t.Context(), "ada", "r"); eventstore.CodeOf(err) != CodeContended || turn != maxSwaps {
		t.Errorf("%v after %d", err, turn)
	}
}

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

func TestDurationsAreToldAsPeopleWriteThem(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Minute: "1m", 24 * time.Hour: "24h", 90 * time.Minute: "1h30m", 30 * time.Second: "30s", 10*time.Second + time.Minute: "1m10s",
		10 * time.Minute: "10m", 10 * time.Hour: "10h", time.Hour + 20*time.Second: "1h0m20s", -time.Minute: "-1m", 100 * time.Millisecond: "100ms",
	} {
		if got := spoken(d); got != want {
			t.Errorf("%s: %s", d, got)
		}
	}
}
