// Package eventstore is the write side's kernel: events declared once, aggregates that fold them, and
// the batched unit of work that decides many commands in one transaction. It knows no I/O and imports
// only the standard library; adapters/postgres makes it durable, Memory keeps it in a map.
//
// # The path of a command
//
//	Request ──► Executor ──► Batch ─┬─ Needs    streams the commands name
//	                                ├─ Supply   their states, loaded under the shard's lock
//	                                ├─ Decide   pure, in arrival order, each sees those before it
//	                                └─ Writes   events, states, answers, deadlines: one commit
//
// Decide is run again from the start when a command asks for a stream that was not loaded yet, so it
// must be pure: the clock, the ids and every state come from the Unit.
//
// # Words
//
// A stream is one aggregate's history, named category/key. Its version counts its events from 1. A
// position orders all events of a shard; position order is commit order and has no holes that could
// hide an event, so a reader needs nothing but "position > checkpoint". A state is the fold of a
// stream, written beside its events in the same transaction: it is the snapshot that the next command
// starts from, the fallback of the queries and the source of the compacted topics.
package eventstore
