package deadletters

import (
	"context"
	"encoding/json"

	"andes/eventstore"
)

// Rehearsed is what replaying a letter would do.
type Rehearsed struct {
	Letter  string          `json:"letter"`
	Type    string          `json:"type,omitempty" doc:"Of the event"`
	Key     string          `json:"key,omitempty"`
	Behind  bool            `json:"behind,omitzero" doc:"It goes along with an earlier letter of its key"`
	Outcome string          `json:"outcome" enum:"handled,failed,left" doc:"left: it would not be sent"`
	Events  []RehearsedFact `json:"events" doc:"Events that would be appended, masked"`
	Calls   []Call          `json:"calls" doc:"Requests that would be made to other systems"`
	Error   string          `json:"error,omitempty"`
	Class   string          `json:"class,omitempty" doc:"Of the error"`
	Left    *Left           `json:"left,omitempty"`
}

// RehearsedFact is an event that would be appended.
type RehearsedFact struct {
	Stream  string          `json:"stream"`
	Version int64           `json:"version"`
	Type    string          `json:"type"`
	Data    json.RawMessage `json:"data"`
}

// Rehearsals is what a replay would do, in its order.
type Rehearsals struct {
	Items []Rehearsed `json:"items"`
	Left  []Left      `json:"left" doc:"Letters that were selected and would stay"`
	More  int64       `json:"more" doc:"Letters that would be replayed too and were not rehearsed"`
}

// Bounds of a rehearsal.
const (
	someRehearsed = 20
	maxRehearsed  = 200
)

// Rehearse runs the consumer's handler on the letters that a replay would send, without writing, sending or
// calling anything. Limit is how many letters are tried.
func (s *Service) Rehearse(ctx context.Context, job Job) (Rehearsals, error) {
	result := Rehearsals{Items: []Rehearsed{}, Left: []Left{}}
	consumer, bounds, err := s.consumer(ctx, job.Consumer)
	if err != nil {
		return result, err
	}
	job.Action = Replayed
	if err := job.check(consumer); err != nil {
		return result, err
	}
	if !consumer.Replays || s.Config.Rehearse == nil {
		return result, eventstore.Refuse(CodeNotRehearsable, "%s can't be rehearsed: it does not read single records again", consumer.Name)
	}
	rehearsal, err := s.Config.Rehearse(ctx, consumer.Name)
	if err != nil {
		return result, err
	}
	defer rehearsal.Close()
	limit := min(job.Limit, maxRehearsed)
	if limit <= 0 {
		limit = someRehearsed
	}
	job.Limit = 0 // what is beyond the limit is counted
	state := runState{Run: "", Consumer: consumer.Name}
	step := &step{Service: s, job: job, consumer: consumer, state: &state}
	if step.plan, err = s.plan(ctx, consumer, job, scope{bounds: bounds, first: true}); err != nil {
		return result, err
	}
	state.Left = step.plan.left
	for len(result.Items) < limit && !step.plan.finished() {
		chunk := step.plan.chunk(limit - len(result.Items))
		items, err := step.rehearse(ctx, rehearsal, chunk)
		if err != nil {
			return result, err
		}
		result.Items = append(result.Items, items...)
	}
	result.Left = append(result.Left, state.Left...)
	result.More = int64(len(step.plan.entries) - step.plan.at)
	return result, nil
}

func (s *step) rehearse(ctx context.Context, rehearsal Rehearsal, chunk []entry) ([]Rehearsed, error) {
	wanted, entries := s.wanted(chunk)
	letters, err := s.Log.Fetch(ctx, s.job.Consumer, chunk[0].Partition, wanted)
	if err != nil {
		return nil, err
	}
	s.missing(letters, entries)
	returns, err := s.prepare(ctx, letters, entries)
	if err != nil {
		return nil, err
	}
	items := make([]Rehearsed, 0, len(returns))
	for _, r := range returns {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		item := Rehearsed{
			Letter: r.Letter.Ref.String(), Type: r.Letter.EventType, Key: printable(r.Letter.Key), Behind: entries[r.Letter.Ref].behind,
			Outcome: "handled", Events: []RehearsedFact{}, Calls: []Call{},
		}
		s.try(ctx, rehearsal, r, &item)
		items = append(items, item)
	}
	return items, nil
}

// try notes what the handler would do with one letter.
func (s *step) try(ctx context.Context, rehearsal Rehearsal, r Return, item *Rehearsed) {
	record, err := s.Log.Event(r.Letter, r.Value)
	var effects Effects
	if err == nil {
		effects, err = rehearsal.Handle(ctx, record)
	}
	for _, event := range effects.Events {
		item.Events = append(item.Events, RehearsedFact{Stream: event.Stream.String(), Version: event.Version, Type: event.Type, Data: s.maskedData(event)})
	}
	item.Calls = append(item.Calls, effects.Calls...)
	if err != nil {
		item.Outcome, item.Error, item.Class = "failed", err.Error(), eventstore.Classify(err).String()
	}
}
