// Command changes measures how partners learn of changes: `make bench-changes`. The instance that they ask runs as a
// process of its own, beside one that publishes and projects; this process changes stock by the platform's own
// commands, and is all the followers: what it costs is told.
//
//	arrival   from the commit of a change to a request that waits for it, and to a stream
//	crowd     many streams while changes go on: what a value that is told costs the instance
//	beside    partners that follow, and as many that ask for all again and again
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"

	"andes/test/bench/andes"
	"andes/test/bench/measure"
)

// options are the flags.
type options struct {
	skus      int
	changes   int
	followers int
	rate      int
	calm      int
	pollers   int
	every     time.Duration
	duration  time.Duration
	warmUp    time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.IntVar(&o.skus, "skus", 1000, "in the catalogue, and of each poll")
	flag.IntVar(&o.changes, "changes", 100, "of each run whose arrival is waited for, one by one")
	flag.IntVar(&o.followers, "followers", 200, "streams of the crowd")
	flag.IntVar(&o.rate, "rate", 200, "changes a second before the crowd")
	flag.IntVar(&o.calm, "calm", 20, "changes a second beside the polls")
	flag.IntVar(&o.pollers, "pollers", 50, "partners that ask for all, and that follow")
	flag.DurationVar(&o.every, "every", time.Second, "between two polls")
	flag.DurationVar(&o.duration, "duration", 5*time.Second, "of each run of the crowd, and of the polls")
	flag.DurationVar(&o.warmUp, "warmup", 20*time.Second, "before the first run: a broker that has just started is still compiling itself")
	flag.Parse()
	if err := run(ctx, o, measure.Stdout()); err != nil {
		fmt.Fprintln(os.Stderr, "bench-changes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, report measure.Report) error {
	if os.Getenv("ANDES_POSTGRES_URL") == "" {
		return errors.New("ANDES_POSTGRES_URL is not set: use `make bench-changes`")
	}
	report.Note("real PostgreSQL (fsync and synchronous_commit on), Kafka (acks=all) and Redis; one query instance, one process with relay and projector, and the generator on the same two cores; %d SKUs; nothing of a follower is kept by the platform, its cursor is",
		o.skus)
	return onPlatform(ctx, o, func(ctx context.Context, p *platform) error {
		if _, err := p.steady(ctx, o.rate, o.warmUp); err != nil {
			return err
		}
		if err := p.arrival(ctx, o, report); err != nil {
			return fmt.Errorf("arrival: %w", err)
		}
		if err := p.crowd(ctx, o, report); err != nil {
			return fmt.Errorf("crowd: %w", err)
		}
		if err := p.beside(ctx, o, report); err != nil {
			return fmt.Errorf("beside: %w", err)
		}
		return nil
	})
}

// percentiles are three of each run.
type percentiles struct{ p50, p95, p99 measure.Series }

func (s *percentiles) add(took []time.Duration) {
	slices.Sort(took)
	of := func(percent float64) float64 { return measure.Milliseconds(measure.Percentile(took, percent)) }
	s.p50, s.p95, s.p99 = append(s.p50, of(50)), append(s.p95, of(95)), append(s.p99, of(99))
}

func (s *percentiles) results(report measure.Report, name string) {
	report.Result(name+"_p50_ms", s.p50, "ms")
	report.Result(name+"_p95_ms", s.p95, "ms")
	report.Result(name+"_p99_ms", s.p99, "ms")
}

// arrival makes one change after the other and waits until both ways told it.
func (p *platform) arrival(ctx context.Context, o options, report measure.Report) error {
	polled, streamed, stop := p.watch(ctx)
	defer stop()
	if err := p.settle(ctx, polled, streamed); err != nil {
		return err
	}
	var byPoll, byStream percentiles
	for i := range measure.Runs {
		generator, began := andes.OwnCPU(), time.Now()
		polls, streams := make([]time.Duration, 0, o.changes), make([]time.Duration, 0, o.changes)
		for range o.changes {
			made, err := p.change(ctx)
			if err != nil {
				return err
			}
			poll, err := polled.await(ctx, made.value)
			if err != nil {
				return err
			}
			stream, err := streamed.await(ctx, made.value)
			if err != nil {
				return err
			}
			polls, streams = append(polls, max(0, poll.Sub(made.at))), append(streams, max(0, stream.Sub(made.at)))
			pause(ctx, odd())
		}
		byPoll.add(polls)
		byStream.add(streams)
		report.Note("run %d: %d changes, to a request that waits p50 %.1f ms, p99 %.1f ms; to a stream p50 %.1f ms, p99 %.1f ms; CPU of the generator %.2f cores",
			i+1, o.changes, byPoll.p50[i], byPoll.p99[i], byStream.p50[i], byStream.p99[i], (andes.OwnCPU()-generator).Seconds()/time.Since(began).Seconds())
	}
	byPoll.results(report, "changes_arrive_poll")
	byStream.results(report, "changes_arrive_stream")
	return nil
}

// crowd has many streams follow while changes go on, and compares with the same changes and nobody who follows.
func (p *platform) crowd(ctx context.Context, o options, report measure.Report) error {
	var cores, idle, perValue, told, last measure.Series
	for i := range measure.Runs {
		alone, err := p.load(ctx, o.rate, o.duration, nil)
		if err != nil {
			return err
		}
		many, err := p.gather(ctx, o.followers, nil)
		if err != nil {
			return err
		}
		with, err := p.load(ctx, o.rate, o.duration, many)
		many.stop()
		if err != nil {
			return err
		}
		idle, cores = append(idle, alone.cores()), append(cores, with.cores())
		perValue = append(perValue, max(0, with.cores()-alone.cores())*1e6/(float64(with.values)/with.took.Seconds()))
		told = append(told, 100*float64(with.values)/float64(with.changes*o.followers))
		last = append(last, measure.Milliseconds(with.late))
		report.Note("run %d: %d streams, %d changes in %.1f s, %d values told (%.1f%%; a SKU that changed twice within a page is told once), the last change was with all of them %.1f ms after its commit; CPU of the instance %.2f cores, %.2f without followers; of the generator %.2f",
			i+1, o.followers, with.changes, with.took.Seconds(), with.values, told[i], last[i], cores[i], idle[i], with.generator.Seconds()/with.took.Seconds())
	}
	report.Result("changes_crowd_cpu", cores, "cores")
	report.Result("changes_crowd_cpu_without_followers", idle, "cores")
	report.Result("changes_crowd_cpu_per_value_us", perValue, "us")
	report.Result("changes_crowd_told", told, "percent of changes x followers")
	report.Result("changes_crowd_last_ms", last, "ms")
	return nil
}

// beside compares partners that ask for all SKUs again and again with as many that follow, at the same changes.
func (p *platform) beside(ctx context.Context, o options, report measure.Report) error {
	var bytes, cpu measure.Series
	for i := range measure.Runs {
		alone, err := p.load(ctx, o.calm, o.duration, nil)
		if err != nil {
			return err
		}
		asking, err := p.gather(ctx, o.pollers, &o.every)
		if err != nil {
			return err
		}
		polls, err := p.load(ctx, o.calm, o.duration, asking)
		asking.stop()
		if err != nil {
			return err
		}
		following, err := p.gather(ctx, o.pollers, nil)
		if err != nil {
			return err
		}
		follows, err := p.load(ctx, o.calm, o.duration, following)
		following.stop()
		if err != nil {
			return err
		}
		above := func(l outcome) float64 { return max(tickShare(l), l.cores()-alone.cores()) }
		bytes = append(bytes, polls.bytesPerSecond()/follows.bytesPerSecond())
		cpu = append(cpu, above(polls)/above(follows))
		report.Note("run %d: %d partners, %d changes/s; asking for %d SKUs each %s: %.0f kB/s and %.3f cores; following: %.0f kB/s and %.3f cores (above %.3f without partners)",
			i+1, o.pollers, o.calm, o.skus, o.every, polls.bytesPerSecond()/1000, above(polls), follows.bytesPerSecond()/1000, above(follows), alone.cores())
	}
	report.Result("changes_poll_to_follow_bytes", bytes, "ratio")
	report.Result("changes_poll_to_follow_cpu", cpu, "ratio")
	return nil
}

// tickShare is the least that is measured: CPU is counted in hundredths of a second.
func tickShare(l outcome) float64 { return 0.01 / l.took.Seconds() }
