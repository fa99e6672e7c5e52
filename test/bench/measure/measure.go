// Package measure is what the benchmarks share: repeated runs, medians with their spread, latency
// percentiles, and the RESULT lines.
package measure

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Runs is how often a short measurement is repeated; its median counts.
const Runs = 5

// Series is the same measurement, repeated.
type Series []float64

// Median is the middle one.
func (s Series) Median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}

// Spread is the distance between the extremes, in percent of the median.
func (s Series) Spread() float64 {
	if m := s.Median(); m != 0 {
		return 100 * (slices.Max(s) - slices.Min(s)) / m
	}
	return 0
}

// Report prints results where a reader and a script find them.
type Report struct{ Out io.Writer }

// Stdout reports to the standard output.
func Stdout() Report { return Report{Out: os.Stdout} }

// Note prints a line for the reader.
func (r Report) Note(format string, args ...any) { fmt.Fprintf(r.Out, format+"\n", args...) }

// Result prints a median with its spread.
func (r Report) Result(name string, s Series, unit string) {
	fmt.Fprintf(r.Out, "RESULT %s %.2f %s (median of %d, spread %.0f%%, runs %s)\n", name, s.Median(), unit, len(s), s.Spread(), s.list())
}

func (s Series) list() string {
	text := ""
	for i, v := range s {
		if i > 0 {
			text += " "
		}
		text += fmt.Sprintf("%.2f", v)
	}
	return text
}

// Load is the outcome of one closed-loop load.
type Load struct {
	PerSecond float64
	P50, P99  time.Duration
	Failed    int64
	First     error // of the failures
}

// Closed runs callers in a closed loop for the duration: each calls again when its call is done. The
// calls of the first tenth of the time warm up and do not count.
func Closed(callers int, duration time.Duration, call func(caller, n int) error) Load {
	var (
		all       sync.WaitGroup
		failed    atomic.Int64
		firstOnce sync.Once
		first     error
		latencies = make([][]time.Duration, callers)
	)
	begin := time.Now()
	counted, end := begin.Add(duration/10), begin.Add(duration)
	for caller := range callers {
		all.Go(func() {
			for n := 0; ; n++ {
				started := time.Now()
				if started.After(end) {
					return
				}
				if err := call(caller, n); err != nil {
					failed.Add(1)
					firstOnce.Do(func() { first = err })
					continue
				}
				if started.After(counted) {
					latencies[caller] = append(latencies[caller], time.Since(started))
				}
			}
		})
	}
	all.Wait()
	merged := slices.Concat(latencies...)
	slices.Sort(merged)
	load := Load{PerSecond: float64(len(merged)) / time.Since(counted).Seconds(), Failed: failed.Load(), First: first}
	load.P50, load.P99 = Percentile(merged, 50), Percentile(merged, 99)
	return load
}

// Percentile reads a percentile off sorted durations.
func Percentile(sorted []time.Duration, percent float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(float64(len(sorted))*percent/100))]
}

// Milliseconds gives a duration as a number.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
