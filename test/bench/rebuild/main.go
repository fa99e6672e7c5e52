// Command rebuild measures the rebuild of a read model, by the product's own command in a process of its
// own: `make bench-rebuild`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"time"

	"andes/test/bench/measure"
)

// options are the flags.
type options struct {
	skus    int
	runs    int
	reads   int
	changes int
	only    string
}

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // as cmd/andes does
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.IntVar(&o.skus, "skus", 1_000_000, "SKUs with stock")
	flag.IntVar(&o.runs, "runs", measure.Runs, "of the measurement of the rate; each about ten seconds at 1,000,000 SKUs")
	flag.IntVar(&o.reads, "reads", 500, "reads of 10 SKUs a second")
	flag.IntVar(&o.changes, "changes", 2000, "changes a second while a rebuild is killed and goes on")
	flag.StringVar(&o.only, "only", "rate,reads,wrong", "what to measure, comma-separated")
	flag.Parse()
	if err := run(ctx, o, measure.Stdout()); err != nil {
		fmt.Fprintln(os.Stderr, "bench-rebuild:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, report measure.Report) error {
	for _, name := range []string{"ANDES_POSTGRES_URL", "ANDES_REDIS_ADDRS", "ANDES_KAFKA_BROKERS"} {
		if os.Getenv(name) == "" {
			return errors.New(name + " is not set: use `make bench-rebuild`")
		}
	}
	p, err := openPlatform(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	began := time.Now()
	if err := p.seed(ctx, o.skus); err != nil {
		return err
	}
	report.Note("%d SKUs in PostgreSQL and in %d partitions of a state topic, seeded in %s; clients, services and rebuild on the same two cores", o.skus, partitions, time.Since(began).Round(time.Second))
	for _, part := range strings.Split(o.only, ",") {
		measured, known := map[string]func(context.Context, options, measure.Report) error{
			"rate": p.rate, "reads": p.readLatency, "wrong": p.wrong,
		}[part]
		if !known {
			return fmt.Errorf("there is nothing to measure by the name %q", part)
		}
		if err := measured(ctx, o, report); err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	return nil
}

// rate compares a rebuild with the bare script that it writes with, in turn so that both meet the same
// machine.
func (p *platform) rate(ctx context.Context, o options, report measure.Report) error {
	var ratios, rates, bares, memory measure.Series
	for i := range o.runs {
		bare, err := p.bareScript(ctx, o.skus)
		if err != nil {
			return err
		}
		if err := p.dropOthers(ctx); err != nil {
			return err
		}
		job, err := p.rebuild(ctx, "--hasty")
		if err != nil {
			return err
		}
		if int(job.Records) < o.skus || job.Mended > 0 {
			return fmt.Errorf("the rebuild is not what was to be measured: %+v", job)
		}
		perSecond := float64(o.skus) / job.took.Seconds()
		bares, rates = append(bares, bare), append(rates, perSecond)
		ratios, memory = append(ratios, perSecond/bare), append(memory, job.peakMB)
		report.Note("run %d: %.0f records/s in %s, verification included; bare script %.0f/s; peak %.0f MB; %.1f µs of CPU a record", i+1, perSecond, job.took.Round(time.Millisecond),
			bare, job.peakMB, float64(job.cpu.Microseconds())/float64(o.skus))
	}
	report.Result("rebuild_records_per_s", rates, "records/s")
	report.Result("rebuild_bare_per_s", bares, "records/s")
	report.Result("rebuild_ratio", ratios, "ratio")
	report.Result("rebuild_rss_mb", memory, "MB")
	return nil
}

// readLatency reads before a rebuild and during it, at the same rate whatever the answers take.
func (p *platform) readLatency(ctx context.Context, o options, report measure.Report) error {
	if _, err := p.rebuild(ctx, "--hasty"); err != nil { // so that there is something to read
		return err
	}
	var ratios, before, during measure.Series
	for range o.runs {
		if err := p.dropOthers(ctx); err != nil {
			return err
		}
		quiet := p.read(ctx, o, after(quietReads))
		done := make(chan struct{})
		var failed error
		go func() {
			defer close(done)
			_, failed = p.rebuild(ctx)
		}()
		busy := p.read(ctx, o, done)
		<-done
		if err := errors.Join(failed, quiet.first, busy.first); err != nil {
			return err
		}
		before, during = append(before, quiet.p95()), append(during, busy.p95())
		ratios = append(ratios, busy.p95()/quiet.p95())
		report.Note("reads: p95 %.2f ms before, %.2f ms during the rebuild, of %d and %d reads", quiet.p95(), busy.p95(), len(quiet.took), len(busy.took))
	}
	report.Result("rebuild_read_before_p95_ms", before, "ms")
	report.Result("rebuild_read_during_p95_ms", during, "ms")
	report.Result("rebuild_read_p95_ratio", ratios, "ratio")
	return nil
}

// wrong has changes go on while a rebuild is killed in the middle and goes on, and counts the keys that
// differ from PostgreSQL afterwards.
func (p *platform) wrong(ctx context.Context, o options, report measure.Report) error {
	if err := p.stream(ctx); err != nil {
		return err
	}
	writing := p.write(ctx, o)
	killed, err := p.killedRebuild(ctx, o)
	if err != nil {
		return errors.Join(err, writing.stop())
	}
	job, err := p.rebuild(ctx)
	if failed := writing.stop(); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	wrong, compared, err := p.differences(ctx)
	if err != nil {
		return err
	}
	report.Note("%d changes at %.0f/s; killed after %d records, then went on: %d records, %d mended; %d keys compared", writing.count.Load(), writing.rate(), killed, job.Records, job.Mended, compared)
	report.Result("rebuild_wrong", measure.Series{float64(wrong)}, "keys")
	if wrong > 0 {
		return fmt.Errorf("%d keys differ from PostgreSQL", wrong)
	}
	return nil
}
