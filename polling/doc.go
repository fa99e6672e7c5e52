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
// A record that its command refuses goes to Rejects and does not stop the others. A fault of our own side
// stops the poll, the cursor stays, and the next poll goes on from there.
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

// Lease makes sure that a feed is polled by one process at a time.
type Lease interface {
	// Hold runs work once the lease is held; the context given to it ends when the lease is lost.
	Hold(ctx context.Context, name string, work func(ctx context.Context) error) error
}
