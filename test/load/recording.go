package load

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
)

// maxShots bounds a recording: an hour at 2,000 a second, and some.
const maxShots = 10_000_000

// Recording keeps the shots of some streams.
type Recording struct {
	Began time.Time

	mu     sync.Mutex
	shots  map[string][]Shot
	count  int
	beyond int // not kept: the recording was full
}

// NewRecording begins one.
func NewRecording(began time.Time) *Recording {
	return &Recording{Began: began, shots: map[string][]Shot{}}
}

// Add keeps a shot of a stream.
func (r *Recording) Add(stream string, shot Shot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count >= maxShots {
		r.beyond++
		return
	}
	r.count++
	r.shots[stream] = append(r.shots[stream], shot)
}

// Beyond is how many shots were not kept because the recording was full.
func (r *Recording) Beyond() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.beyond
}

// Shots gives those of a stream that were due in [from, to), by due time. Without a name: of all streams.
func (r *Recording) Shots(stream string, from, to time.Duration) []Shot {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Shot
	for name, shots := range r.shots {
		if stream != "" && name != stream {
			continue
		}
		for _, shot := range shots {
			if shot.Due >= from && shot.Due < to {
				found = append(found, shot)
			}
		}
	}
	slices.SortFunc(found, func(a, b Shot) int { return cmp.Compare(a.Due, b.Due) })
	return found
}

// Last gives the shots of all streams that were recorded last, at most so many of each: for live progress.
func (r *Recording) Last(most int) []Shot {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Shot
	for _, shots := range r.shots {
		found = append(found, shots[max(0, len(shots)-most):]...)
	}
	return found
}

// Summary of some shots. Latencies are of all of them, those that failed included: that is how long whoever
// asked was kept.
type Summary struct {
	Sent     int             `json:"sent"`
	Outcomes map[Outcome]int `json:"outcomes"`
	Stale    int             `json:"stale"` // answers with a value that was marked so
	P50      time.Duration   `json:"p50Ns"`
	P95      time.Duration   `json:"p95Ns"`
	P99      time.Duration   `json:"p99Ns"`
	Max      time.Duration   `json:"maxNs"`
	LateP50  time.Duration   `json:"lateP50Ns"` // the generator's own part of the above
	LateP99  time.Duration   `json:"lateP99Ns"`
}

// Summarise sums shots up.
func Summarise(shots []Shot) Summary {
	s := Summary{Sent: len(shots), Outcomes: map[Outcome]int{}}
	took, late := make([]time.Duration, len(shots)), make([]time.Duration, len(shots))
	for i, shot := range shots {
		s.Outcomes[shot.Outcome]++
		if shot.Stale {
			s.Stale++
		}
		took[i], late[i] = shot.Took, shot.Late
	}
	slices.Sort(took)
	slices.Sort(late)
	s.P50, s.P95, s.P99, s.Max = Quantile(took, 0.50), Quantile(took, 0.95), Quantile(took, 0.99), Quantile(took, 1)
	s.LateP50, s.LateP99 = Quantile(late, 0.50), Quantile(late, 0.99)
	return s
}

// Errors is how many reads were errors.
func (s Summary) Errors() int {
	n := 0
	for outcome, count := range s.Outcomes {
		if outcome.Err() {
			n += count
		}
	}
	return n
}

// Share is a part of what was sent, from 0 to 1. Of nothing it is 0.
func (s Summary) Share(part int) float64 {
	if s.Sent == 0 {
		return 0
	}
	return float64(part) / float64(s.Sent)
}

// Quantile reads one off sorted values: the smallest that is not below the given share of them (nearest rank).
func Quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(share * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Bucket of a histogram: how many took at most UpTo, and more than the bucket before.
type Bucket struct {
	UpTo  time.Duration `json:"upToNs"`
	Count int           `json:"count"`
}

// Bounds of histograms: 24 buckets for each power of ten, from 10 µs to 100 s.
const (
	perDecade   = 24
	firstDecade = 4 // 10^4 ns
	lastDecade  = 11
)

// Histogram counts latencies in buckets whose bounds grow by a tenth. Empty ones are left out.
func Histogram(shots []Shot) []Bucket {
	counts := make([]int, perDecade*(lastDecade-firstDecade)+1)
	for _, shot := range shots {
		at := int(math.Ceil((math.Log10(float64(max(shot.Took, 1))) - firstDecade) * perDecade))
		counts[min(max(at, 0), len(counts)-1)]++
	}
	var buckets []Bucket
	for i, count := range counts {
		if count > 0 {
			upTo := math.Pow(10, firstDecade+float64(i)/perDecade)
			buckets = append(buckets, Bucket{UpTo: time.Duration(upTo), Count: count})
		}
	}
	return buckets
}
