package main

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	maxTimings = 500_000
	maxDetails = 25 // broken things told one by one
)

// Kinds of calls that are timed.
const (
	kindRead   = "GET stock, prices"
	kindPlace  = "POST orders"
	kindCancel = "POST cancel"
	kindOrder  = "GET order"
)

// placed is an order that was acknowledged.
type placed struct {
	id        string
	invoice   string
	total     string // as answered
	expected  string // as added up by the lab
	status    string // last seen
	reason    string
	omsSync   string
	cancelled bool // its cancellation was accepted
}

// refusal counts the refusals of one code.
type refusal struct {
	status, count int
	code, example string
}

// journal keeps what happened. It is safe for concurrent use.
type journal struct {
	mu       sync.Mutex
	timings  map[string][]time.Duration
	orders   []*placed
	refusals map[string]*refusal
	details  []string
	nBroken  int
	stale    int
	items    int
	repeats  int // answers that made the channel try again
	late     time.Duration
}

func newJournal() *journal {
	return &journal{timings: map[string][]time.Duration{}, refusals: map[string]*refusal{}}
}

// broken notes something that must not happen.
func (j *journal) broken(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.nBroken++
	if len(j.details) < maxDetails {
		j.details = append(j.details, fmt.Sprintf(format, args...))
	}
}

// answered notes one answer of the platform; any 5xx and any call without an
// answer is broken, even if the next try works.
func (j *journal) answered(kind, method, path string, a answer, err error) {
	j.mu.Lock()
	if kind != "" && err == nil && len(j.timings[kind]) < maxTimings {
		j.timings[kind] = append(j.timings[kind], a.took)
	}
	again := err != nil || a.status == 429 || a.status >= 500
	if again {
		j.repeats++
	}
	j.mu.Unlock()
	switch {
	case err != nil && !isCancelled(err):
		j.broken("%s %.60s: %v", method, path, err)
	case a.status >= 500:
		j.broken("%s %.60s: %d %.200s", method, path, a.status, a.body)
	}
}

func (j *journal) read(stale bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.items++
	if stale {
		j.stale++
	}
}

func (j *journal) lag(d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.late = max(j.late, d)
}

func (j *journal) accept(p *placed) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.orders = append(j.orders, p)
}

func (j *journal) refuse(what string, a answer) {
	p := a.problem()
	code := cmp.Or(p.Code, "(no code)")
	j.mu.Lock()
	defer j.mu.Unlock()
	key := what + code
	if j.refusals[key] == nil {
		j.refusals[key] = &refusal{status: a.status, code: what + code, example: p.why()}
	}
	j.refusals[key].count++
}

// accepted lists the acknowledged orders.
func (j *journal) accepted() []*placed {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.orders)
}

// quantile of a kind's times; zero if there are none.
func (j *journal) quantile(kind string, q float64) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return quantile(j.timings[kind], q)
}

func (j *journal) count(kind string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.timings[kind])
}

// quantile is the nearest rank.
func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
