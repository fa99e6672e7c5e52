package promo

import (
	"context"
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
}

// boardLength is what the board shows.
const boardLength = time.Minute

// Show tells how promo mode stands.
func (d *Desk) Show(ctx context.Context) (Status, error) {
	text, err := d.config.Store.Promo(ctx)
	if err != nil {
		return Status{}, err
	}
	state, err := Parse(text)
	if err != nil {
		return Status{}, err
	}
	now := d.config.Now()
	status := Status{Phase: state.At(now), Promo: state, Board: newFold().window(now.UTC(), now.UTC())}
	switch status.Phase {
	case Waiting:
		status.Left = Span(state.From.Sub(now).Round(time.Second))
	case On:
		status.Left = Span(state.Until.Sub(now).Round(time.Second))
		// Slots are told when they are over: the last one that all have told of is some seconds back.
		until := now.Add(-SlotLength).Truncate(SlotLength)
		from := until.Add(-boardLength)
		if from.Before(state.From) {
			from = state.From.Truncate(SlotLength)
		}
		status.Board, err = d.window(ctx, state.ID, from.UTC(), until.UTC())
	}
	return status, err
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
		err = eventstore.Refuse(CodeNoReport, "there is no report of such a promo")
	}
	return report, err
}

// report makes the report of a promo from its samples.
func (d *Desk) report(ctx context.Context, state State) (Report, error) {
	now := d.config.Now()
	until := state.Until
	if now.Before(until) {
		until = now
	}
	folded := newFold()
	err := d.config.Store.Samples(ctx, state.ID, time.Time{}, folded.add)
	return Report{State: state, Final: !now.Before(state.Until.Add(settling)), Window: folded.window(state.From, until.UTC())}, err
}
