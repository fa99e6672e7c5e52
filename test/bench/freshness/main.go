// Command freshness measures how long a change in the warehouse takes until the API answers it: `make
// bench-freshness`. The platform runs as a process of its own; the warehouse is the lab's, in this process, so a
// change's time is taken where it is made. Each watcher asks the API every few milliseconds until its own
// change is there: that, and the generator's share of the two cores, is part of what is measured.
//
//	push   the warehouse tells of the change by itself; polling is switched off
//	poll   the change waits for the next poll; what is beyond that wait is told too
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"andes/test/bench/andes"
	"andes/test/bench/measure"
)

// options are the flags.
type options struct {
	changes  int
	watchers int
	skus     int
	interval time.Duration
}

const (
	askEvery  = 2 * time.Millisecond
	patience  = 30 * time.Second // for one change
	quietTime = 50 * time.Millisecond
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.IntVar(&o.changes, "changes", 100, "of each run")
	flag.IntVar(&o.watchers, "watchers", 4, "that wait for a change at the same time")
	flag.IntVar(&o.skus, "skus", 4000, "that the warehouse has")
	flag.DurationVar(&o.interval, "interval", time.Second, "between two polls")
	flag.Parse()
	if err := run(ctx, o, measure.Stdout()); err != nil {
		fmt.Fprintln(os.Stderr, "bench-freshness:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, report measure.Report) error {
	if os.Getenv("ANDES_POSTGRES_URL") == "" {
		return errors.New("ANDES_POSTGRES_URL is not set: use `make bench-freshness`")
	}
	report.Note("real PostgreSQL (fsync and synchronous_commit on), Kafka and Redis; one platform process with query, command, relay, projector and wms; %d SKUs, %d changes a run, %d watchers that ask every %s; all on the same two cores",
		o.skus, o.changes, o.watchers, askEvery)
	const never = time.Hour
	if err := bench(ctx, o, never, report); err != nil {
		return fmt.Errorf("push: %w", err)
	}
	if err := bench(ctx, o, o.interval, report); err != nil {
		return fmt.Errorf("poll: %w", err)
	}
	return nil
}

// bench measures by pushes, or by polls where they are in time.
func bench(ctx context.Context, o options, interval time.Duration, report measure.Report) error {
	pushed := interval != o.interval
	p, err := start(ctx, o, interval, pushed)
	defer p.stop()
	if err != nil {
		return err
	}
	var median, high, beyond measure.Series
	for i := range measure.Runs {
		before := andes.OwnCPU()
		began := time.Now()
		took, late, err := p.changes(ctx, o)
		if err != nil {
			return err
		}
		median, high = append(median, percentile(took, 50)), append(high, percentile(took, 95))
		beyond = append(beyond, percentile(late, 95))
		report.Note("run %d: p50 %.1f ms, p95 %.1f ms; beyond the wait for the poll p50 %.1f ms, p95 %.1f ms; CPU of the generator and the warehouse %.2f cores",
			i+1, median[i], high[i], percentile(late, 50), beyond[i], (andes.OwnCPU()-before).Seconds()/time.Since(began).Seconds())
	}
	if pushed {
		report.Result("freshness_push_p50_ms", median, "ms")
		report.Result("freshness_push_p95_ms", high, "ms")
		return nil
	}
	report.Result("freshness_poll_p95_ms", high, "ms")
	report.Result("freshness_poll_beyond_p95_ms", beyond, "ms")
	return nil
}

// changes makes changes at odd moments and waits for each: how long it took, and how much of that was after
// the poll that found it had begun.
func (p *platform) changes(ctx context.Context, o options) (took, beyond []time.Duration, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for w := range o.watchers {
		all.Go(func() {
			for range o.changes / o.watchers {
				pause(ctx, quietTime+rand.N(o.interval/10))
				whole, late, fault := p.change(ctx, w)
				mu.Lock()
				took, beyond, err = append(took, whole), append(beyond, late), errors.Join(err, fault)
				mu.Unlock()
				if fault != nil {
					return
				}
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	slices.Sort(beyond)
	return took, beyond, err
}

// change sets a level that no other watcher sets and asks until the API answers it.
func (p *platform) change(ctx context.Context, watcher int) (took, beyond time.Duration, err error) {
	sku, want := skuName(watcher), 1+rand.Int64N(1<<40)
	made := time.Now()
	if _, err := p.warehouse.SetStock(sku, want); err != nil {
		return 0, 0, err
	}
	for time.Since(made) < patience && ctx.Err() == nil {
		got, err := p.available(ctx, sku)
		if err != nil {
			return 0, 0, err
		}
		if now := time.Now(); got == want {
			return now.Sub(made), now.Sub(p.askedAfter(made)), nil
		}
		pause(ctx, askEvery)
	}
	return 0, 0, fmt.Errorf("a change of %s was not answered within %s", sku, patience)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func percentile(sorted []time.Duration, percent float64) float64 {
	return measure.Milliseconds(measure.Percentile(sorted, percent))
}
