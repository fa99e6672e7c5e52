// Package polling keeps Andes in step with a legacy system that can only be asked. It is the part that
// every adapter shares: which records to ask for, what counts as progress, what happens to a record that
// can't be used. The adapters bring the calls; the records' meaning is a command.
//
//	Lease ──► Poller.Run ──► every interval: Poll
//	            Source.Open(kept cursor) ──► Pass
//	            page after page:  Pass.Next ──► commands ──► Pass.Settle ──► Rejects
//	                              source.Advance{cursor, and at the feed's end SyncedAt}
//
// A poll never misses a change and never takes a broken page for an empty one. It may see a record twice:
// the commands tell by the record's version. A page is applied completely before the cursor moves past it,
// so a crash between any two steps only costs another reading.
//
// The interval adapts: a source that answers slowly is asked less often, within a bound, and one that can't
// be asked at all, because a breaker is open, is left alone.
//
// A record that its command refuses goes to the Ledger and does not stop the others; what it was to replace
// is doubted from then on. A fault of our own side stops the poll, the cursor stays, and the next poll goes on
// from there.
//
// What no cursor can tell, Comparing finds: it goes through all there is, on a schedule and a page at a time.
// A legacy system that tells of its changes by itself hands them to an Intake, which applies them in the same
// way; polling goes on beside it, so a change that was not told is only late.
package polling

import (
	"context"
	"errors"

	"andes/eventstore"
)

// ErrBroken marks a page that is not what the feed's contract says.
var ErrBroken = errors.New("the page is broken")

// Item is one record of a feed, made into what it means.
type Item struct {
	ID      string
	Version int64
	Command eventstore.Command
	Meta    eventstore.Metadata
	Fault   *eventstore.Refusal // set: the record can't be made a command

	// Doubt tells, of a record that is refused, that what Andes has in its place is no longer known to be
	// right; nil: that can't be told.
	Doubt func(code eventstore.Code) eventstore.Command
}

// Refused is an item that was not applied.
type Refused struct {
	Item    Item
	Refusal *eventstore.Refusal
}

// Source opens passes over one feed.
type Source interface {
	// Open begins a pass at a kept cursor; "" is the feed's beginning.
	Open(cursor string) (Pass, error)
}

// Pass is one reading of a feed from a cursor to its end.
type Pass interface {
	// Next reads a page. more is false at the end of the feed.
	Next(ctx context.Context) (items []Item, more bool, err error)
	// Settle is told which items of the page were refused. It gives those that are refused for good; the
	// others it will read again.
	Settle(refused []Refused) (final []Refused)
	// Cursor is where a later pass goes on, now that the page is settled.
	Cursor() string
}

// Reject is a record that will not be applied.
type Reject struct {
	Feed    string
	ID      string
	Version int64
	Code    eventstore.Code
	Detail  string
}

// Ledger keeps the records that can't be used until the source has them right. A record is there once, with
// its last fault.
type Ledger interface {
	Reject(ctx context.Context, r Reject) error
	// Open gives the versions of a feed's records that are in the ledger, of so many at most.
	Open(ctx context.Context, feed string, limit int) (map[string]int64, error)
	// Mend strikes records out that were applied.
	Mend(ctx context.Context, feed string, ids []string) error
	// Again gives the records that an operator wants to be read once more, and forgets that.
	Again(ctx context.Context, feed string, limit int) ([]string, error)
}

// Picker is a source that can be asked for single records.
type Picker interface {
	// Pick reads the records that are there of those that are named.
	Pick(ctx context.Context, ids []string) ([]Item, error)
}

// Lease makes sure that a feed is polled by one process at a time.
type Lease interface {
	// Hold runs work once the lease is held; the context given to it ends when the lease is lost.
	Hold(ctx context.Context, name string, work func(ctx context.Context) error) error
}
