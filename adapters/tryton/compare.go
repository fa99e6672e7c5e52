package tryton

import (
	"context"
	"errors"
	"fmt"
	"time"

	"andes/polling"
)

// comparing is a feed that, beside what changed, goes through all there is.
//
//	poll: changes … changes, one page of the round ──► round over: what Andes has and Tryton has not
//
// A round goes on with each poll, a page at a time, so that it takes little of Tryton's time; one that is
// urgent is gone through at once. It is kept in memory: after a start one begins.
//
// A feed without a cursor is not read from its beginning, which may be years ago. The cursor is put where the
// feed ends, then a round reads what there is; only once that is over the cursor is kept. If it is broken off
// the next poll goes on with it, and with what changed since that end.
type comparing struct {
	changes polling.Source
	round   *round
}

// Open implements polling.Source.
func (c comparing) Open(cursor string) (polling.Pass, error) {
	first := cursor == ""
	if first && c.round.going() {
		cursor = c.round.from
	}
	if cursor == "" {
		c.round.restart()
	}
	pass, err := c.changes.Open(cursor)
	return &comparingPass{Pass: pass, round: c.round, first: first}, err
}

type comparingPass struct {
	polling.Pass // over the changes
	round        *round
	changed      bool // the changes were read to their end
	comparing    bool // the last page was one of the round
	first        bool // there was no cursor
}

// Cursor implements polling.Pass.
func (p *comparingPass) Cursor() string {
	if p.first && (!p.comparing || p.round.going()) {
		return ""
	}
	return p.Pass.Cursor()
}

// Next implements polling.Pass.
func (p *comparingPass) Next(ctx context.Context) ([]polling.Item, bool, error) {
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

// Settle implements polling.Pass. A refused record of the round has no place in the feed.
func (p *comparingPass) Settle(refused []polling.Refused) []polling.Refused {
	if p.comparing {
		return refused
	}
	return p.Pass.Settle(refused)
}

// round is one way through everything.
type round struct {
	every time.Duration
	now   func() time.Time
	// page gives the records after an id, what they are about, and the last id; 0 at the end.
	page func(ctx context.Context, after int64) (items []polling.Item, keys []string, last int64, err error)
	// gone gives what was not seen although Andes has it.
	gone func(ctx context.Context, seen map[string]struct{}) ([]polling.Item, error)
	// sign tells by another value that all of it may have changed; nil: nothing does.
	sign func(ctx context.Context) (string, error)

	begun  time.Time
	ended  time.Time
	after  int64
	seen   map[string]struct{}
	last   string // sign
	urgent bool
	from   string // cursor of the changes since the first round began; "": it is not the first
}

// maxSeen bounds what a round remembers, and so how much it can compare.
const maxSeen = 5_000_000

var errTooMuch = errors.New("tryton: there is more than a comparison can hold")

// due tells whether there is a page to read. A sign is asked for at every poll.
func (r *round) due() bool {
	return r.sign != nil || r.going() || r.now().Sub(r.ended) >= r.every
}

func (r *round) going() bool { return r.seen != nil }

// restart has a round begin now that is urgent.
func (r *round) restart() {
	*r = round{every: r.every, now: r.now, page: r.page, gone: r.gone, sign: r.sign, urgent: true}
}

func (r *round) next(ctx context.Context) ([]polling.Item, bool, error) {
	if err := r.begin(ctx); err != nil || !r.going() {
		return nil, false, err
	}
	items, keys, last, err := r.page(ctx, r.after)
	if err != nil {
		return nil, false, fmt.Errorf("compare: %w", err)
	}
	if len(r.seen)+len(keys) > maxSeen {
		r.seen = nil
		return nil, false, errTooMuch
	}
	for _, key := range keys {
		r.seen[key] = struct{}{}
	}
	if last != 0 {
		r.after = last
		return items, r.urgent, nil
	}
	gone, err := r.gone(ctx, r.seen)
	if err == nil || errors.Is(err, errTooManyGone) { // another look would see the same
		r.ended, r.seen, r.urgent, r.from = r.begun, nil, false, ""
	}
	if err != nil {
		return nil, false, fmt.Errorf("compare: %w", err)
	}
	return append(items, gone...), false, nil
}

// begin begins a round if it is time for one, or the sign says so.
func (r *round) begin(ctx context.Context) error {
	sign := r.last
	if r.sign != nil {
		var err error
		if sign, err = r.sign(ctx); err != nil {
			return fmt.Errorf("compare: %w", err)
		}
	}
	changed := r.last != "" && sign != r.last
	r.last = sign
	if changed || !r.going() && r.now().Sub(r.ended) >= r.every {
		r.urgent = r.urgent || changed
		r.begun, r.after, r.seen = r.now(), 0, map[string]struct{}{}
	}
	return nil
}
