package promo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"andes/eventstore"
)

// Config is what a desk needs.
type Config struct {
	Store   Store
	Shelf   Shelf         // nil: nothing is switched on here
	Changed func(State)   // is told what counts in this process when that changes; may be nil
	Every   time.Duration // between two looks at the kept state
	Lead    time.Duration // between switching on and From, so that all have looked; zero: Every and a second
	Keeper  bool          // Run keeps the report of a promo that is over
	Now     func() time.Time
	NewID   func() string
	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil: none
}

// Desk is where operators switch promo mode. Each process has one and knows by it what counts.
type Desk struct {
	config Config
	kept   atomic.Pointer[State] // nil: it was never heard of

	// Used by Run alone.
	told     string // what Changed was told last
	wrong    string // the fault that was logged last
	reported string // the promo whose report is known to be kept
}

// NewDesk gives a desk; Run makes it follow the kept state.
func NewDesk(config Config) (*Desk, error) {
	if config.Store == nil || config.Now == nil || config.NewID == nil || config.Logger == nil || config.Every <= 0 {
		return nil, errors.New("promo: Store, Now, NewID, Logger and Every are needed")
	}
	if config.Lead == 0 {
		config.Lead = config.Every + time.Second
	}
	d := &Desk{config: config, told: State{}.Text()}
	if config.Metrics != nil {
		return d, config.Metrics.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "andes_promo_on", Help: "1 while this process is in promo mode.",
		}, func() float64 {
			if d.Effect().ID != "" {
				return 1
			}
			return 0
		}))
	}
	return d, nil
}

// Effect is what counts at this moment; zero: promo mode is off. It is cheap: requests ask it.
func (d *Desk) Effect() State {
	kept := d.kept.Load()
	if kept == nil || kept.ID == "" {
		return State{}
	}
	return kept.Effect(d.config.Now())
}

// AnswersKept is how old an answer may be that is given again at this moment.
func (d *Desk) AnswersKept() time.Duration {
	effect := d.Effect()
	return time.Duration(max(effect.Microcache, effect.Degraded.Stale))
}

// Kept is the promo as it was last heard of.
func (d *Desk) Kept() State {
	if kept := d.kept.Load(); kept != nil {
		return *kept
	}
	return State{}
}

// Run follows the kept state until ctx ends. While it can't be read, the last one counts on, and ends when it
// was to end.
func (d *Desk) Run(ctx context.Context) error {
	for {
		err := d.Follow(ctx)
		if err == nil && d.config.Keeper {
			err = d.keep(ctx)
		}
		fault := ""
		if err != nil && ctx.Err() == nil {
			if fault = err.Error(); fault != d.wrong {
				d.config.Logger.WarnContext(ctx, "promo: the state can't be followed, the last one counts", "error", fault)
			}
		}
		d.wrong = fault
		timer := time.NewTimer(d.pause())
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// pause is until the next look, or until the promo begins or ends.
func (d *Desk) pause() time.Duration {
	pause, kept, now := d.config.Every, d.Kept(), d.config.Now()
	for _, moment := range []time.Time{kept.From, kept.Until} {
		if left := moment.Sub(now); left > 0 {
			pause = min(pause, left)
		}
	}
	return pause
}

// Follow looks once, and tells what counts now if that is something else.
func (d *Desk) Follow(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, d.config.Every)
	defer cancel()
	state, err := d.read(bounded)
	if err == nil {
		d.kept.Store(&state)
	}
	effect := d.Effect()
	if told := effect.Text(); told != d.told {
		d.told = told
		d.config.Logger.InfoContext(ctx, "promo", "on", effect.ID != "", "skus", len(effect.SKUs), "until", effect.Until, "degraded", effect.Degraded.String())
		if d.config.Changed != nil {
			d.config.Changed(effect)
		}
	}
	return err
}

// read gives the kept state.
func (d *Desk) read(ctx context.Context) (State, error) {
	text, err := d.config.Store.Promo(ctx)
	if err != nil {
		return State{}, err
	}
	return Parse(text)
}

// keep makes the report of a promo that is over and whose last samples have come.
func (d *Desk) keep(ctx context.Context) error {
	kept := d.Kept()
	if kept.At(d.config.Now()) != Over || d.reported == kept.ID || d.config.Now().Before(kept.Until.Add(settling)) {
		return nil
	}
	if err := d.keepReport(ctx, kept); err != nil {
		return err
	}
	d.reported = kept.ID
	return nil
}

// settling is how long after a promo the last samples are waited for.
const settling = 2 * SlotLength

func (d *Desk) keepReport(ctx context.Context, over State) error {
	if _, there, err := d.config.Store.Report(ctx, over.ID); err != nil || there {
		return err
	}
	report, err := d.report(ctx, over)
	if err != nil {
		return err
	}
	return d.config.Store.KeepReport(ctx, report)
}

// Plan is what an operator wants to switch on.
type Plan struct {
	SKUs       []string
	From       time.Time // zero: as soon as all processes have heard of it
	For        time.Duration
	Microcache time.Duration
	Degraded   Degraded
	Force      bool // whatever is found of the products
	Actor      string
	Reason     string
}

// On prepares a promo and switches it on. It refuses products that are unknown, too old or missing in the
// read model; forced, it tells of them in the status.
func (d *Desk) On(ctx context.Context, plan Plan) (Status, error) {
	now, id := d.config.Now(), d.config.NewID()
	if err := refusal(d.planned(plan, id, now).problems(now)); err != nil {
		return Status{}, err
	}
	if !plan.From.IsZero() && plan.From.Before(now.Add(-d.config.Every)) {
		return Status{}, eventstore.Refuse(CodeInvalid, "the promo would have begun at %s: leave --from out to begin now", plan.From.UTC().Format(time.RFC3339))
	}
	look, warnings, err := d.prepare(ctx, plan)
	if err != nil {
		return Status{}, err
	}
	err = d.swap(ctx, Swap{Action: "promo.on", Actor: plan.Actor, Reason: plan.Reason}, func(old State) (State, error) {
		switch phase := old.At(d.config.Now()); phase {
		case Waiting, On:
			return State{}, eventstore.Refuse(CodeOn, "promo mode is %s until %s; switch it off first", phase, old.Until.Format(time.RFC3339))
		case Over:
			if err := d.keepReport(ctx, old); err != nil {
				return State{}, err
			}
		}
		now := d.config.Now() // the products may have taken long, and all have to hear of it yet
		state := d.planned(plan, id, now)
		if soon := now.Add(d.config.Lead).UTC(); state.From.Before(soon) {
			state.From = soon // all begin at once, so a little later
		}
		return state, nil
	})
	if err != nil {
		return Status{}, err
	}
	status, err := d.Show(ctx)
	status.Look, status.Warnings = &look, warnings
	return status, err
}

// planned is the promo of a plan that is switched on now.
func (d *Desk) planned(plan Plan, id string, now time.Time) State {
	begin := plan.From.UTC()
	if plan.From.IsZero() {
		begin = now.Add(d.config.Lead).UTC()
	}
	return State{
		ID: id, SKUs: unique(plan.SKUs), From: begin, Until: begin.Add(plan.For), Microcache: Span(plan.Microcache), Degraded: plan.Degraded,
		Actor: plan.Actor, Reason: plan.Reason,
	}
}

// preparing bounds the look at the products, so that time is left to switch.
const preparing = 20 * time.Second

// prepare warms the read model up and judges what was found. That it can't be looked at says nothing of the products: it is
// no refusal but a fault, which passes.
func (d *Desk) prepare(ctx context.Context, plan Plan) (Look, []string, error) {
	if d.config.Shelf == nil {
		return Look{}, nil, eventstore.Refuse(CodeCold, "the read model can't be looked at from here")
	}
	bounded, cancel := context.WithTimeout(ctx, preparing)
	defer cancel()
	look, err := d.config.Shelf.Prepare(bounded, unique(plan.SKUs))
	var warnings []string
	if err != nil {
		err = fmt.Errorf("the products could not be looked at and put into the read model: %w", err)
		if !plan.Force {
			return look, nil, err
		}
		warnings = append(warnings, err.Error())
	}
	var found []*eventstore.Refusal
	if len(look.Unknown) > 0 {
		found = append(found, &eventstore.Refusal{Code: CodeUnknown, Detail: "there is no product or no stock of " + some(look.Unknown)})
	}
	if look.Missing > 0 {
		found = append(found, &eventstore.Refusal{Code: CodeCold, Detail: fmt.Sprintf("%d of %d entries are not in the read model, although they were put back", look.Missing, look.Keys)})
	}
	if len(look.Stale) > 0 {
		texts := make([]string, len(look.Stale))
		for i, stale := range look.Stale {
			texts[i] = fmt.Sprintf("%s of %s (%s old)", stale.What, stale.SKU, stale.Age)
		}
		found = append(found, &eventstore.Refusal{Code: CodeStale, Detail: "too old: " + some(texts)})
	}
	if len(look.Unsold) > 0 {
		warnings = append(warnings, "no partner's price list has a price of "+some(look.Unsold))
	}
	if len(found) == 0 {
		return look, warnings, nil
	}
	if !plan.Force {
		first := *found[0]
		for _, other := range found[1:] {
			first.Detail += "; " + other.Detail
		}
		first.Detail += " (force switches it on all the same)"
		return look, nil, &first
	}
	for _, each := range found {
		warnings = append(warnings, each.Detail)
	}
	return look, warnings, nil
}

// shown is how many of a list are named.
const shown = 10

func some(texts []string) string {
	if len(texts) <= shown {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(texts[:shown], ", "), len(texts)-shown)
}

func unique(texts []string) []string {
	seen := make(map[string]bool, len(texts))
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
		twice := seen[text]
		seen[text] = true
		return twice
	})
}

// Degrade switches the degradations of the promo: those given are on, the others off.
func (d *Desk) Degrade(ctx context.Context, degraded Degraded, actor, reason string) (Status, error) {
	err := d.swap(ctx, Swap{Action: "promo.degrade", Actor: actor, Reason: reason}, func(old State) (State, error) {
		if phase := old.At(d.config.Now()); phase != Waiting && phase != On {
			return State{}, eventstore.Refuse(CodeOff, "promo mode is off, and degradations belong to a promo")
		}
		old.Degraded = degraded
		return old, refusal(degraded.problems(old.Microcache))
	})
	if err != nil {
		return Status{}, err
	}
	return d.Show(ctx)
}

// Off ends the promo, and its degradations with it.
func (d *Desk) Off(ctx context.Context, actor, reason string) (Status, error) {
	err := d.swap(ctx, Swap{Action: "promo.off", Actor: actor, Reason: reason}, func(old State) (State, error) {
		now := d.config.Now()
		switch old.At(now) {
		case Waiting:
			old.From = now.UTC()
		case On:
		default:
			return State{}, eventstore.Refuse(CodeOff, "promo mode is off")
		}
		old.Until, old.EndedBy = now.UTC(), actor
		return old, nil
	})
	if err != nil {
		return Status{}, err
	}
	return d.Show(ctx)
}

// maxSwaps bounds how often a change is tried again because another operator was quicker.
const maxSwaps = 5

func (d *Desk) swap(ctx context.Context, swap Swap, change func(old State) (State, error)) error {
	for range maxSwaps {
		text, err := d.config.Store.Promo(ctx)
		if err != nil {
			return err
		}
		old, err := Parse(text)
		if err != nil {
			d.config.Logger.WarnContext(ctx, "promo: the kept state is replaced, as it can't be read", "error", err.Error())
		}
		next, err := change(old)
		if err != nil {
			return err
		}
		swap.Old, swap.New, swap.Detail, swap.At = text, next.Text(), next.String(), d.config.Now()
		if swapped, err := d.config.Store.SwapPromo(ctx, swap); err != nil || swapped {
			if err == nil {
				d.kept.Store(&next)
			}
			return err
		}
	}
	return eventstore.Refuse(CodeContended, "others switch promo mode at the same time; look, and try again")
}

// String tells the promo in one line, for the audit log.
func (s State) String() string {
	return fmt.Sprintf("degraded: %s; microcache %s; from %s until %s; promo %s of %s",
		s.Degraded, s.Microcache, s.From.Format(time.RFC3339), s.Until.Format(time.RFC3339), s.ID, some(s.SKUs))
}
