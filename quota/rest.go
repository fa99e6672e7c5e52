package quota

import "sync/atomic"

// rest leaves the store alone for a while after failures in a row, so that one that hangs costs hardly
// any request its wait. The failures have to last: many requests may be hit by one short stall of the
// machine, and the store does not fail by that.
//
//	working ──failures in a row──► resting ──pause over──► one question probes ──► working, or resting again
type rest struct {
	failures int64
	lasting  int64 // microseconds from the first of them to the last
	pause    int64 // microseconds

	failed atomic.Int64 // in a row
	since  atomic.Int64 // microseconds: the first of them
	until  atomic.Int64 // microseconds; 0: working
}

// admit tells whether the store may be asked. Whoever may while it rests is the probe: its pause is
// begun anew, so that no second one is sent before it is over.
func (r *rest) admit(now int64) bool {
	until := r.until.Load()
	return until == 0 || now >= until && r.until.CompareAndSwap(until, now+r.pause)
}

// shown is for how many pauses a rest is shown that no question ended: an instance that nobody asks any more
// does not find out that the store works again.
const shown = 10

// resting tells whether the store is left alone.
func (r *rest) resting(now int64) bool {
	until := r.until.Load()
	return until != 0 && now < until+shown*r.pause
}

// worked tells whether the store was resting before.
func (r *rest) worked() (ended bool) {
	r.failed.Store(0)
	return r.until.Swap(0) != 0
}

// broke tells whether the store rests from now on.
func (r *rest) broke(now int64) (begun bool) {
	failed := r.failed.Add(1)
	if failed == 1 {
		r.since.Store(now)
	}
	return failed >= r.failures && now-r.since.Load() >= r.lasting && r.until.CompareAndSwap(0, now+r.pause)
}
