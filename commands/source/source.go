// Package source is the watermark of a feed of a legacy system: until when Andes is known to be in step
// with it, and the cursor from which the next poll goes on. Both change in one event, so a crash can't
// part them.
package source

import (
	"time"

	"andes/eventstore"
)

// The feeds.
const (
	ERPProducts  = "erp.products"
	ERPPrices    = "erp.prices"
	WMSStock     = "wms.stock"
	WMSShipments = "wms.shipments"
)

// Feeds lists them.
var Feeds = []string{ERPProducts, ERPPrices, WMSStock, WMSShipments}

// State is a feed's watermark.
type State struct {
	SyncedAt time.Time `json:"syncedAt"` // everything that the source had then is known
	Cursor   string    `json:"cursor"`   // of the source's own making; opaque here
}

// Aggregate is one stream per feed.
var Aggregate = eventstore.NewAggregate(eventstore.Category[State]{
	Name:      "source",
	Published: true,
	Events:    []eventstore.Definition[State]{synced},
})

// Synced says that a poll was applied completely.
type Synced struct {
	SyncedAt time.Time `json:"syncedAt"`
	Cursor   string    `json:"cursor"`
}

var synced = eventstore.Define("source.synced", func(s *State, e Synced) {
	s.Cursor = e.Cursor
	if e.SyncedAt.After(s.SyncedAt) {
		s.SyncedAt = e.SyncedAt
	}
}, eventstore.Doc("A poll of a legacy system's feed was applied completely."))

// Advance records a completed poll.
type Advance struct {
	Feed     string
	SyncedAt time.Time // zero: the feed is not caught up yet, only the cursor moves
	Cursor   string
}

// Needs implements eventstore.Command.
func (c Advance) Needs() []eventstore.Stream { return []eventstore.Stream{Aggregate.Stream(c.Feed)} }

// Decide implements eventstore.Command.
func (c Advance) Decide(u *eventstore.Unit) (any, error) {
	known, _ := Aggregate.Load(u, c.Feed)
	if known.Cursor == c.Cursor && !c.SyncedAt.After(known.SyncedAt) {
		return nil, nil
	}
	Aggregate.Append(u, c.Feed, Synced{SyncedAt: c.SyncedAt, Cursor: c.Cursor})
	return nil, nil
}

// Stamp is since when something that a legacy system says is known: by its clock, which may be ahead, but
// never later than it was heard of. Else a stamp of the future would make it look recent until then.
func Stamp(at, now time.Time) time.Time {
	if at.After(now) {
		return now
	}
	return at
}
