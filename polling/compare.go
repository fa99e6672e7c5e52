package polling

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Comparing is a feed that, beside what changed, goes through all there is: what changed without a stamp or
// a new version, came back, or is not there any more is found by nothing else.
//
//	poll: changes … changes, one page of the round ──► round over: what Andes has and the source has not
//
// A round goes on with each poll, a page at a time, so that it takes little of the source's time; one that is
// urgent is gone through at once. A page that fails is read again by the next poll, and nothing is decided
// before the last one. It is kept in memory: after a start one begins.
type Comparing struct {
	Changes Source
	Round   *Round

	// Present: a feed without a cursor is not read from its beginning, which may be years ago. The cursor is
	// put where the feed ends, then a round reads what there is; only once that is over the cursor is kept.
	// If it is broken off the next poll goes on with it, and with what changed since that end.
	Present bool
}

// Open implements Source.
func (c Comparing) Open(cursor string) (Pass, error) {
	first := c.Present && cursor == ""
	if first && c.Round.going() {
		cursor = c.Round.from
	}
	if first && cursor == "" {
		c.Round.restart()
	}
	pass, err := c.Changes.Open(cursor)
	return &comparingPass{Pass: pass, round: c.Round, first: first}, err
}

type comparingPass struct {
	Pass      // over the changes
	round     *Round
	changed   bool // the changes were read to their end
	comparing bool // the last page was one of the round
	first     bool // there was no cursor
}

// Cursor implements Pass.
func (p *comparingPass) Cursor() string {
	if p.first && (!p.comparing || p.round.going()) {
		return ""
	}
	return p.Pass.Cursor()
}

// Next implements Pass.
func (p *comparingPass) Next(ctx context.Context) ([]Item, bool, error) {
	if !p.changed {
		items, more, err := p.Pass.Next(ctx)
		p.changed = !more
		return items, err == nil && (more || p.round.due()), err
	}
	if p.first && !p.comparing {
		p.round.from = p.Pass.Cursor()
	}
	p.comparing = true
	return p.round.next(ctx)
}

// Settle implements Pass. A refused record of the round has no place in the feed.
func (p *comparingPass) Settle(refused []Refused) []Refused {
	if p.comparing {
		return refused
	}
	return p.Pass.Settle(refused)
}

// Round is one way through everything.
type Round struct {
	Every time.Duration
	Now   func() time.Time
	// Page gives the records after a place; "" is the beginning.
	Page func(ctx context.Context, after string) (RoundPage, error)
	// Gone gives what was not seen although Andes has it. again has the next round begin at once.
	Gone func(ctx context.Context, seen map[string]struct{}) (items []Item, again bool, err error)
	// Sign tells by another value that all of it may have changed; nil: nothing does.
	Sign func(ctx context.Context) (string, error)
	// Counted is told at the end how many live records came and how many the source says it has; nil: nobody is.
	Counted func(came, has int)

	begun  time.Time
	ended  time.Time
	after  string
	seen   map[string]struct{}
	dead   map[string]struct{} // of those seen
	last   string              // sign
	urgent bool
	from   string // cursor of the changes since the first round began; "": it is not the first
}

// RoundPage is a part of all there is.
type RoundPage struct {
	Items []Item
	Keys  []string // of what is there, as Andes has it
	Dead  []string // those of Keys that are deleted
	Next  string   // where it goes on; "": this is the end
	Total int      // live records, as the source counts them; 0: it does not say
}

// maxSeen bounds what a round remembers, and so how much it can compare.
const maxSeen = 5_000_000

var errTooMuch = errors.New("there is more than a comparison can hold")

// due tells whether there is a page to read. A sign is asked for at every poll.
func (r *Round) due() bool {
	return r.Sign != nil || r.going() || r.Now().Sub(r.ended) >= r.Every
}

func (r *Round) going() bool { return r.seen != nil }

// Begun is when the round began that is going on. A record of it that is older than what is known is judged by that.
func (r *Round) Begun() time.Time { return r.begun }

// restart has a round begin now that is urgent.
func (r *Round) restart() {
	*r = Round{Every: r.Every, Now: r.Now, Page: r.Page, Gone: r.Gone, Sign: r.Sign, Counted: r.Counted, urgent: true}
}

func (r *Round) next(ctx context.Context) ([]Item, bool, error) {
	if err := r.begin(ctx); err != nil || !r.going() {
		return nil, false, err
	}
	page, err := r.Page(ctx, r.after)
	if err != nil {
		return nil, false, fmt.Errorf("compare: %w", err)
	}
	if len(r.seen)+len(page.Keys) > maxSeen {
		r.seen = nil
		return nil, false, errTooMuch
	}
	r.saw(page)
	if page.Next != "" {
		r.after = page.Next
		return page.Items, r.urgent, nil
	}
	gone, again, err := r.Gone(ctx, r.seen)
	if err == nil || errors.Is(err, errTooManyGone) { // another look would see the same
		if r.Counted != nil && page.Total > 0 {
			r.Counted(len(r.seen)-len(r.dead), page.Total)
		}
		r.ended, r.seen, r.dead, r.urgent, r.from = r.begun, nil, nil, false, ""
	}
	if err != nil {
		return nil, false, fmt.Errorf("compare: %w", err)
	}
	if again {
		r.ended = time.Time{}
	}
	return append(page.Items, gone...), false, nil
}

// saw remembers a page. A record that changes while it is read comes again, further behind.
func (r *Round) saw(page RoundPage) {
	for _, key := range page.Keys {
		r.seen[key] = struct{}{}
		delete(r.dead, key)
	}
	for _, key := range page.Dead {
		r.dead[key] = struct{}{}
	}
}

// begin begins a round if it is time for one, or the sign says so.
func (r *Round) begin(ctx context.Context) error {
	sign := r.last
	if r.Sign != nil {
		var err error
		if sign, err = r.Sign(ctx); err != nil {
			return fmt.Errorf("compare: %w", err)
		}
	}
	changed := r.last != "" && sign != r.last
	r.last = sign
	if changed || !r.going() && r.Now().Sub(r.ended) >= r.Every {
		r.urgent = r.urgent || changed
		r.begun, r.after, r.seen, r.dead = r.Now(), "", map[string]struct{}{}, map[string]struct{}{}
	}
	return nil
}

// Picking is a source with a way to single records.
type Picking struct {
	Source
	From func(ctx context.Context, ids []string) ([]Item, error)
}

// Pick implements Picker.
func (p Picking) Pick(ctx context.Context, ids []string) ([]Item, error) { return p.From(ctx, ids) }

// Everything reads a change feed from its beginning to its end, as the pages of a round.
func Everything(fetch func(ctx context.Context, since Since) (ChangePage, error)) func(context.Context, string) (RoundPage, error) {
	return func(ctx context.Context, after string) (RoundPage, error) {
		since, err := parseSince(after)
		if err != nil {
			return RoundPage{}, err
		}
		page, err := fetch(ctx, since)
		if err != nil {
			return RoundPage{}, err
		}
		items, end, err := page.read(since)
		if err != nil {
			return RoundPage{}, err
		}
		all := RoundPage{Items: items, Total: page.Total}
		for _, change := range page.Changes {
			if change.ID == "" {
				continue
			}
			all.Keys = append(all.Keys, change.ID)
			if change.Deleted {
				all.Dead = append(all.Dead, change.ID)
			}
		}
		if page.More {
			all.Next = end.String()
		}
		return all, nil
	}
}
