// Command stream measures the way of a change from its commit to the read model: `make bench-stream`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"andes/commands/stock"
	"andes/eventstore"
	"andes/test/bench/measure"
)

// options are the flags.
type options struct {
	duration time.Duration
	rate     int
	warmUp   time.Duration
}

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // as cmd/andes does
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.DurationVar(&o.duration, "duration", 10*time.Second, "of each run")
	flag.IntVar(&o.rate, "rate", 500, "changes a second")
	flag.DurationVar(&o.warmUp, "warmup", 30*time.Second, "before the first run: a broker that has just started is still compiling itself")
	flag.Parse()
	if err := run(ctx, o, measure.Stdout()); err != nil {
		fmt.Fprintln(os.Stderr, "bench-stream:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, report measure.Report) error {
	for _, name := range []string{"ANDES_POSTGRES_URL", "ANDES_REDIS_ADDRS", "ANDES_KAFKA_BROKERS"} {
		if os.Getenv(name) == "" {
			return errors.New(name + " is not set: use `make bench-stream`")
		}
	}
	p, err := startPipeline(ctx)
	if err != nil {
		return err
	}
	defer p.stop()
	if _, err := p.measure(ctx, options{duration: o.warmUp, rate: o.rate}); err != nil { // connections, and the broker's compiler
		return err
	}
	report.Note("broker: %s; PostgreSQL with fsync on, Kafka acks=all; executor, relay, projector, load and probe on the same two cores; %d changes/s", brokerKind(), o.rate)
	var p50, p95, p99 measure.Series
	for i := range measure.Runs {
		delays, err := p.measure(ctx, o)
		if err != nil {
			return err
		}
		slices.Sort(delays)
		p50 = append(p50, measure.Milliseconds(measure.Percentile(delays, 50)))
		p95 = append(p95, measure.Milliseconds(measure.Percentile(delays, 95)))
		p99 = append(p99, measure.Milliseconds(measure.Percentile(delays, 99)))
		report.Note("run %d: %d changes, commit -> readable p50 %.1f ms, p95 %.1f ms, p99 %.1f ms", i+1, len(delays), p50[i], p95[i], p99[i])
	}
	report.Result("commit_to_redis_p50_ms", p50, "ms")
	report.Result("commit_to_redis_p95_ms", p95, "ms")
	report.Result("commit_to_redis_p99_ms", p99, "ms")
	return nil
}

func brokerKind() string {
	if kind := os.Getenv("ANDES_BROKER_KIND"); kind != "" {
		return kind
	}
	return "as configured"
}

// measure changes stock at a steady rate, whatever the answers take, and probes Redis for each change.
func (p *pipeline) measure(ctx context.Context, o options) ([]time.Duration, error) {
	var (
		all    sync.WaitGroup
		mu     sync.Mutex
		delays []time.Duration
		first  error
	)
	ticker := time.NewTicker(time.Second / time.Duration(o.rate))
	defer ticker.Stop()
	version := time.Now().UnixNano() // above that of any run before
	for end := time.Now().Add(o.duration); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
		version++
		sku, mine := p.next(), version
		all.Go(func() {
			_, err := p.store.Execute(ctx, eventstore.Request{Command: stock.Report{SKU: sku, OnHand: 1, SourceVersion: mine, At: time.Now()}})
			committed := time.Now()
			if err == nil {
				err = p.probe.arrived(ctx, sku)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil && first == nil {
				first = err
			}
			delays = append(delays, time.Since(committed))
		})
	}
	all.Wait()
	return delays, first
}
