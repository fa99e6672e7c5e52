package promo

import (
	"context"
	"fmt"
	"time"

	"andes/eventstore"
)

// Status is how promo mode stands.
type Status struct {
	Phase    Phase    `json:"phase" enum:"off,waiting,on,over"`
	Promo    State    `json:"promo" doc:"The one that is on, or the last one"`
	Left     Span     `json:"left,omitempty" doc:"Until it begins, or ends"`
	Board    Window   `json:"board" doc:"The last minute"`
	Look     *Look    `json:"look,omitempty" doc:"What was found when it was switched on"`
	Warnings []string `json:"warnings,omitempty"`
	Unread   string   `json:"unread,omitempty" doc:"What is stored can't be read now, and why: the promo is the last one that the answering process heard of, and the board is empty"`
}

// boardLength is what the board shows.
const boardLength = time.Minute

// Show tells how promo mode stands. While what is stored can't be read, it tells what this process knows by itself.
func (d *Desk) Show(ctx context.Context) (Status, error) {
	state, err := d.read(ctx)
	if err != nil {
		last := d.kept.Load()
		if last == nil {
			return Status{}, err
		}
		state = *last
	}
	now := d.config.Now()
	status := Status{Phase: state.At(now), Promo: state, Board: newFold().window(now.UTC(), now.UTC())}
	switch status.Phase {
	case Waiting:
		status.Left = Span(state.From.Sub(now).Round(time.Second))
	case On:
		status.Left = Span(state.Until.Sub(now).Round(time.Second))
		if err == nil {
			err = d.fill(ctx, &status.Board, state, now)
		}
	}
	if err != nil {
		status.Unread = err.Error()
	}
	return status, nil
}

// fill makes the board of a promo that is on.
func (d *Desk) fill(ctx context.Context, board *Window, state State, now time.Time) error {
	// Slots are told when they are over: the last one that all have told of is some seconds back.
	until := now.Add(-SlotLength).Truncate(SlotLength)
	from := until.Add(-boardLength)
	if from.Before(state.From) {
		from = state.From.Truncate(SlotLength)
	}
	told, err := d.window(ctx, state.ID, from.UTC(), until.UTC())
	if err == nil {
		*board = told
	}
	return err
}

func (d *Desk) window(ctx context.Context, promo string, from, until time.Time) (Window, error) {
	folded := newFold()
	err := d.config.Store.Samples(ctx, promo, from, func(slot time.Time, process string, sample Sample) {
		if slot.Before(until) {
			folded.add(slot, process, sample)
		}
	})
	return folded.window(from, until), err
}

// Report tells of a promo, empty: the last one. Of one that is not over yet, or whose report is not kept yet, it
// tells what is known.
func (d *Desk) Report(ctx context.Context, promo string) (Report, error) {
	text, err := d.config.Store.Promo(ctx)
	if err != nil {
		return Report{}, err
	}
	if state, err := Parse(text); err == nil && state.ID != "" && (promo == "" || promo == state.ID) {
		switch state.At(d.config.Now()) {
		case On, Over:
			if report, there, err := d.config.Store.Report(ctx, state.ID); err != nil || there {
				return report, err
			}
			return d.report(ctx, state)
		case Waiting, Off:
			if promo != "" {
				return Report{}, eventstore.Refuse(CodeNoReport, "the promo has not begun")
			}
		}
	}
	report, there, err := d.config.Store.Report(ctx, promo)
	if err == nil && !there {
		err = eventstore.Refuse(CodeNoReport, "%s", unreported(promo))
	}
	return report, err
}

func unreported(promo string) string {
	if promo == "" {
		return "no promo has begun yet"
	}
	return fmt.Sprintf("there is no report of the promo %q", promo)
}

// report makes the report of a promo from its samples, and compares it with the time before.
func (d *Desk) report(ctx context.Context, state State) (Report, error) {
	now := d.config.Now()
	until := state.Until
	if now.Before(until) { // slots are told when they are over
		until = now.Truncate(SlotLength)
		if until.Before(state.From) {
			until = state.From
		}
	}
	folded := newFold()
	if err := d.config.Store.Samples(ctx, state.ID, time.Time{}, folded.add); err != nil {
		return Report{}, err
	}
	report := Report{State: state, Final: !now.Before(state.Until.Add(settling)), Window: folded.window(state.From, until.UTC())}
	var err error
	report.Before, err = d.before(ctx, state.From.Add(state.From.Sub(until)).Truncate(SlotLength).UTC(), state.From)
	return report, err
}

// countedPercent is how much of a stretch of time has to be counted for its figures to be told: a restart leaves a hole of
// a slot, and what was not counted would pass for quiet.
const countedPercent = 90

// before is what was done in a stretch of time in which no promo was on; nil: that is not known.
func (d *Desk) before(ctx context.Context, from, until time.Time) (*Window, error) {
	folded := newFold()
	err := d.config.Store.Samples(ctx, Quiet, from, func(slot time.Time, process string, sample Sample) {
		if slot.Before(until) {
			folded.add(slot, process, sample)
		}
	})
	if err != nil || 100*folded.counted() < countedPercent*until.Sub(from).Seconds() {
		return nil, err
	}
	window := folded.window(from, until)
	window.Timeline = nil
	window.Events, err = d.config.Store.OrderEvents(ctx, from, until)
	return &window, err
}
