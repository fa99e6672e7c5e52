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
	mu    sync.Mutex
	kept  Kept
	swaps []Swap
	fault error
	race  func() // before each swap
}

func (w *written) Tiers(context.Context) (Kept, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kept, w.fault
}

func (w *written) SwapTiers(_ context.Context, swap Swap) (bool, error) {
	if w.race != nil {
		w.race()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault != nil || w.kept.Tiers != swap.Old {
		return false, w.fault
	}
	w.kept, w.swaps = Kept{swap.New, swap.Actor, swap.At}, append(w.swaps, swap)
	return true, nil
}

func (w *written) set(tiers string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = Kept{Tiers: tiers, By: "bob"}
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
		standing, err := desks[0].Change(t.Context(), Change{Tiers: raised, Was: DefaultTiers, Actor: "ada", Reason: "a promotion"})
		if err != nil || standing.Tiers != raised || standing.Configured != DefaultTiers || standing.ChangedBy != "ada" || standing.ChangedAt.IsZero() {
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
		if standing, err := desks[1].Change(t.Context(), Change{Was: raised}); err != nil || standing.Tiers != DefaultTiers || settings.swaps[1].New != "" {
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
		if refusal, is := errors.AsType[*eventstore.Refusal](err); !is || refusal.Code != CodeInvalid || len(settings.swaps) != 0 {
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
	if _, err := desk.Change(t.Context(), Change{Was: DefaultTiers}); err == nil || eventstore.CodeOf(err) != "" {
		t.Error(err)
	}
}

func deskAlone(t *testing.T, settings *written) *Desk {
	t.Helper()
	all, _ := instances(t, 1, &shared{})
	return NewDesk(DeskConfig{
		Quotas: all[0], Settings: settings, Configured: DefaultTiers, Burst: time.Second, Every: time.Second,
		Now: func() time.Time { return time.Time{} }, Logger: all[0].config.Logger,
	})
}

func TestLimitsAreKeptInOneText(t *testing.T) {
	settings := &written{}
	desk := deskAlone(t, settings)
	want, was := "bronze=40/4,silver=100/10,gold=500/50", DefaultTiers
	for _, text := range []string{want, " gold=500/50 ,  bronze=040/4,silver=+100/10\n"} {
		standing, err := desk.Change(t.Context(), Change{Tiers: text, Was: was})
		if err != nil || standing.Tiers != want || settings.kept.Tiers != want {
			t.Errorf("%q: %+v, kept %q, %v", text, standing, settings.kept.Tiers, err)
		}
		was = "silver=100/10, bronze=40/4,gold=500/50" // the same, in other words
	}
	settings.set(" gold=500/50, silver=100/10,bronze=40/4") // as it was kept once
	if standing := desk.Show(t.Context()); standing.Tiers != want || standing.ChangedBy != "bob" {
		t.Errorf("%+v", standing)
	}
}

func TestTwoOperatorsDoNotUndoEachOthersLimitsUnseen(t *testing.T) {
	settings := &written{}
	desk := deskAlone(t, settings)
	mine, theirs := "bronze=40/4,silver=100/10,gold=500/50", "bronze=20/2,silver=100/10,gold=700/50"
	settings.race = func() { settings.race = nil; settings.set(theirs) }
	_, err := desk.Change(t.Context(), Change{Tiers: mine, Was: DefaultTiers, Actor: "ada"})
	if eventstore.CodeOf(err) != CodeChanged || !strings.Contains(err.Error(), theirs) || settings.kept.Tiers != theirs {
		t.Errorf("%v; kept %+v", err, settings.kept)
	}
	if standing, err := desk.Change(t.Context(), Change{Tiers: mine, Was: theirs, Actor: "ada"}); err != nil || standing.Tiers != mine {
		t.Errorf("%+v, %v", standing, err)
	}
	for _, was := range []string{"", DefaultTiers, theirs, "whatever"} {
		if _, err := desk.Change(t.Context(), Change{Tiers: theirs, Was: was}); eventstore.CodeOf(err) != CodeChanged || settings.kept.Tiers != mine {
			t.Errorf("%q: %v", was, err)
		}
	}
	// The same limits, set again and again by others in other words, are what was seen.
	turn := 0
	settings.race = func() { turn++; settings.set(strings.Repeat(" ", turn) + mine) }
	if _, err := desk.Change(t.Context(), Change{Tiers: theirs, Was: mine}); eventstore.CodeOf(err) != CodeChanged || turn != maxSwaps {
		t.Errorf("%v after %d", err, turn)
	}
	// What nobody can read any more can be replaced by who has seen it.
	settings.race = nil
	settings.set("copper=1/1")
	if standing := desk.Show(t.Context()); standing.Tiers != "copper=1/1" {
		t.Errorf("%+v", standing)
	}
	if _, err := desk.Change(t.Context(), Change{Tiers: mine, Was: "copper=1/1"}); err != nil || settings.kept.Tiers != mine {
		t.Error(err)
	}
}

func TestWhileNothingCanBeReadThisInstancesLimitsAreToldAndLowered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := &written{}
		settings.set("bronze=40/4,silver=100/10,gold=500/50")
		desk := deskAlone(t, settings)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = desk.Run(ctx) })
		shows := func(want Standing) {
			t.Helper()
			synctest.Wait()
			if got := desk.Show(t.Context()); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		kept := settings.kept.Tiers
		shows(Standing{Tiers: kept, Configured: DefaultTiers, Here: kept, ChangedBy: "bob"})
		settings.fail(errors.New("the database is away"))
		shows(Standing{Configured: DefaultTiers, Here: kept, Unread: "the database is away"})
		desk.Lower(50) // a promo begins all the same
		shows(Standing{Configured: DefaultTiers, Here: "bronze=20/2,silver=50/5,gold=500/50", Unread: "the database is away"})
		settings.fail(nil)
		desk.Lower(0)
		shows(Standing{Tiers: kept, Configured: DefaultTiers, Here: kept, ChangedBy: "bob"})
		stop()
		running.Wait()
	})
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
		if _, err := desk.Change(t.Context(), Change{Tiers: "bronze=40/4,silver=100/10,gold=500/50", Was: DefaultTiers}); err != nil {
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
