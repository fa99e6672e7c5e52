package tuning

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"andes/eventstore"
)

// Codes of refusals.
const (
	CodeUnknown eventstore.Code = "GUARD_UNKNOWN"   // there is no such system
	CodeInvalid eventstore.Code = "GUARD_INVALID"   // the settings make no sense, as a whole
	CodeChanged eventstore.Code = "SETTING_CHANGED" // others changed the same thing meanwhile, again and again
)

// Kept is what is set of a system's guard.
type Kept struct {
	Text string // of a Patch
	By   string
	At   time.Time
}

// Swap replaces what is set if it still is Old.
type Swap struct {
	System   string
	Old, New string // texts of patches
	Reset    bool   // for the audit log
	Actor    string
	Reason   string
	At       time.Time
}

// Store keeps what operators set, for all processes.
type Store interface {
	// Guards gives what is set, by system.
	Guards(ctx context.Context, systems []string) (map[string]Kept, error)
	// SwapGuard makes the change and writes it into the audit log; false: it is no longer Old.
	SwapGuard(ctx context.Context, swap Swap) (bool, error)
}

// Target is a guard of this process.
type Target interface {
	System() string
	// Tune gives it the settings of its configuration with the patch.
	Tune(patch Patch) error
}

// Config is what a desk needs.
type Config struct {
	Systems []string
	Store   Store
	// Check tells whether the configuration of a system with the patch makes sense as a whole.
	Check  func(system string, patch Patch) error
	Guards func() []Target // of this process
	Every  time.Duration   // between two looks at what is set
	Now    func() time.Time
	Logger *slog.Logger
}

// GuardStanding is what counts for one system's guards, in all processes.
type GuardStanding struct {
	System    string    `json:"system" example:"erp"`
	Set       Patch     `json:"set" doc:"What is other than configured"`
	ChangedBy string    `json:"changedBy,omitempty" example:"ops-admin"`
	ChangedAt time.Time `json:"changedAt,omitzero"`
}

// Change is what an operator wants.
type Change struct {
	System string
	Reset  bool  // back to the configuration, but for Patch
	Patch  Patch // what is not in it stays as it is
	Actor  string
	Reason string
}

// Desk is where operators change the settings of guards. Each process has one, and its guards take on what
// any of them was told.
type Desk struct {
	config Config

	mu      sync.Mutex
	applied map[string]string // texts of patches, by system
	wrong   map[string]string // faults that were told, so that each is told once
}

// NewDesk gives a desk; Run makes it follow what is set.
func NewDesk(config Config) *Desk {
	return &Desk{config: config, applied: map[string]string{}, wrong: map[string]string{}}
}

// Show tells what counts.
func (d *Desk) Show(ctx context.Context) ([]GuardStanding, error) {
	kept, err := d.config.Store.Guards(ctx, d.config.Systems)
	if err != nil {
		return nil, err
	}
	standings := make([]GuardStanding, len(d.config.Systems))
	for i, system := range d.config.Systems {
		if standings[i], err = standing(system, kept[system]); err != nil {
			return nil, err
		}
	}
	return standings, nil
}

func standing(system string, kept Kept) (GuardStanding, error) {
	patch, err := Parse(kept.Text)
	return GuardStanding{System: system, Set: patch, ChangedBy: kept.By, ChangedAt: kept.At}, err
}

// maxSwaps bounds how often a change is tried again because another operator was quicker.
const maxSwaps = 5

// Change sets what all processes follow within the time between two looks.
func (d *Desk) Change(ctx context.Context, change Change) (GuardStanding, error) {
	if !slices.Contains(d.config.Systems, change.System) {
		return GuardStanding{}, eventstore.Refuse(CodeUnknown, "there is no guard of %q; there are: %s", change.System, strings.Join(d.config.Systems, ", "))
	}
	for range maxSwaps {
		kept, err := d.config.Store.Guards(ctx, []string{change.System})
		if err != nil {
			return GuardStanding{}, err
		}
		old, err := Parse(kept[change.System].Text)
		if err != nil || change.Reset {
			old = Patch{} // what nobody can read any more is replaced by a reset or by what is set now
		}
		patch := old.Merge(change.Patch)
		if err := d.config.Check(change.System, patch); err != nil {
			return GuardStanding{}, eventstore.Refuse(CodeInvalid, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		next := Kept{Text: patch.Text(), By: change.Actor, At: d.config.Now()}
		swapped, err := d.config.Store.SwapGuard(ctx, Swap{
			System: change.System, Old: kept[change.System].Text, New: next.Text,
			Reset: change.Reset, Actor: change.Actor, Reason: change.Reason, At: next.At,
		})
		if err != nil {
			return GuardStanding{}, err
		}
		if swapped {
			return standing(change.System, next)
		}
	}
	return GuardStanding{}, eventstore.Refuse(CodeChanged, "others change the guard of %s at the same time; look, and try again", change.System)
}

// Run has the guards of this process follow what is set, until ctx ends.
func (d *Desk) Run(ctx context.Context) error {
	ticker := time.NewTicker(d.config.Every)
	defer ticker.Stop()
	for {
		d.Follow(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Follow looks once. What can't be read or makes no sense leaves the guards as they are, and is logged once.
func (d *Desk) Follow(ctx context.Context) {
	guards := d.config.Guards()
	if len(guards) == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, d.config.Every)
	defer cancel()
	kept, err := d.config.Store.Guards(bounded, d.config.Systems)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			d.tell(ctx, "", err)
		}
		return
	}
	d.tell(ctx, "", nil)
	for _, guard := range guards {
		d.tell(ctx, guard.System(), d.apply(ctx, guard, kept[guard.System()]))
	}
}

func (d *Desk) apply(ctx context.Context, guard Target, kept Kept) error {
	system := guard.System()
	if kept.Text == d.applied[system] {
		return nil
	}
	patch, err := Parse(kept.Text)
	if err == nil {
		err = guard.Tune(patch)
	}
	if err != nil {
		return err
	}
	d.applied[system] = kept.Text
	d.config.Logger.InfoContext(ctx, "guard: new settings", "system", system, "set", kept.Text, "by", kept.By)
	return nil
}

// tell logs a fault when it is a new one.
func (d *Desk) tell(ctx context.Context, system string, err error) {
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	if fault != "" && fault != d.wrong[system] {
		d.config.Logger.WarnContext(ctx, "guard: the settings stay as they are", "system", system, "error", fault)
	}
	d.wrong[system] = fault
}

// String tells what is set in one line.
func (p Patch) String() string {
	if p.Empty() {
		return "as configured"
	}
	return fmt.Sprintf("set: %s", p.Text())
}
