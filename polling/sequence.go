package polling

import (
	"context"
	"encoding/json"
	"fmt"

	"andes/eventstore"
)

// Event is a record of a sequence feed. One with Seq 0 has no place in the feed's order.
type Event struct {
	Seq  int64
	Item Item
}

// EventPage is one answer of a sequence feed.
type EventPage struct {
	Events []Event
	More   bool
}

// Sequence is a feed of events numbered in the order in which they appear.
//
// An event whose refusal may pass (it speaks of an order that is not known yet) is waited for: the cursor
// goes on and remembers its number, and the next passes read it again, up to MaxPolls times.
type Sequence struct {
	Fetch    func(ctx context.Context, after int64) (EventPage, error)
	MayPass  func(*eventstore.Refusal) bool
	MaxPolls int
}

// maxAwaited bounds the events that are waited for at once; further ones are refused for good.
const maxAwaited = 200

type sequenceCursor struct {
	After   int64         `json:"after"`
	Awaited map[int64]int `json:"awaited,omitempty"` // number -> polls that it was refused in
}

// Open implements Source.
func (s Sequence) Open(cursor string) (Pass, error) {
	pass := &sequencePass{feed: s}
	if cursor != "" {
		if err := json.Unmarshal([]byte(cursor), &pass.kept); err != nil {
			return nil, fmt.Errorf("cursor of a sequence feed: %w", err)
		}
	}
	if pass.kept.Awaited == nil {
		pass.kept.Awaited = map[int64]int{}
	}
	pass.next = pass.kept.After
	for seq := range pass.kept.Awaited {
		pass.next = min(pass.next, seq-1)
	}
	return pass, nil
}

type sequencePass struct {
	feed Sequence
	kept sequenceCursor
	next int64
	page map[string]int64 // numbers of the items of the last page
}

// Next implements Pass. Events that earlier passes settled are left out.
func (p *sequencePass) Next(ctx context.Context) ([]Item, bool, error) {
	page, err := p.feed.Fetch(ctx, p.next)
	if err != nil {
		return nil, false, err
	}
	at := p.next
	var items []Item
	p.page = make(map[string]int64, len(page.Events))
	for _, event := range page.Events {
		if event.Seq == 0 {
			items = append(items, event.Item)
			continue
		}
		if event.Seq <= at {
			return nil, false, fmt.Errorf("%w: event %d comes after event %d", ErrBroken, event.Seq, at)
		}
		at = event.Seq
		if _, awaited := p.kept.Awaited[event.Seq]; awaited || event.Seq > p.kept.After {
			items = append(items, event.Item)
			p.page[event.Item.ID] = event.Seq
		}
	}
	if page.More && at == p.next {
		return nil, false, fmt.Errorf("%w: there is said to be more, but nothing beyond event %d came", ErrBroken, at)
	}
	p.next = at
	return items, page.More, nil
}

// Settle implements Pass.
func (p *sequencePass) Settle(refused []Refused) []Refused {
	awaited := map[int64]int{}
	var final []Refused
	for _, r := range refused {
		seq, placed := p.page[r.Item.ID]
		polls := p.kept.Awaited[seq] + 1
		if placed && p.feed.MayPass(r.Refusal) && polls < p.feed.MaxPolls && len(p.kept.Awaited)+len(awaited) < maxAwaited {
			awaited[seq] = polls
			continue
		}
		final = append(final, r)
	}
	for _, seq := range p.page {
		delete(p.kept.Awaited, seq)
	}
	for seq, polls := range awaited {
		p.kept.Awaited[seq] = polls
	}
	p.kept.After = max(p.kept.After, p.next)
	return final
}

// Cursor implements Pass.
func (p *sequencePass) Cursor() string {
	text, err := json.Marshal(p.kept)
	if err != nil {
		panic(err) // whole numbers: json can't fail
	}
	return string(text)
}
