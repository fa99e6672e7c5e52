package queries

import (
	"sync"
	"time"
)

// rest leaves a copy alone for a while after failures in a row, so that one that hangs does not cost
// every read its timeout.
//
//	working ──failures in a row──► resting ──pause over──► one read probes ──► working, or resting again
type rest struct {
	failures int           // in a row, before it rests
	pause    time.Duration // of a rest

	mu      sync.Mutex
	failed  int
	until   time.Time // zero: working
	probing bool
}

// outcome of a read that was admitted.
type outcome int

const (
	worked outcome = iota
	failed
	unknown // the caller gave up
)

// admit tells whether a read may ask the copy. Whoever was admitted has to report.
func (r *rest) admit(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until.IsZero() {
		return true
	}
	if r.probing || now.Before(r.until) {
		return false
	}
	r.probing = true
	return true
}

// resting tells whether the copy is left alone.
func (r *rest) resting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.until.IsZero()
}

// report tells what became of an admitted read, and gives whether the copy changed between working and
// resting by it.
func (r *rest) report(now time.Time, what outcome) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probing = false
	switch what {
	case worked:
		changed = !r.until.IsZero()
		r.failed, r.until = 0, time.Time{}
	case failed:
		r.failed++
		if r.failed >= r.failures {
			changed = r.until.IsZero()
			r.until = now.Add(r.pause)
		}
	case unknown:
	}
	return changed
}
