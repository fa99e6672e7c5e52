// Package redis keeps the read model and the quotas in Redis or Valkey, single or clustered. Nothing outside this
// package and its tests knows rueidis.
//
//	state feed ──► ReadModel.Project ──► one guarded script per batch ──► Redis
//	rebuild ─────► ReadModel.ApplyTo ──► SET NX, the script for the rest ─┤
//	queries ─────► Reader ──► at hand? ──no──► MGET, decode           ◄──┘
//	                             ▲                                       │
//	                             └──── changed keys, as pushed ◄─────────┘
//
// # Keys
//
//	<prefix>{<bucket>}<generation>:<model>:<key>     andes:{17}1:stock:85123A
//	<prefix>generation                               "2 1": 2 serves, 1 is kept up to date too
//	<prefix>quota:<group>:<partner>                  a partner's quota: see quota.lua
//
// The bucket is made from the rest of the key. In a cluster it alone decides the slot, so a batch of any
// size meets at most 64 slots instead of one for each key, and braces in a SKU steer nothing. The
// buckets' slots are spread evenly over all slots.
//
// # Values
//
// "<position> <compact value>", or the position alone for what is known not to be there. The script
// overwrites a key only by a higher position, so replays, rebalances and two writers at once are
// harmless. What is not there keeps its position as well: an older record can't revive it.
//
// # At hand
//
// What was read is kept in the process, decoded, until Redis says that it changed: see near.go. Reads go by a driver's
// client of their own, with one connection to each node, whose reads Redis tracks; writes and quotas go by another.
//
// # Failures
//
// Every error of a write is transient, READONLY, LOADING, MISCONF and OOM among them: the feed does not
// commit and comes again. A write that was done in part is harmless to repeat.
package redis
