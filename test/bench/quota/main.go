// Command quota measures what a partner that floods gets, and what its neighbour feels of it: `make
// bench-quota`. Three instances of the platform share the quotas in Redis; requests go to them in turn, at
// the times that a plan says (open loop), and latency counts from those times.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"time"

	"andes/test/bench/measure"
)

// The two partners.
const (
	flooding  = "flooding" // bronze
	neighbour = "neighbour"

	bronzeReads = 20 // a second
	instances   = 3

	// turns of a run: alone, with the flood, alone … Both sides of the ratio see the same weather.
	turns = 3
)

// options are the flags.
type options struct {
	duration time.Duration
	flood    int
	gold     int
	skus     int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.DurationVar(&o.duration, "duration", 3*time.Second, "of each turn, after a second that uses the burst up")
	flag.IntVar(&o.flood, "flood", 5*bronzeReads, "requests a second of the bronze partner")
	flag.IntVar(&o.gold, "gold", 200, "requests a second of the gold partner")
	flag.IntVar(&o.skus, "skus", 10, "in a request")
	flag.Parse()
	if err := run(ctx, o, measure.Stdout()); err != nil {
		fmt.Fprintln(os.Stderr, "bench-quota:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, report measure.Report) error {
	for _, name := range []string{"ANDES_POSTGRES_URL", "ANDES_REDIS_ADDRS", "ANDES_KAFKA_BROKERS"} {
		if os.Getenv(name) == "" {
			return errors.New(name + " is not set: use `make bench-quota`")
		}
	}
	p, err := startPlatform(ctx, o.skus)
	defer p.stop()
	if err != nil {
		return err
	}
	bronze, gold := plan{partner: flooding, perSecond: o.flood}, plan{partner: neighbour, perSecond: o.gold}
	if _, err := p.load(ctx, o.duration, gold); err != nil { // connections, caches
		return err
	}
	report.Note("%d instances and the load generator on the same two cores; bronze at %d/s, gold at %d/s, %d SKUs a request", instances, o.flood, o.gold, o.skus)
	var quotaError, ratio measure.Series
	for i := range measure.Runs {
		var alone, beside, flood outcome
		for range turns {
			before, err := p.load(ctx, o.duration, gold)
			if err != nil {
				return err
			}
			both, err := p.load(ctx, o.duration, gold, bronze)
			if err != nil {
				return err
			}
			alone.add(before[0])
			beside.add(both[0])
			flood.add(both[1])
		}
		if failed := alone.others + beside.others; failed > 0 {
			return fmt.Errorf("the gold partner was refused or failed %d times: %w", failed, errors.Join(alone.first, beside.first))
		}
		rate := float64(flood.intervals) / flood.steady.Seconds()
		before, with := alone.p95(), beside.p95()
		quotaError = append(quotaError, 100*math.Abs(rate-bronzeReads)/bronzeReads)
		ratio = append(ratio, float64(with)/float64(before))
		report.Note("run %d: bronze %.2f/s accepted, %d refused; gold p95 %.2f ms alone, %.2f ms beside it",
			i+1, rate, flood.others, measure.Milliseconds(before), measure.Milliseconds(with))
	}
	report.Result("quota_error_pct", quotaError, "%")
	report.Result("gold_p95_ratio", ratio, "x")
	return nil
}

// outcome is what became of a plan's requests. Those of the first second do not count.
type outcome struct {
	took   []time.Duration
	others int   // refused or failed
	first  error // of those

	// From the first accepted request to the last: so neither the burst nor where the turn happens to end
	// counts.
	steady    time.Duration
	intervals int
}

func (o *outcome) add(turn outcome) {
	o.took = append(o.took, turn.took...)
	o.others += turn.others
	o.steady += turn.steady
	o.intervals += turn.intervals
	if o.first == nil {
		o.first = turn.first
	}
}

func (o *outcome) p95() time.Duration {
	slices.Sort(o.took)
	return measure.Percentile(o.took, 95)
}
