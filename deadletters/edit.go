package deadletters

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"andes/eventstore"
)

// Correction replaces what a letter says and sends it back. Its id stays: for the consumer it is the same
// event.
type Correction struct {
	Letter  Ref
	Payload []byte // JSON; what is redacted in it is restored
	Force   bool   // also to a consumer that is not running, or before an earlier letter of its key
	Reason  string
	Actor   string
}

// MaxPayload bounds a corrected payload, as events are bounded.
const MaxPayload = eventstore.MaxEventBytes

// Edit sends a letter back with another payload. What was parked behind it follows when the run that it
// gives is advanced, by a Job of the action Edited.
func (s *Service) Edit(ctx context.Context, c Correction) (Progress, error) {
	consumer, bounds, err := s.consumer(ctx, c.Letter.Consumer)
	if err != nil {
		return Progress{}, err
	}
	if strings.TrimSpace(c.Reason) == "" {
		return Progress{}, eventstore.Refuse(CodeReasonMissing, "a reason is needed to change what a message says; it goes to the audit log")
	}
	job := Job{Consumer: consumer.Name, Action: Edited, Filter: Filter{Letters: []Ref{c.Letter}}, Force: c.Force, Reason: c.Reason, Actor: c.Actor}
	if err := s.admit(ctx, consumer, job); err != nil {
		return Progress{}, err
	}
	letter, value, err := s.corrected(ctx, c)
	if err != nil {
		return Progress{}, err
	}
	if consumer.Ordered && !c.Force {
		if err := s.first(ctx, letter, bounds); err != nil {
			return Progress{}, err
		}
	}
	state := runState{Run: s.NewID(), Consumer: consumer.Name, Action: Edited, Cutoff: bounds, Planned: 1, Following: true, Since: s.Now()}
	step := &step{Service: s, job: job, consumer: consumer, state: &state, plan: &plan{blocked: map[uint64]bool{}}}
	entries := map[Ref]entry{c.Letter: {}}
	returns, err := step.claim(ctx, []Return{{Letter: letter, Value: value, Run: state.Run, Replays: letter.Replays + 1}}, entries)
	if err != nil {
		return Progress{}, err
	}
	if len(returns) == 0 {
		return Progress{}, eventstore.Refuse(CodeLetterSettled, "letter %s is settled already, or another run is working on it: look at it with `show`", c.Letter)
	}
	if err := step.deliver(ctx, returns, entries); err != nil {
		return Progress{}, err
	}
	return state.progress(!consumer.Ordered), nil
}

// corrected gives the letter and the whole value that it is sent back with.
func (s *Service) corrected(ctx context.Context, c Correction) (*Letter, []byte, error) {
	letter, err := s.fetch(ctx, c.Letter)
	switch {
	case err != nil:
		return nil, nil, err
	case letter.Foreign != "":
		return nil, nil, eventstore.Refuse(CodeLetterForeign, "letter %s is no record of ours (%s): there is nowhere to send it back to", c.Letter, letter.Foreign)
	case len(c.Payload) > MaxPayload:
		return nil, nil, eventstore.Refuse(CodePayloadInvalid, "the payload has %d bytes, at most %d fit", len(c.Payload), MaxPayload)
	}
	value := bytes.TrimSpace(c.Payload)
	document, _ := parse(value)
	if _, is := document.(map[string]any); !is {
		return nil, nil, eventstore.Refuse(CodePayloadInvalid, "the payload is no JSON object")
	}
	if len(letter.Redacted) > 0 {
		whole := *letter
		whole.Value = value
		values, err := s.restore(ctx, []*Letter{&whole})
		if err != nil {
			return nil, nil, err
		}
		restored, ok := values[letter.Ref]
		if !ok {
			return nil, nil, eventstore.Refuse(CodeUnrestorable, "%s: give the values of %s in the payload", explain[WhyUnrestorable], strings.Join(letter.Redacted, ", "))
		}
		value = restored
	}
	if bytes.Contains(value, []byte(eventstore.Redacted)) {
		return nil, nil, eventstore.Refuse(CodePayloadInvalid, "the payload holds %s where nothing can be restored", eventstore.Redacted)
	}
	record, err := s.Log.Event(letter, value)
	var event any
	if err == nil {
		event, err = s.Registry.Decode(record)
	}
	if err == nil {
		err = sameEvent(letter, document.(map[string]any), event)
	}
	if err != nil {
		return nil, nil, eventstore.Refuse(CodePayloadInvalid, "the payload is no %s: %v", letter.EventType, err)
	}
	return letter, value, nil
}

// sameEvent tells a corrected event from another document. A decoder forgives what it does not know and fills
// in what is missing; an operator who pastes the wrong thing must hear of it.
func sameEvent(letter *Letter, corrected map[string]any, event any) error {
	known := map[string]any{}
	if text, err := json.Marshal(event); err != nil {
		return err
	} else if err := json.Unmarshal(text, &known); err != nil {
		return err
	}
	original, _ := parse(letter.Value)
	before, _ := original.(map[string]any)
	for name, value := range corrected {
		_, declared := known[name]
		if _, had := before[name]; !declared && !had {
			return fmt.Errorf("it has no member %q", name)
		}
		if id, was := before[name].(string); was && id == string(letter.Key) && value != id {
			return fmt.Errorf("its %q says which stream it is of and can't change", name)
		}
	}
	for name, value := range before {
		if _, kept := corrected[name]; !kept && value == string(letter.Key) {
			return fmt.Errorf("its %q, which says which stream it is of, is missing", name)
		}
	}
	return nil
}

// first refuses a letter that has an earlier outstanding one before it: it would be parked behind that.
func (s *Service) first(ctx context.Context, letter *Letter, bounds []Bounds) error {
	for _, b := range bounds {
		if b.Partition != letter.Partition {
			continue
		}
		var detail Detail
		if err := s.neighbours(ctx, letter, b, &detail); err != nil {
			return err
		}
		if len(detail.Earlier) > 0 {
			return eventstore.Refuse(CodeWouldLoop, "letter %s waits behind %s: settle that first, or insist with --force", letter.Ref, detail.Earlier[0])
		}
	}
	return nil
}
