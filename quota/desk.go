package quota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"andes/eventstore"
)

// CodeInvalid refuses limits that are none.
const CodeInvalid eventstore.Code = "QUOTA_INVALID"

// Settings keeps what operators set, for all instances.
type Settings interface {
	// Tiers gives the text that is set; empty: none.
	Tiers(ctx context.Context) (string, error)
	// SetTiers sets it and writes that into the audit log.
	SetTiers(ctx context.Context, change Change) error
}

// Change is what an operator sets.
type Change struct {
	Tiers         string // as for ParseTiers; empty: those of the configuration
	Actor, Reason string
	At            time.Time
}

// Standing is which limits count.
type Standing struct {
	Tiers      string        `json:"tiers" example:"bronze=20/2,silver=100/10,gold=500/50" doc:"What counts: reads and orders a second of each tier"`
	Configured string        `json:"configured" example:"bronze=20/2,silver=100/10,gold=500/50" doc:"What the configuration says, in this instance"`
	Burst      time.Duration `json:"-"`
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
	current string        // used by Run alone
}

// NewDesk gives a desk; Run makes it follow the settings.
func NewDesk(config DeskConfig) *Desk {
	return &Desk{config: config, kick: make(chan struct{}, 1), current: standing(config.Configured, 0)}
}

// standing names what counts.
func standing(tiers string, percent int64) string {
	if percent > 0 {
		return fmt.Sprintf("%s, the lower tiers at %d%%", tiers, percent)
	}
	return tiers
}

// Lower leaves all tiers but the highest a share of their limits, in this instance, until it is told another one;
// 0: all of it.
func (d *Desk) Lower(percent int) {
	d.lowered.Store(int64(percent))
	select {
	case d.kick <- struct{}{}:
	default: // it is going to look anyhow
	}
}

func (d *Desk) parse(text string) (string, Tiers, error) {
	if text == "" {
		text = d.config.Configured
	}
	tiers, err := ParseTiers(text, int64(d.config.Burst/time.Second))
	return text, tiers, err
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
	ctx, cancel := context.WithTimeout(ctx, d.config.Every)
	defer cancel()
	set, err := d.config.Settings.Tiers(ctx)
	if err != nil {
		return err
	}
	text, tiers, err := d.parse(set)
	percent := d.lowered.Load()
	text = standing(text, percent)
	if err != nil || text == d.current {
		return err
	}
	if err := d.config.Quotas.SetTiers(tiers.Lowered(percent)); err != nil {
		return err
	}
	d.current = text
	d.config.Logger.InfoContext(ctx, "quota: new limits", "tiers", text)
	return nil
}

// Show tells which limits count for all instances.
func (d *Desk) Show(ctx context.Context) (Standing, error) {
	set, err := d.config.Settings.Tiers(ctx)
	if err != nil {
		return Standing{}, err
	}
	if set == "" {
		set = d.config.Configured
	}
	return Standing{Tiers: set, Configured: d.config.Configured, Burst: d.config.Burst}, nil
}

// Change sets limits for all instances, which follow within the time between two looks.
func (d *Desk) Change(ctx context.Context, change Change) (Standing, error) {
	_, tiers, err := d.parse(change.Tiers)
	if err = errors.Join(err, d.config.Quotas.config.capped(tiers)); err != nil {
		return Standing{}, refusal(err)
	}
	change.At = d.config.Now()
	if err := d.config.Settings.SetTiers(ctx, change); err != nil {
		return Standing{}, err
	}
	return d.Show(ctx)
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
