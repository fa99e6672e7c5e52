package quota

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"andes/eventstore"
)

// written is settings in memory.
type written struct {
	mu     sync.Mutex
	change Change
	fault  error
}

func (w *written) Tiers(context.Context) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.change.Tiers, w.fault
}

func (w *written) SetTiers(_ context.Context, change Change) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.change = change
	return w.fault
}

func (w *written) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = err
}

func TestAllInstancesTakeOnWhatAnOperatorSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := &written{}
		all, log := instances(t, 2, &shared{})
		ctx, stop := context.WithCancel(t.Context())
		var desks []*Desk
		var running sync.WaitGroup
		for _, quotas := range all {
			desk := NewDesk(DeskConfig{
				Quotas: quotas, Settings: settings, Configured: DefaultTiers, Burst: time.Second, Every: 5 * time.Second, Now: time.Now, Logger: quotas.config.Logger,
			})
			desks = append(desks, desk)
			running.Go(func() { _ = desk.Run(ctx) })
		}
		reads := func() (limits [2]int64) {
			for i, quotas := range all {
				limits[i] = quotas.tiers.Load().Of("bronze").Of(Reads).PerSecond
			}
			return limits
		}
		raised := "bronze=40/4,silver=100/10,gold=500/50"
		standing, err := desks[0].Change(t.Context(), Change{Tiers: raised, Actor: "ada", Reason: "a promotion"})
		if err != nil || standing.Tiers != raised || standing.Configured != DefaultTiers || settings.change.At.IsZero() {
			t.Errorf("%+v, %v", standing, err)
		}
		time.Sleep(6 * time.Second)
		if reads() != [2]int64{40, 40} {
			t.Errorf("%v", reads())
		}
		settings.fail(errors.New("the database is away"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if reads() != [2]int64{40, 40} || strings.Count(log.String(), "stay as they are") != 2 {
			t.Errorf("%v\n%s", reads(), log)
		}
		settings.fail(nil)
		if standing, err := desks[1].Change(t.Context(), Change{}); err != nil || standing.Tiers != DefaultTiers {
			t.Errorf("%+v, %v", standing, err)
		}
		time.Sleep(6 * time.Second)
		if reads() != [2]int64{20, 20} {
			t.Errorf("%v", reads())
		}
		stop()
		running.Wait()
	})
}

func TestLimitsThatAreNoneAreRefused(t *testing.T) {
	settings := &written{}
	all, _ := instances(t, 1, &shared{})
	desk := NewDesk(DeskConfig{Quotas: all[0], Settings: settings, Configured: DefaultTiers, Burst: time.Second, Now: func() time.Time { return time.Time{} }})
	for _, text := range []string{"bronze=1/1", "bronze=0/2,silver=100/10,gold=500/50", "bronze=20/2,silver=100/10,gold=5000/50"} {
		_, err := desk.Change(t.Context(), Change{Tiers: text})
		if refusal, is := errors.AsType[*eventstore.Refusal](err); !is || refusal.Code != CodeInvalid || settings.change != (Change{}) {
			t.Errorf("%s: %v", text, err)
		}
	}
	_, err := desk.Change(t.Context(), Change{Tiers: "bronze=0/2,copper=1/1"})
	refusal, is := errors.AsType[*eventstore.Refusal](err)
	if !is || len(refusal.Problems) != 4 || strings.Contains(refusal.Detail, "\n") {
		t.Fatalf("%+v", refusal)
	}
	for _, problem := range refusal.Problems {
		if problem.Pointer != "/tiers" || problem.Code != CodeInvalid || strings.ContainsAny(problem.Detail, "\n") || problem.Detail == "" {
			t.Errorf("%+v", problem)
		}
	}
	settings.fail(errors.New("the database is away"))
	if _, err := desk.Show(t.Context()); err == nil {
		t.Error("no error")
	}
	if _, err := desk.Change(t.Context(), Change{}); err == nil {
		t.Error("no error")
	}
}

func TestLowerTiersAreLoweredAndComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := &written{}
		all, _ := instances(t, 1, &shared{})
		desk := NewDesk(DeskConfig{
			Quotas: all[0], Settings: settings, Configured: DefaultTiers, Burst: time.Second, Every: 5 * time.Second, Now: time.Now, Logger: all[0].config.Logger,
		})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = desk.Run(ctx) })
		counts := func(want string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, tier := range *all[0].tiers.Load() {
				got = append(got, tier.policies[0]+" "+tier.policies[1])
			}
			if text := strings.Join(got, ", "); text != want {
				t.Errorf("%s, want %s", text, want)
			}
		}
		counts(`"reads";q=20;w=1 "orders";q=2;w=1, "reads";q=100;w=1 "orders";q=10;w=1, "reads";q=500;w=1 "orders";q=50;w=1`)
		desk.Lower(30) // at once, not with the next look
		counts(`"reads";q=6;w=1 "orders";q=1;w=1, "reads";q=30;w=1 "orders";q=3;w=1, "reads";q=500;w=1 "orders";q=50;w=1`)
		if _, err := desk.Change(t.Context(), Change{Tiers: "bronze=40/4,silver=100/10,gold=500/50"}); err != nil {
			t.Error(err)
		}
		time.Sleep(6 * time.Second) // what is set meanwhile is lowered too
		counts(`"reads";q=12;w=1 "orders";q=1;w=1, "reads";q=30;w=1 "orders";q=3;w=1, "reads";q=500;w=1 "orders";q=50;w=1`)
		desk.Lower(0)
		desk.Lower(0)
		counts(`"reads";q=40;w=1 "orders";q=4;w=1, "reads";q=100;w=1 "orders";q=10;w=1, "reads";q=500;w=1 "orders";q=50;w=1`)
		stop()
		running.Wait()
	})
}
