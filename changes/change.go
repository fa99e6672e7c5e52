// Package changes tells partners what changed, so that they need not ask for everything again and again.
//
//	event log ──► tail ──► ring of changes ──► confirmed against the read model ──► released ──► pages
//	    │                                        └─ late: read from the states         ▲
//	    └──────────── for cursors that are older than the ring ───────────────────────┘
//
// Position order is commit order, so a cursor is a position: whoever asks for what is behind it misses
// nothing, whichever instance answers. Each instance reads the log once, whatever the number of followers, and keeps
// which streams changed where (the ring) with the value of each.
//
// # Values
//
// A page must not carry a value that is older than the change that it tells. A change is released when the
// read model has a value at its position or a newer one. One that the read model does not get in time is
// read from the states, which puts it into the read model too: else a single record that can't be
// projected, or a Kafka that is away, would hold up all followers.
//
// A SKU that changed several times within a page is told once. It may be told again on the next page
// with the same value; the order of pages is the order of values, so applying each as it comes is right.
//
// # Beginning anew
//
// A follower is told to read everything again (Resync) when its cursor can't lead to a right copy: it has none, it
// is too old, it belongs to another question, or the partner's policy changed, by which every value may be
// another one. The cursor that comes with it lies far enough back that whatever the copy is read from has all up to
// there: what is read too early is told again. That is where the log was some seconds ago, at an instance of any
// age: one that was not there yet asks the log, and has looked at what is recent before it answers.
//
// Instances keep policies for a minute, and their clocks differ. So after a change of policy a copy may have been read by
// the old one. A cursor that was given within that time is not settled: it leads to one more Resync when
// the time is over.
package changes

import (
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/eventstore"
)

// Change is an event, reduced to whose state it changed.
type Change struct {
	Position int64
	Stream   eventstore.Stream
}

// Concerns tells whether events of the stream may change what partners see.
func Concerns(stream eventstore.Stream) bool {
	switch stream.Category {
	case stock.Aggregate.Name, price.Aggregate.Name, product.Aggregate.Name:
		return true
	}
	return false
}

// Slice is a part of the log.
type Slice struct {
	Changes []Change // those that concern partners, in order
	Reached int64    // every event up to here was looked at
	More    bool     // there are events behind it
}

// Kinds of values that are followed.
type Kinds struct{ Stock, Prices bool }
