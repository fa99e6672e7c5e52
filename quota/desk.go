package quota

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"andes/eventstore"
)

// Codes of refusals.
const (
	CodeInvalid eventstore.Code = "QUOTA_INVALID" // limits that are none
	CodeChanged eventstore.Code = "QUOTA_CHANGED" // others changed them since they were looked at
)

// Kept is what is set.
type Kept struct {
	Tiers string // empty: as configured
	By    string
	At    time.Time
}

// Swap replaces what is set if it still is Old.
type Swap struct {
	Old, New      string // tiers
	Actor, Reason string
	At            time.Time
}

// Settings keeps what operators set, for all instances.
type Settings interface {
	Tiers(ctx context.Context) (Kept, error)
	// SwapTiers makes the change and writes it into the audit log; false: it is no longer Old.
	SwapTiers(ctx context.Context, swap Swap) (bool, error)
}

// Change is what an operator wants.
type Change struct {
	Tiers         string // as for ParseTiers; empty: those of the configuration
	Was           string // the tiers that the operator saw; others than these are not replaced
	Actor, Reason string
}

// Standing is which limits count. Limits are reads and orders a second of each tier.
type Standing struct {
	Tiers      string    `json:"tiers,omitempty" example:"bronze=20/2,silver=100/10,gold=500/50" doc:"What counts for all instances"`
	Configured string    `json:"configured" example:"bronze=20/2,silver=100/10,gold=500/50" doc:"What the configuration says, in the instance that answers"`
	Here       string    `json:"here" example:"bronze=20/2,silver=100/10,gold=500/50" doc:"What the instance that answers keeps to: other than tiers until it has followed, and while a promo lowers the lower tiers"`
	ChangedBy  string    `json:"changedBy,omitempty" example:"ops-admin" doc:"Who set or reset them last; none: nobody did"`
	ChangedAt  time.Time `json:"changedAt,omitzero"`
	Unread     string    `json:"unread,omitempty" doc:"What is set can't be read now, and why: tiers are not told"`
}

// DeskConfig is what a desk needs.
type DeskConfig struct {
	Quotas     *Quotas
	Settings   Settings
	Configured string // tiers
	Burst      time.Duration
	Every      time.Duration // between two looks at the settings
	Now        func() time.Time
	Logger     *slog.Logger
}

// Desk is where operators change limits while everything runs. Each instance has one, and takes on what any
// of them was told.
type Desk struct {
	config  DeskConfig
	lowered atomic.Int64  // percent that the lower tiers have left; 0: all
	kick    chan struct{} // has Run look at once

	// Used by Run alone.
	heard   Tiers  // what was last heard to be set
	current string // what counts in this instance
}

// NewDesk gives a desk; Run makes it follow the settings.
func NewDesk(config DeskConfig) *Desk {
	tiers := *config.Quotas.tiers.Load()
	return &Desk{config: config, kick: make(chan struct{}, 1), heard: tiers, current: tiers.String()}
}

// Lower leaves all tiers but the highest a share of their limits, in this instance, until it is told another one;
// 0: all of it.
func (d *Desk) Lower(percent int) {
	d.lowered.Store(int64(percent))
	d.look()
}

// look has Run look at once.
func (d *Desk) look() {
	select {
	case d.kick <- struct{}{}:
	default: // it is going to look anyhow
	}
}

// parse reads tiers, empty: those of the configuration, and gives their text as all write it.
func (d *Desk) parse(text string) (string, Tiers, error) {
	if strings.TrimSpace(text) == "" {
		text = d.config.Configured
	}
	tiers, err := ParseTiers(text, int64(d.config.Burst/time.Second))
	if err != nil {
		return strings.TrimSpace(text), nil, err
	}
	return tiers.String(), tiers, nil
}

// Run takes on what is set until ctx ends. What can't be read or makes no sense leaves the limits as
// they are.
func (d *Desk) Run(ctx context.Context) error {
	ticker := time.NewTicker(d.config.Every)
	defer ticker.Stop()
	wrong := ""
	for {
		fault := ""
		if err := d.follow(ctx); err != nil && ctx.Err() == nil {
			fault = err.Error()
			if fault != wrong {
				d.config.Logger.WarnContext(ctx, "quota: the limits stay as they are", "error", fault)
			}
		}
		wrong = fault
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-d.kick:
		}
	}
}

func (d *Desk) follow(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, d.config.Every)
	defer cancel()
	set, err := d.config.Settings.Tiers(bounded)
	if err == nil {
		var tiers Tiers
		if _, tiers, err = d.parse(set.Tiers); err == nil {
			d.heard = tiers
		}
	}
	return errors.Join(err, d.keepTo(ctx, d.heard.Lowered(d.lowered.Load()))) // a promo lowers also what can't be read now
}

// keepTo has this instance keep to limits.
func (d *Desk) keepTo(ctx context.Context, tiers Tiers) error {
	text := tiers.String()
	if text == d.current {
		return nil
	}
	if err := d.config.Quotas.SetTiers(tiers); err != nil {
		return err
	}
	d.current = text
	d.config.Logger.InfoContext(ctx, "quota: new limits", "tiers", text, "lowered", d.lowered.Load() > 0)
	return nil
}

// Show tells which limits count. While what is set can't be read, it tells what this instance keeps to.
func (d *Desk) Show(ctx context.Context) Standing {
	set, err := d.config.Settings.Tiers(ctx)
	if err != nil {
		here := d.standing(Kept{})
		here.Tiers, here.Unread = "", err.Error()
		return here
	}
	return d.standing(set)
}

func (d *Desk) standing(set Kept) Standing {
	tiers, _, _ := d.parse(set.Tiers) // what can't be read is told as it is
	configured, _, _ := d.parse("")
	return Standing{Tiers: tiers, Configured: configured, Here: d.config.Quotas.tiers.Load().String(), ChangedBy: set.By, ChangedAt: set.At}
}

// maxSwaps bounds how often a change is tried again because another operator was quicker.
const maxSwaps = 5

// Change sets limits for all instances, which follow within the time between two looks, if those that count are the ones
// that the operator saw.
func (d *Desk) Change(ctx context.Context, change Change) (Standing, error) {
	text, tiers, err := d.parse(change.Tiers)
	if err = errors.Join(err, d.config.Quotas.config.capped(tiers)); err != nil {
		return Standing{}, refusal(err)
	}
	if strings.TrimSpace(change.Tiers) == "" {
		text = ""
	}
	was, _, _ := d.parse(change.Was)
	for range maxSwaps {
		set, err := d.config.Settings.Tiers(ctx)
		if err != nil {
			return Standing{}, err
		}
		if now := d.standing(set); now.Tiers != was {
			return Standing{}, eventstore.Refuse(CodeChanged, "the limits that count are %s, not %s: look, and decide again", now.Tiers, was)
		}
		next := Kept{Tiers: text, By: change.Actor, At: d.config.Now()}
		swapped, err := d.config.Settings.SwapTiers(ctx, Swap{Old: set.Tiers, New: text, Actor: change.Actor, Reason: change.Reason, At: next.At})
		if err != nil {
			return Standing{}, err
		}
		if swapped {
			d.look() // at once, here
			return d.standing(next), nil
		}
	}
	return Standing{}, eventstore.Refuse(CodeChanged, "others change the limits at the same time; look, and try again")
}

// refusal tells each fault by itself.
func refusal(err error) error {
	refused := &eventstore.Refusal{Code: CodeInvalid, Detail: "the limits make no sense: see errors"}
	for fault := range strings.Lines(err.Error()) { // joined errors are a line each
		detail := strings.TrimPrefix(strings.TrimSpace(fault), "quota: ")
		refused.Problems = append(refused.Problems, eventstore.Problem{Pointer: "/tiers", Code: CodeInvalid, Detail: detail})
	}
	return refused
}
