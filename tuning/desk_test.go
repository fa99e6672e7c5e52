package tuning

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"andes/eventstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rows is a store in memory.
type rows struct {
	mu    sync.Mutex
	kept  map[string]Kept
	swaps []Swap
	fault error
	race  func() // before each swap
}

func (r *rows) Guards(_ context.Context, systems []string) (map[string]Kept, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := map[string]Kept{}
	for _, system := range systems {
		if kept, there := r.kept[system]; there {
			found[system] = kept
		}
	}
	return found, r.fault
}

func (r *rows) SwapGuard(_ context.Context, swap Swap) (bool, error) {
	if r.race != nil {
		r.race()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault != nil || r.kept[swap.System].Text != swap.Old {
		return false, r.fault
	}
	r.kept[swap.System] = Kept{swap.New, swap.Actor, swap.At}
	r.swaps = append(r.swaps, swap)
	return true, nil
}

func (r *rows) set(system, text string, fault error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept[system], r.fault = Kept{Text: text}, fault
}

// target is a guard that keeps what it is told.
type target struct {
	mu    sync.Mutex
	tuned []string
	fault error
}

func (g *target) System() string { return "erp" }

func (g *target) Tune(patch Patch) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fault == nil {
		g.tuned = append(g.tuned, patch.Text())
	}
	return g.fault
}

func (g *target) told() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.tuned, " ")
}

func whole(n int) *int { return &n }

func deskOf(store *rows, log *bytes.Buffer, targets ...Target) *Desk {
	return NewDesk(Config{
		Systems: []string{"erp", "wms"}, Store: store, Guards: func() []Target { return targets },
		Check: func(_ string, patch Patch) error {
			if patch.Rate != nil && *patch.Rate < 1 {
				return errors.New("rate 0/s\nis none")
			}
			return nil
		},
		Every: 5 * time.Second, Now: time.Now, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
}

func TestTheGuardsOfAllProcessesTakeOnWhatAnOperatorSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, guards, logs := &rows{kept: map[string]Kept{}}, [2]*target{{}, {}}, [2]*bytes.Buffer{{}, {}}
		ctx, stop := context.WithCancel(t.Context())
		var desks []*Desk
		var running sync.WaitGroup
		for i := range guards {
			desk := deskOf(store, logs[i], guards[i])
			desks = append(desks, desk)
			running.Go(func() { _ = desk.Run(ctx) })
		}
		told := func(want string) {
			t.Helper()
			time.Sleep(6 * time.Second)
			synctest.Wait()
			for i, each := range guards {
				if got := each.told(); got != want {
					t.Errorf("guard %d: %s, want %s", i, got, want)
				}
			}
		}
		told("")
		standing, err := desks[0].Change(t.Context(), Change{System: "erp", Patch: Patch{Timeout: "1s", Rate: whole(7)}, Actor: "ada", Reason: "slow"})
		if err != nil || standing.Set.Text() != `{"rate":7,"timeout":"1s"}` || standing.ChangedBy != "ada" || standing.ChangedAt.IsZero() {
			t.Errorf("%+v, %v", standing, err)
		}
		told(`{"rate":7,"timeout":"1s"}`)
		if _, err := desks[1].Change(t.Context(), Change{System: "erp", Patch: Patch{Rate: whole(9)}}); err != nil {
			t.Error(err)
		}
		told(`{"rate":7,"timeout":"1s"} {"rate":9,"timeout":"1s"}`) // what is not given stays
		store.set("erp", `{"rate":9,"timeout":"1s"}`, errors.New("the database is away"))
		told(`{"rate":7,"timeout":"1s"} {"rate":9,"timeout":"1s"}`)
		store.set("erp", `{"rate":`, nil)
		told(`{"rate":7,"timeout":"1s"} {"rate":9,"timeout":"1s"}`)
		standing, err = desks[0].Change(t.Context(), Change{System: "erp", Reset: true, Actor: "ada"})
		if err != nil || !standing.Set.Empty() || store.swaps[len(store.swaps)-1].Reset == false {
			t.Errorf("%+v, %v", standing, err)
		}
		told(`{"rate":7,"timeout":"1s"} {"rate":9,"timeout":"1s"} `)
		for i, log := range logs {
			if got := strings.Count(log.String(), "stay as they are"); got != 2 {
				t.Errorf("desk %d told of %d faults, want each of two once\n%s", i, got, log)
			}
		}
		stop()
		running.Wait()
	})
}

func TestASettingThatAGuardCannotTakeLeavesItAsItIs(t *testing.T) {
	store, guard, log := &rows{kept: map[string]Kept{"erp": {Text: `{"rate":3}`}}}, &target{fault: errors.New("no")}, &bytes.Buffer{}
	desk := deskOf(store, log, guard)
	for range 3 {
		desk.Follow(t.Context())
	}
	if strings.Count(log.String(), "stay as they are") != 1 || guard.told() != "" {
		t.Errorf("%q\n%s", guard.told(), log)
	}
	guard.fault = nil
	desk.Follow(t.Context())
	if guard.told() != `{"rate":3}` {
		t.Errorf("%q", guard.told())
	}
}

func TestChangesThatMakeNoSenseAreRefused(t *testing.T) {
	store := &rows{kept: map[string]Kept{}}
	desk := deskOf(store, &bytes.Buffer{})
	for code, change := range map[eventstore.Code]Change{
		CodeUnknown: {System: "crm", Patch: Patch{Rate: whole(1)}},
		CodeInvalid: {System: "erp", Patch: Patch{Rate: whole(0)}},
	} {
		if _, err := desk.Change(t.Context(), change); eventstore.CodeOf(err) != code || strings.Contains(err.Error(), "\n") || len(store.swaps) != 0 {
			t.Errorf("%s: %v", code, err)
		}
	}
	store.set("erp", "", errors.New("the database is away"))
	if _, err := desk.Change(t.Context(), Change{System: "erp"}); err == nil {
		t.Error("no error")
	}
	if _, err := desk.Show(t.Context()); err == nil {
		t.Error("no error")
	}
}

func TestTwoOperatorsAtOnceLoseNothing(t *testing.T) {
	store, other := &rows{kept: map[string]Kept{}}, true
	store.race = func() {
		if other {
			other = false
			store.set("erp", `{"timeout":"3s"}`, nil)
		}
	}
	desk := deskOf(store, &bytes.Buffer{})
	standing, err := desk.Change(t.Context(), Change{System: "erp", Patch: Patch{Rate: whole(7)}})
	if err != nil || standing.Set.Text() != `{"rate":7,"timeout":"3s"}` {
		t.Errorf("%+v, %v", standing, err)
	}
	turn := 0
	store.race = func() { turn++; store.set("erp", Patch{Rate: whole(100 + turn)}.Text(), nil) }
	if _, err := desk.Change(t.Context(), Change{System: "erp", Patch: Patch{Rate: whole(7)}}); eventstore.CodeOf(err) != CodeChanged || turn != maxSwaps {
		t.Errorf("%v after %d", err, turn)
	}
}
