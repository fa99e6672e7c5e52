// Package quota decides how much a partner may ask for, in two levels.
//
//	request ─► level 1, in memory of this instance: the endpoint's limit, then the client's equal cap
//	        ─► level 2, the partner's quota by tier and group, shared by all instances:
//	             lease left? ── yes ─► allowed, without asking anybody
//	             known to be used up? ── yes ─► refused, without asking anybody
//	             shared store ──► allowed or refused there
//	                └─ silent or failing ─► the same quota, counted by this instance alone
//
// # Algorithm
//
// The Generic Cell Rate Algorithm (ITU-T I.371, annex A) in its form of a continuous-state leaky bucket: a level
// that drains at the quota's rate, and a request that fits under the burst raises it. The level is counted
// in millionths of a request and the time in microseconds, so that a rate per second drains it by whole numbers
// and nothing is ever rounded. Unlike a window it has no boundary at which twice the quota passes: in any
// stretch of w seconds at most burst + rate·w pass. The burst is one second of quota by default.
//
// A level in requests, instead of the equivalent time of the next one, keeps its meaning when a tier or a
// limit changes while it is used.
//
// # Leases
//
// An instance that asks often takes some requests in advance, for a short time, so that most of a busy
// partner's requests cost no round trip. The store lends only from the upper half of the burst: whoever is
// near the quota is counted one by one, exactly, and a lease that goes unused refuses nobody.
//
// # Failure
//
// The store is waited for a few milliseconds. Without an answer a request is let through under this instance's
// own count, unless its quota was being refused just before; an answer that comes later is still reckoned with. After failures in a row it is left alone for a while, and
// each instance counts the quota by itself: n instances let through up to n times the quota, never an unlimited
// amount, and level 1 holds as ever.
package quota
