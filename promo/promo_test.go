package promo

import (
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
		if p := status.Promo; time.Until(p.From) != 2*time.Second || p.Until.Sub(p.From) != forced.For {
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
