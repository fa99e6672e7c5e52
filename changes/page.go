package changes

import (
	"context"
	"fmt"
	"time"

	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/queries"
)

// Reason says why everything has to be read again.
type Reason string

// The reasons.
const (
	NoCursor        Reason = "NO_CURSOR"        // the follower has just begun
	CursorTooOld    Reason = "CURSOR_TOO_OLD"   // reading everything is less work than all the changes
	QuestionChanged Reason = "QUESTION_CHANGED" // the cursor was given for other kinds, SKUs or another partner
	PolicyChanged   Reason = "POLICY_CHANGED"   // the partner's policy, or a window of its discounts
	LogRestored     Reason = "LOG_RESTORED"     // the log ends before the cursor
)

// Page is a part of the changes.
type Page struct {
	Resync Reason         // not empty: the page has nothing, and everything has to be read again
	Stock  []string       // SKUs whose stock may have changed
	Prices []string       // SKUs whose price may have changed
	Values queries.Reader // has their values
	Next   Cursor         // where to go on
	More   bool           // there is more already
}

// Empty tells whether the page tells nothing.
func (p Page) Empty() bool { return p.Resync == "" && len(p.Stock)+len(p.Prices) == 0 }

// Faults of asking; all pass.
var (
	errBegins    = fmt.Errorf("changes: the log is not followed yet: %w", eventstore.ErrUnavailable)
	errBehind    = fmt.Errorf("changes: the read model is too far behind to begin from it: %w", eventstore.ErrUnavailable)
	errSaturated = fmt.Errorf("changes: too many are read from the log at once: %w", eventstore.ErrOverloaded)
)

// Page gives the changes behind the cursor; nil: there is none yet.
func (f *Feed) Page(ctx context.Context, q Question, since *Cursor) (Page, error) {
	now := f.config.Now()
	f.mu.Lock()
	begun := f.ring != nil
	f.mu.Unlock()
	if !begun {
		return Page{}, errBegins
	}
	anew, err := f.anew(ctx, q, since, now)
	if err != nil {
		return Page{}, err
	}
	if anew != "" {
		f.metrics.pages.WithLabelValues(fromResync).Inc()
		next, err := f.beginning(ctx, q, now)
		if anew == PolicyChanged && since.Policy != next.Policy {
			next.CheckAt = f.checkAt(now)
		}
		return Page{Resync: anew, Next: next}, err
	}
	c := newCollector(q, *since)
	if err := f.collect(ctx, c); err != nil {
		return Page{}, err
	}
	if err := f.complete(ctx, c); err != nil {
		return Page{}, err
	}
	next := *since
	next.Position = c.reached
	return Page{Stock: c.stock, Prices: c.prices, Values: told{f.config.Watermarks, c.values}, Next: next, More: c.more}, nil
}

// anew tells why the follower has to begin anew, if it has to.
func (f *Feed) anew(ctx context.Context, q Question, since *Cursor, now time.Time) (Reason, error) {
	if since == nil {
		return NoCursor, nil
	}
	f.mu.Lock()
	head, released := f.ring.head, f.ring.released.position
	f.mu.Unlock()
	switch {
	case since.Question != q.mark():
		return QuestionChanged, nil
	case !since.CheckAt.IsZero() && !now.Before(since.CheckAt), since.CheckAt.IsZero() && since.Policy != q.policyMark(now):
		return PolicyChanged, nil
	case since.Position < released-f.config.Horizon:
		return CursorTooOld, nil
	case since.Position > head:
		// Another instance is ahead of this one, or the log is not the one that it was.
		end, _, err := f.config.Log.End(ctx)
		if err != nil {
			return "", err
		}
		if since.Position > end {
			return LogRestored, nil
		}
	}
	return "", nil
}

// beginning is the cursor of whoever begins anew.
func (f *Feed) beginning(ctx context.Context, q Question, now time.Time) (Cursor, error) {
	next := Cursor{Question: q.mark(), Policy: q.policyMark(now)}
	changed, err := f.config.Log.Changed(ctx, partner.Aggregate.Stream(q.Partner.ID))
	if err != nil {
		return next, err
	}
	if now.Sub(changed) <= f.config.Policies || q.justOpenedOrClosed(now) {
		next.CheckAt = f.checkAt(now)
	}
	waiting, cancel := context.WithTimeout(ctx, f.config.Welcome)
	defer cancel()
	select {
	case <-f.ready:
	case <-waiting.Done():
	}
	position, err := f.settled(ctx, now)
	if err != nil {
		return next, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	next.Position = min(f.ring.confirmed.position, position)
	if next.Position < f.ring.released.position-f.config.Horizon {
		return next, errBehind
	}
	return next, nil
}

// checkAt is in whole seconds, as cursors have it.
func (f *Feed) checkAt(now time.Time) time.Time {
	return now.Add(f.config.Policies).Truncate(time.Second).Add(time.Second)
}

// collector gathers a page.
type collector struct {
	question Question
	only     map[string]bool // SKUs; nil: all
	stock    []string
	prices   []string
	seen     map[eventstore.Stream]int64 // what is told, and how new its value has to be
	values   map[eventstore.Stream]value
	reached  int64
	more     bool
	full     bool
}

func newCollector(q Question, since Cursor) *collector {
	c := &collector{question: q, seen: map[eventstore.Stream]int64{}, values: map[eventstore.Stream]value{}, reached: since.Position}
	if q.SKUs != nil {
		c.only = make(map[string]bool, len(q.SKUs))
		for _, sku := range q.SKUs {
			c.only[sku] = true
		}
	}
	return c
}

// take adds a change to the page; false: the page was full before it.
func (c *collector) take(change Change) bool {
	sku, inStock, inPrices := c.question.touched(change)
	if (inStock || inPrices) && (c.only == nil || c.only[sku]) {
		told := stock.Aggregate.Stream(sku)
		if inPrices {
			told = price.Aggregate.Stream(price.Key(c.question.Partner.Policy.PriceList, sku))
		}
		if _, twice := c.seen[told]; !twice {
			if len(c.stock)+len(c.prices) >= c.question.Limit {
				c.full = true
				return false
			}
			c.seen[told] = 0
			if inStock {
				c.stock = append(c.stock, sku)
			} else {
				c.prices = append(c.prices, sku)
				if c.question.Partner.Policy.BySegment() {
					c.seen[product.Aggregate.Stream(sku)] = 0
				}
			}
		}
		c.seen[change.Stream] = max(c.seen[change.Stream], change.Position)
	}
	c.reached = change.Position
	return true
}

// collect takes the changes from the ring, or from the log what is older.
func (f *Feed) collect(ctx context.Context, c *collector) error {
	f.mu.Lock()
	to := min(f.ring.floor, f.ring.released.position)
	f.mu.Unlock()
	if c.reached < to {
		return f.scan(ctx, c, to)
	}
	f.metrics.pages.WithLabelValues(fromRing).Inc()
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.reached < f.ring.floor { // it moved on meanwhile
		c.more = true
		return nil
	}
	for number := f.ring.after(c.reached); number < f.ring.released.number; number++ {
		if !c.take(f.ring.at(number)) {
			c.more = true
			break
		}
	}
	if !c.full {
		c.reached = max(c.reached, f.ring.released.position)
	}
	return nil
}

// scan takes changes from the log, up to a position.
func (f *Feed) scan(ctx context.Context, c *collector, to int64) error {
	select {
	case f.scans <- struct{}{}:
	default:
		return errSaturated
	}
	defer func() { <-f.scans }()
	f.metrics.pages.WithLabelValues(fromLog).Inc()
	part, err := f.config.Log.Read(ctx, c.reached, to, f.config.Scan)
	if err != nil {
		return err
	}
	c.more = true
	for _, change := range part.Changes {
		if !c.take(change) {
			return nil
		}
	}
	c.reached = to
	if part.More {
		c.reached = part.Reached
	}
	return nil
}

// complete gives each SKU of the page its value.
func (f *Feed) complete(ctx context.Context, c *collector) error {
	var lacking []need
	f.mu.Lock()
	for stream, least := range c.seen {
		v, known, last := f.ring.find(stream, least)
		if known {
			c.values[stream] = v
		} else {
			// What the ring knows of it may have been told already.
			lacking = append(lacking, need{stream: stream, least: max(least, last)})
		}
	}
	f.mu.Unlock()
	if len(lacking) == 0 {
		return nil
	}
	found, err := read(ctx, f.config.Reader, lacking)
	for stream, v := range found {
		c.values[stream] = v
	}
	return err
}
