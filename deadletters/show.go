package deadletters

import (
	"context"
	"encoding/json"
	"time"

	"andes/eventstore"
)

// Detail is all that is known of a letter.
type Detail struct {
	Summary
	Headers      []Header     `json:"headers"`
	FirstFailure time.Time    `json:"firstFailure,omitzero"`
	Failures     []string     `json:"failures,omitempty" doc:"The attempts that failed, oldest first"`
	Redacted     []string     `json:"redacted,omitempty" doc:"JSON pointers of what is not in the DLQ; a replay restores it from the event store"`
	Stored       *StoredEvent `json:"stored,omitempty" doc:"The event in the event store"`
	Settlement   *Settled     `json:"settlement,omitempty"`
	Earlier      []string     `json:"earlier,omitempty" doc:"Outstanding letters of its key that come before it"`
	Behind       []string     `json:"behind,omitempty" doc:"Outstanding letters of its key that wait for it"`
	BehindCount  int64        `json:"behindCount"`
}

// StoredEvent is an event in the event store, masked.
type StoredEvent struct {
	Stream     string          `json:"stream"`
	Version    int64           `json:"version"`
	Position   int64           `json:"position"`
	RecordedAt time.Time       `json:"recordedAt"`
	Data       json.RawMessage `json:"data"`
}

// Settled is what was done with a letter, by whom and why.
type Settled struct {
	Action string    `json:"action"`
	State  string    `json:"state" enum:"claimed,done"`
	Run    string    `json:"run"`
	Actor  string    `json:"actor"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

const maxShownBehind = 100

// Show tells all about one letter.
func (s *Service) Show(ctx context.Context, ref Ref) (Detail, error) {
	consumer, bounds, err := s.consumer(ctx, ref.Consumer)
	if err != nil {
		return Detail{}, err
	}
	letter, err := s.fetch(ctx, ref)
	if err != nil {
		return Detail{}, err
	}
	settlements, err := s.Ledger.Settlements(ctx, ref.Consumer, ref.Partition, ref.Offset, ref.Offset+1)
	if err != nil {
		return Detail{}, err
	}
	partners, err := s.partners(ctx, []*Letter{letter})
	if err != nil {
		return Detail{}, err
	}
	settlement, settled := settlements[ref.Offset]
	detail := Detail{
		Summary: s.summary(letter, partners[ref], settlement, true),
		Headers: shownHeaders(letter), FirstFailure: milliseconds(letter.FirstFailure), Failures: letter.Failures, Redacted: letter.Redacted,
	}
	if letter.FirstFailure.IsZero() {
		detail.FirstFailure = time.Time{}
	}
	if settled {
		detail.Settlement = &Settled{Action: settlement.Action, State: "claimed", Run: settlement.Run, Actor: settlement.Actor, Reason: settlement.Reason, At: milliseconds(settlement.At)}
		if settlement.Done {
			detail.Settlement.State = "done"
		}
	}
	if detail.Stored, err = s.stored(ctx, letter); err != nil || letter.Foreign != "" || !consumer.Ordered {
		return detail, err
	}
	for _, b := range bounds {
		if b.Partition == ref.Partition {
			err = s.neighbours(ctx, letter, b, &detail)
		}
	}
	return detail, err
}

// shownHeaders gives a letter's headers. Of a foreign record nobody can tell what they hold.
func shownHeaders(letter *Letter) []Header {
	if letter.Foreign == "" {
		return letter.Headers
	}
	shown := make([]Header, len(letter.Headers))
	for i, header := range letter.Headers {
		shown[i] = Header{Name: header.Name, Value: sketch(header.Value)}
	}
	return shown
}

// fetch gives one letter.
func (s *Service) fetch(ctx context.Context, ref Ref) (*Letter, error) {
	letters, err := s.Log.Fetch(ctx, ref.Consumer, ref.Partition, []int64{ref.Offset})
	if err != nil {
		return nil, err
	}
	if len(letters) == 0 {
		return nil, refuseUnknown(ref)
	}
	return letters[0], nil
}

func (s *Service) stored(ctx context.Context, letter *Letter) (*StoredEvent, error) {
	if letter.EventID == "" {
		return nil, nil
	}
	found, err := s.Events.EventsByID(ctx, []string{letter.EventID})
	if err != nil {
		return nil, err
	}
	record, there := found[letter.EventID]
	if !there {
		return nil, nil
	}
	return &StoredEvent{
		Stream: record.Stream.String(), Version: record.Version, Position: record.Position, RecordedAt: milliseconds(record.RecordedAt),
		Data: s.maskedData(record),
	}, nil
}

// maskedData gives an event's data as people may see it.
func (s *Service) maskedData(record eventstore.Record) json.RawMessage {
	if shown := s.payload(&Letter{Value: record.Data, EventType: record.Type}).JSON; shown != nil {
		return shown
	}
	return json.RawMessage("null") // no event can be that, but what is broken must not break the answer
}

// neighbours finds the outstanding letters of the same key and origin.
func (s *Service) neighbours(ctx context.Context, letter *Letter, b Bounds, detail *Detail) error {
	same := func(l *Letter) bool {
		l.Value = nil
		return l.Foreign == "" && l.Ref != letter.Ref && l.line() == letter.line()
	}
	return s.sweep(ctx, letter.Consumer, b, same, func(w swept) (bool, error) {
		for _, l := range w.letters {
			switch {
			case w.settlements[l.Offset].Done:
			case l.Origin.Offset < letter.Origin.Offset:
				if len(detail.Earlier) < maxShownBehind {
					detail.Earlier = append(detail.Earlier, l.Ref.String())
				}
			default:
				detail.BehindCount++
				if len(detail.Behind) < maxShownBehind {
					detail.Behind = append(detail.Behind, l.Ref.String())
				}
			}
		}
		return true, nil
	})
}
