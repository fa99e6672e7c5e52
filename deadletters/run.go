package deadletters

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"andes/eventstore"
)

// Job says what is to be done with which letters of a consumer.
type Job struct {
	Consumer string
	Action   string // Replayed or Discarded
	Filter   Filter
	All      bool // an empty filter is meant
	Limit    int  // letters; 0: all. Those behind them go along and do not count
	Rate     int  // letters a second; 0: as fast as it goes
	Force    bool // also what is likely to come back, and to a consumer that is not running
	Reason   string
	Actor    string
	Cursor   string // of the step before; "": a new run
}

// Progress is how a run stands after a step.
type Progress struct {
	Run      string `json:"run"`
	Cursor   string `json:"cursor,omitempty" doc:"Asks for the next step; none when the run is over"`
	Phase    string `json:"phase" enum:"sending,following,done" doc:"following: waiting for the consumer, to release what was parked behind meanwhile"`
	Planned  int64  `json:"planned" doc:"Letters that were selected and can be sent"`
	Sent     int64  `json:"sent"`
	Released int64  `json:"released" doc:"Of those sent, the ones that were parked behind another"`
	Returned int64  `json:"returned" doc:"Of those sent, the ones that failed again and are back in the DLQ when the run ends"`
	Left     []Left `json:"left" doc:"Letters that were selected and stay"`
	Partial  bool   `json:"partial,omitzero" doc:"The DLQ holds more than one run takes: run it again"`
	Note     string `json:"note,omitempty"`
}

// Phases of a run.
const (
	Sending   = "sending"
	Following = "following"
	Done      = "done"
)

// runState is a run between two steps.
type runState struct {
	Run       string    `json:"run"`
	Consumer  string    `json:"consumer"`
	Action    string    `json:"action"`
	Cutoff    []Bounds  `json:"cutoff"`
	Planned   int64     `json:"planned"`
	Sent      int64     `json:"sent"`
	Released  int64     `json:"released"`
	Returned  int64     `json:"returned,omitzero"`
	Left      leftovers `json:"left,omitempty"`
	Partial   bool      `json:"partial,omitzero"`
	Following bool      `json:"following,omitzero"`
	Since     time.Time `json:"since,omitzero"` // of waiting for the consumer
	Round     int       `json:"round,omitzero"`
	Audited   int64     `json:"audited,omitzero"` // letters, as the audit log was told when the run sent its first ones
	Open      bool      `json:"open,omitzero"`    // and that there would be more
	Note      string    `json:"note,omitempty"`
}

func (r *runState) progress(done bool) Progress {
	p := Progress{
		Run: r.Run, Phase: Sending, Planned: r.Planned, Sent: r.Sent, Released: r.Released, Returned: r.Returned,
		Left: append([]Left{}, r.Left...), Partial: r.Partial, Note: r.Note,
	}
	switch {
	case done:
		p.Phase = Done
		return p
	case r.Following:
		p.Phase = Following
	}
	p.Cursor = encodeCursor(r)
	return p
}

// Advance begins a run, or goes on with it, for the time of a step. It is repeated with the cursor of the
// answer until there is none. When ctx ends the step ends early; what it has sent is settled.
func (s *Service) Advance(ctx context.Context, job Job) (Progress, error) {
	consumer, bounds, err := s.consumer(ctx, job.Consumer)
	if err != nil {
		return Progress{}, err
	}
	if err := job.check(consumer); err != nil {
		return Progress{}, err
	}
	if job.Cursor == "" {
		if err := namedAreThere(job.Filter.Letters, bounds); err != nil {
			return Progress{}, err
		}
	}
	state := runState{Run: s.NewID(), Consumer: job.Consumer, Action: job.Action, Cutoff: bounds}
	if job.Cursor != "" {
		if state, err = resume(job); err != nil {
			return Progress{}, err
		}
	} else if err := s.admit(ctx, consumer, job); err != nil {
		return Progress{}, err
	}
	step := &step{Service: s, job: job, consumer: consumer, state: &state, until: s.Now().Add(s.StepTime), plan: s.plans.take(state.Run)}
	if !state.Following {
		finished, err := step.send(ctx)
		if err != nil || !finished {
			return state.progress(false), err
		}
		if !consumer.Ordered || job.Action == Discarded || state.Sent == 0 {
			return step.end(ctx)
		}
		state.Following, state.Since = true, s.Now()
	}
	done, err := step.follow(ctx)
	if done && err == nil {
		return step.end(ctx)
	}
	if err == nil {
		s.plans.keep(state.Run, step.plan)
	}
	return state.progress(false), err
}

func (j *Job) check(consumer Consumer) error {
	switch {
	case j.Action != Replayed && j.Action != Discarded && j.Action != Edited:
		return fmt.Errorf("there is no action %q", j.Action)
	case j.Filter.Empty() && !j.All && j.Action != Edited:
		return eventstore.Refuse(CodeFilterMissing, "say which letters: by a filter, or all of them by --all")
	case j.Action == Discarded && strings.TrimSpace(j.Reason) == "":
		return eventstore.Refuse(CodeReasonMissing, "a reason is needed to discard letters; it goes to the audit log")
	}
	return j.Filter.check(consumer)
}

func resume(job Job) (runState, error) {
	var state runState
	if !decodeCursor(job.Cursor, &state) || state.Run == "" || state.Consumer != job.Consumer || state.Action != job.Action || len(state.Cutoff) == 0 {
		return state, eventstore.Refuse(CodeCursorInvalid, "the cursor is of no such run")
	}
	return state, nil
}

// Tidy forgets the settlements of letters that are gone: that retention has deleted, or whose topic was made
// anew. They would be taken for those of other letters.
func (s *Service) Tidy(ctx context.Context, consumer string) error {
	_, before, err := s.consumer(ctx, consumer)
	if err != nil {
		return err
	}
	last := make([]int64, len(before))
	for i, b := range before {
		if last[i], err = s.Ledger.LastSettled(ctx, consumer, b.Partition); err != nil {
			return err
		}
	}
	// A partition's end only grows, so one that is not behind what was settled before is another one's.
	after, err := s.Log.Bounds(ctx, consumer)
	if err != nil {
		return err
	}
	for i, b := range after {
		first := b.First
		if i < len(last) && last[i] >= b.End {
			first = last[i] + 1
		}
		if err := s.Ledger.Forget(ctx, consumer, b.Partition, first); err != nil {
			return err
		}
	}
	return nil
}

// admit checks, before a run begins, that what it sends will be read.
func (s *Service) admit(ctx context.Context, consumer Consumer, job Job) error {
	if err := s.Tidy(ctx, consumer.Name); err != nil {
		return err
	}
	if job.Action == Discarded {
		return nil
	}
	members, replay, err := s.Log.Members(ctx, consumer.Name)
	switch {
	case err != nil:
		return err
	case !consumer.Replays:
		return eventstore.Refuse(CodeNotReplayable, "%s does not read single records again: rebuild what it has built instead (andes projections), and discard the letters", consumer.Name)
	case !replay:
		return eventstore.Refuse(CodeNotReplayable, "the replay topic of %s is not there: run `andes migrate`", consumer.Name)
	case members == 0 && !job.Force:
		return eventstore.Refuse(CodeNotRunning, "no instance of %s is running, so nothing would be worked off: start one, or insist with --force and the letters wait for it", consumer.Name)
	}
	return nil
}

// detail says for the audit log what a job selects.
func (j *Job) detail() string {
	text, err := json.Marshal(struct {
		Filter Filter `json:"filter"`
		Limit  int    `json:"limit,omitzero"`
		Force  bool   `json:"force,omitzero"`
	}{j.Filter, j.Limit, j.Force})
	if err != nil { // texts, numbers and times
		panic(err)
	}
	return string(text)
}
