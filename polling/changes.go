package polling

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Since says from where on changes are asked for. The zero value is the beginning.
type Since struct {
	UpdatedAt time.Time
	ID        string // set: only what sorts after (UpdatedAt, ID); else from UpdatedAt on
}

// String is the text that parseSince reads.
func (s Since) String() string {
	if s.UpdatedAt.IsZero() {
		return ""
	}
	return s.UpdatedAt.UTC().Format(time.RFC3339Nano) + " " + s.ID
}

func parseSince(text string) (Since, error) {
	if text == "" {
		return Since{}, nil
	}
	at, id, _ := strings.Cut(text, " ")
	updatedAt, err := time.Parse(time.RFC3339Nano, at)
	return Since{UpdatedAt: updatedAt, ID: id}, err
}

// beyond tells whether a page that ends here made progress from s. How the source sorts ids of one moment
// is its own affair, so another id counts.
func (at Since) beyond(s Since) bool {
	return at.ID != "" && (at.UpdatedAt.After(s.UpdatedAt) || at.UpdatedAt.Equal(s.UpdatedAt) && at.ID != s.ID)
}

// Change is a record of a change feed. One without UpdatedAt has no place in the feed's order.
type Change struct {
	UpdatedAt time.Time
	ID        string // as the feed sorts it
	Item      Item
	Deleted   bool // the source says so
}

// ChangePage is one answer of a change feed.
type ChangePage struct {
	Changes []Change
	More    bool
	Now     time.Time // the source's clock; zero: it does not say
	Total   int       // live records of the whole feed; 0: it does not say
}

// read gives the page's items and where it ends.
func (page ChangePage) read(from Since) ([]Item, Since, error) {
	items := make([]Item, 0, len(page.Changes))
	var at Since // the last record with a place in the feed's order
	for _, change := range page.Changes {
		items = append(items, change.Item)
		if change.UpdatedAt.IsZero() || change.ID == "" {
			continue
		}
		if change.UpdatedAt.Before(at.UpdatedAt) {
			return nil, from, fmt.Errorf("%w: %q of %s comes after %q of %s", ErrBroken,
				change.ID, change.UpdatedAt.Format(time.RFC3339Nano), at.ID, at.UpdatedAt.Format(time.RFC3339Nano))
		}
		at = Since{UpdatedAt: change.UpdatedAt, ID: change.ID}
	}
	if page.More && !at.beyond(from) {
		return nil, from, fmt.Errorf("%w: there is said to be more, but nothing beyond %q of %s came", ErrBroken,
			from.ID, from.UpdatedAt.Format(time.RFC3339Nano))
	}
	if at.ID == "" {
		at = from
	}
	return items, at, nil
}

// Changes is a feed that is sorted by (updatedAt, id), where a changed record moves to the end.
//
// Records may share an updatedAt, so the id breaks ties. A record may also become visible late, below
// others that were read before it: a transaction stamps its rows before it commits. So each pass begins
// Overlap before the last record that was seen, by the source's own stamps. Only when that record has been
// the last one for longer than Overlap, and the window was read once more after that, nothing can appear
// below it any more, and passes begin right after it: a feed where nothing happens costs one empty page.
//
// Some records become visible later than that: a long batch job, a row put right by hand. Every LookbackEvery
// a pass therefore begins Lookback before the last record, in the same way. What is later still, or was
// changed without a new stamp, only a full comparison finds.
//
// A clock that was ahead and is put right, or one row with a stamp of the future, leaves the last record
// above everything that changes from now on. So where the source tells its time, no pass begins later than
// Overlap before that.
type Changes struct {
	Fetch         func(ctx context.Context, since Since) (ChangePage, error)
	Overlap       time.Duration // how late a record usually becomes visible
	Lookback      time.Duration // how late it may become visible at worst
	LookbackEvery time.Duration
	Now           func() time.Time
}

// changeCursor is the kept form of a place in the feed.
type changeCursor struct {
	UpdatedAt time.Time `json:"updatedAt"`
	ID        string    `json:"id"`
	Seen      time.Time `json:"seen"` // when a pass first ended here, by our clock
	Settled   bool      `json:"settled,omitempty"`
	Looked    time.Time `json:"looked"` // when a pass last looked back, or read all
}

// Open implements Source.
func (c Changes) Open(cursor string) (Pass, error) {
	pass := &changePass{feed: c, begun: c.Now().UTC(), looks: true}
	if cursor == "" {
		return pass, nil
	}
	if err := json.Unmarshal([]byte(cursor), &pass.last); err != nil {
		return nil, fmt.Errorf("cursor of a change feed: %w", err)
	}
	last := pass.last
	pass.looks = c.looksBack(last, pass.begun)
	switch {
	case last.UpdatedAt.IsZero():
	case pass.looks:
		pass.next = Since{UpdatedAt: last.UpdatedAt.Add(-c.Lookback)}
	case last.Settled:
		pass.next = Since{UpdatedAt: last.UpdatedAt, ID: last.ID}
	default:
		pass.next = Since{UpdatedAt: last.UpdatedAt.Add(-c.Overlap)}
	}
	return pass, nil
}

// looksBack tells whether it is time to look back, unless that was done when the last record had been the
// last one for so long already that nothing more can appear.
func (c Changes) looksBack(last changeCursor, begun time.Time) bool {
	return c.Lookback > 0 && begun.Sub(last.Looked) >= c.LookbackEvery && last.Looked.Sub(last.Seen) <= c.Lookback
}

type changePass struct {
	feed  Changes
	begun time.Time
	looks bool         // it begins further back than Overlap
	last  changeCursor // the last record that was seen, by an earlier pass or this one
	next  Since
	read  bool // a page
	end   bool
}

// fetch reads the next page. The first one tells the source's time.
func (p *changePass) fetch(ctx context.Context) (ChangePage, error) {
	page, err := p.feed.Fetch(ctx, p.next)
	if err != nil || p.read {
		return page, err
	}
	p.read = true
	latest := page.Now.Add(-p.feed.Overlap)
	if page.Now.IsZero() || !latest.Before(p.next.UpdatedAt) {
		return page, nil
	}
	p.next = Since{UpdatedAt: latest}
	return p.feed.Fetch(ctx, p.next)
}

// Next implements Pass.
func (p *changePass) Next(ctx context.Context) ([]Item, bool, error) {
	page, err := p.fetch(ctx)
	if err != nil {
		return nil, false, err
	}
	items, at, err := page.read(p.next)
	if err != nil {
		return nil, false, err
	}
	p.next, p.end = at, !page.More
	return items, page.More, nil
}

// Settle implements Pass: a refused record is refused for good, until it changes.
func (p *changePass) Settle(refused []Refused) []Refused { return refused }

// Cursor implements Pass.
func (p *changePass) Cursor() string {
	cursor := p.last
	switch {
	case p.next.ID == "" || p.next.UpdatedAt.Equal(p.last.UpdatedAt) && p.next.ID == p.last.ID:
		// The pass ended where an earlier one did.
		cursor.Settled = cursor.Settled || p.end && p.begun.Sub(cursor.Seen) > p.feed.Overlap
	default:
		cursor = changeCursor{UpdatedAt: p.next.UpdatedAt.UTC(), ID: p.next.ID, Seen: p.begun, Looked: p.last.Looked}
	}
	if p.looks && p.end {
		cursor.Looked = p.begun
	}
	if cursor.UpdatedAt.IsZero() {
		return ""
	}
	text, err := json.Marshal(cursor)
	if err != nil {
		panic(err) // times within RFC 3339 and text: json can't fail
	}
	return string(text)
}
