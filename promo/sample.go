package promo

import (
	"maps"
	"slices"
	"time"
)

// SlotLength is for how long a sample counts.
const SlotLength = 10 * time.Second

// maxNamed bounds how many partners a sample names.
const maxNamed = 20

// Sample is what one process did in a slot, or several of them together. Its maps are by what their comments say.
type Sample struct {
	Seconds  float64          `json:"seconds"`            // that it is about; more than a slot has, if the one before could not be kept
	Reads    Latency          `json:"reads"`              // of answers about stock and prices
	Answers  map[string]int64 `json:"answers,omitempty"`  // about stock and prices, by status
	Orders   map[string]int64 `json:"orders,omitempty"`   // that were placed, by status
	Cache    map[string]int64 `json:"cache,omitempty"`    // answers by how they were found in the microcache
	Legacy   map[string]int64 `json:"legacy,omitempty"`   // calls by system
	Refused  int64            `json:"refused,omitempty"`  // requests, by a quota
	Partners map[string]int64 `json:"partners,omitempty"` // requests refused by a quota, by partner; the most refused ones

	// What is not counted but measured, for all processes, by those that do.
	Ages   map[string]float64 `json:"ages,omitempty"`   // seconds since a feed was known to be in step, by feed
	Events map[string]int64   `json:"events,omitempty"` // of orders since the promo began, by type
}

// Latency is a histogram. Counts has one more than Bounds: what is above the last one.
type Latency struct {
	Bounds []float64 `json:"bounds,omitempty"` // seconds, upper ends
	Counts []int64   `json:"counts,omitempty"`
}

// Since gives what was counted after an earlier sample of the same process.
func (s Sample) Since(before Sample) Sample {
	s.Reads = s.Reads.minus(before.Reads)
	s.Answers = minus(s.Answers, before.Answers)
	s.Orders = minus(s.Orders, before.Orders)
	s.Cache = minus(s.Cache, before.Cache)
	s.Legacy = minus(s.Legacy, before.Legacy)
	s.Refused = max(0, s.Refused-before.Refused)
	s.Partners = top(minus(s.Partners, before.Partners))
	return s
}

// Plus gives both together: counts are added; of what is measured the higher value counts, as all processes
// measure the same.
func (s Sample) Plus(other Sample) Sample {
	s.Seconds += other.Seconds
	s.Reads = s.Reads.Plus(other.Reads)
	s.Answers = plus(s.Answers, other.Answers)
	s.Orders = plus(s.Orders, other.Orders)
	s.Cache = plus(s.Cache, other.Cache)
	s.Legacy = plus(s.Legacy, other.Legacy)
	s.Refused += other.Refused
	s.Partners = top(plus(s.Partners, other.Partners))
	s.Ages = highest(s.Ages, other.Ages)
	s.Events = highest(s.Events, other.Events)
	return s
}

func minus(counts, before map[string]int64) map[string]int64 {
	left := map[string]int64{}
	for name, count := range counts {
		if more := count - before[name]; more > 0 {
			left[name] = more
		}
	}
	return left
}

func plus(counts, others map[string]int64) map[string]int64 {
	sum := maps.Clone(counts)
	if sum == nil {
		sum = make(map[string]int64, len(others))
	}
	for name, count := range others {
		sum[name] += count
	}
	return sum
}

func highest[N int64 | float64](values, others map[string]N) map[string]N {
	sum := maps.Clone(values)
	if sum == nil {
		sum = make(map[string]N, len(others))
	}
	for name, value := range others {
		sum[name] = max(sum[name], value)
	}
	return sum
}

// top keeps those with the most.
func top(counts map[string]int64) map[string]int64 {
	if len(counts) <= maxNamed {
		return counts
	}
	kept := make(map[string]int64, maxNamed)
	for _, name := range byCount(counts)[:maxNamed] {
		kept[name] = counts[name]
	}
	return kept
}

// byCount gives the names, the most frequent first.
func byCount(counts map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		switch {
		case counts[a] > counts[b], counts[a] == counts[b] && a < b:
			return -1
		}
		return 1
	})
}

func (l Latency) minus(before Latency) Latency {
	if !slices.Equal(l.Bounds, before.Bounds) {
		return l
	}
	left := Latency{Bounds: l.Bounds, Counts: slices.Clone(l.Counts)}
	for i, count := range before.Counts {
		left.Counts[i] = max(0, left.Counts[i]-count)
	}
	return left
}

// Plus adds histograms of the same bounds. One of other bounds, of a process of another version, is left out.
func (l Latency) Plus(other Latency) Latency {
	switch {
	case len(l.Counts) == 0:
		return other
	case !slices.Equal(l.Bounds, other.Bounds):
		return l
	}
	sum := Latency{Bounds: l.Bounds, Counts: slices.Clone(l.Counts)}
	for i, count := range other.Counts {
		sum.Counts[i] += count
	}
	return sum
}

// Total is how many there are.
func (l Latency) Total() (total int64) {
	for _, count := range l.Counts {
		total += count
	}
	return total
}

// Quantile estimates a quantile in seconds, evenly within a bucket as Prometheus does; what is above the last bound
// counts as that bound. 0: there is nothing.
func (l Latency) Quantile(q float64) float64 {
	rank := q * float64(l.Total())
	below := 0.0
	for i, count := range l.Counts {
		if count == 0 || below+float64(count) < rank {
			below += float64(count)
			continue
		}
		if i >= len(l.Bounds) {
			break
		}
		low := 0.0
		if i > 0 {
			low = l.Bounds[i-1]
		}
		return low + (l.Bounds[i]-low)*(rank-below)/float64(count)
	}
	if l.Total() == 0 || len(l.Bounds) == 0 {
		return 0
	}
	return l.Bounds[len(l.Bounds)-1]
}

// sum of all counts.
func sum(counts map[string]int64) (total int64) {
	for _, count := range counts {
		total += count
	}
	return total
}
