// Command write measures the write side: `make bench-write`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/google/uuid"

	"andes/adapters/postgres"
	"andes/commands"
	"andes/eventstore"
	"andes/test/bench/measure"
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // as cmd/andes does
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	duration := flag.Duration("duration", 5*time.Second, "of each run")
	only := flag.String("only", "append,gaps,hot", "which measurements, comma-separated; ours: only our own appends")
	profile := flag.String("cpuprofile", "", "write a CPU profile of this process to a file")
	writer := flag.String("writer", "", "internal: append to this schema until killed")
	flag.Parse()
	if *profile != "" {
		file, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(file)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench-write:", err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}
	if err := run(ctx, *duration, *only, *writer); err != nil {
		fmt.Fprintln(os.Stderr, "bench-write:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, duration time.Duration, only, writer string) error {
	url := os.Getenv("ANDES_POSTGRES_URL")
	if url == "" {
		return errors.New("ANDES_POSTGRES_URL is not set: use `make bench-write`")
	}
	if writer != "" {
		return writeUntilKilled(ctx, url, writer)
	}
	report := measure.Stdout()
	report.Note("PostgreSQL with fsync and synchronous_commit on; load generator in the same process, on the same cores.")
	for _, measurement := range []struct {
		name string
		run  func(context.Context, string, time.Duration, measure.Report) error
	}{
		{"append", measureAppends}, {"hot", measureHotSKU}, {"gaps", measureGaps}, {"ours", measureOurs},
	} {
		if strings.Contains(only, measurement.name) {
			if err := measurement.run(ctx, url, duration, report); err != nil {
				return fmt.Errorf("%s: %w", measurement.name, err)
			}
		}
	}
	return nil
}

// open gives an executor on a fresh schema, and a function that stops it and drops the schema.
func open(ctx context.Context, url, schema string) (*postgres.Store, func(), error) {
	registry, err := eventstore.NewRegistry(append(commands.All(), blobs)...)
	if err != nil {
		return nil, nil, err
	}
	config := postgres.Config{URL: url, Schema: schema}
	if err := postgres.Migrate(ctx, config); err != nil {
		return nil, nil, err
	}
	db, err := postgres.Open(ctx, config, registry)
	if err != nil {
		return nil, nil, err
	}
	settings := postgres.DefaultExecutorConfig()
	settings.Now, settings.Logger = time.Now, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	settings.NewID = func() string { return uuid.Must(uuid.NewV7()).String() }
	executor, err := postgres.NewExecutor(db, settings)
	if err != nil {
		return nil, nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = executor.Run(running)
	}()
	return &postgres.Store{Executor: executor, DB: db}, func() {
		stop()
		<-stopped
		db.Close()
	}, nil
}

// freshSchema names a schema for one measurement; they are left behind for a look and dropped by the
// next run's services.
func freshSchema(purpose string) string {
	return fmt.Sprintf("bench_%s_%d", purpose, time.Now().UnixNano())
}

const manyCallers = 64

// measureOurs is for profiling.
func measureOurs(ctx context.Context, url string, duration time.Duration, report measure.Report) error {
	store, closeStore, err := open(ctx, url, freshSchema("ours"))
	if err != nil {
		return err
	}
	defer closeStore()
	var rate, p99 measure.Series
	for i := range measure.Runs {
		load := batched(store, i, manyCallers, duration)
		if load.Failed > 0 {
			return fmt.Errorf("%d appends failed: %w", load.Failed, load.First)
		}
		rate, p99 = append(rate, load.PerSecond), append(p99, measure.Milliseconds(load.P99))
	}
	report.Result("ours_per_s", rate, "events/s")
	report.Result("ours_p99_ms", p99, "ms")
	return nil
}

// appendSeries are the repeated measurements, by name.
type appendSeries map[string]measure.Series

func (a appendSeries) add(name string, value float64) { a[name] = append(a[name], value) }

// measureAppends alternates ours and the peers, so that a noisy neighbour hits all of them.
func measureAppends(ctx context.Context, url string, duration time.Duration, report measure.Report) error {
	store, closeStore, err := open(ctx, url, freshSchema("append"))
	if err != nil {
		return err
	}
	defer closeStore()
	series := appendSeries{}
	for i := range measure.Runs {
		if err := series.run(ctx, url, store, i, duration, report); err != nil {
			return err
		}
	}
	for _, result := range []struct{ name, unit string }{
		{"append_per_s", "events/s"}, {"append_plain_per_s", "events/s"}, {"append_pipelined_per_s", "events/s"},
		{"append_pgbench_per_s", "events/s"}, {"append_pgbench_pipelined_per_s", "events/s"},
		{"append_single_per_s", "events/s"}, {"append_single_plain_per_s", "events/s"}, {"append_single_pipelined_per_s", "events/s"},
		{"append_ratio", "x"}, {"append_ratio_pipelined", "x"}, {"append_vs_pgbench", "x"}, {"append_vs_pgbench_pipelined", "x"},
		{"append_p99_ms", "ms"}, {"append_single_ratio", "x"}, {"append_single_ratio_pipelined", "x"},
	} {
		report.Result(result.name, series[result.name], result.unit)
	}
	return nil
}

// run measures everything once.
func (a appendSeries) run(ctx context.Context, url string, store eventstore.Executor, i int, duration time.Duration, report measure.Report) error {
	ours := batched(store, 2*i, manyCallers, duration)
	alone := batched(store, 2*i+1, 1, duration)
	for _, load := range []measure.Load{ours, alone} {
		if load.Failed > 0 {
			return fmt.Errorf("%d appends failed: %w", load.Failed, load.First)
		}
	}
	rates := map[string]float64{}
	for _, peer := range []struct {
		name    string
		callers int
		one     appendOne
	}{
		{"plain", manyCallers, transaction}, {"pipelined", manyCallers, pipelined},
		{"single_plain", 1, transaction}, {"single_pipelined", 1, pipelined},
	} {
		load, err := plain(ctx, url, peer.callers, duration, peer.one)
		if err != nil {
			return err
		}
		rates[peer.name] = load.PerSecond
		a.add("append_"+peer.name+"_per_s", load.PerSecond)
	}
	for name, pipeline := range map[string]bool{"pgbench": false, "pgbench_pipelined": true} {
		rate, err := pgbench(ctx, url, manyCallers, duration, pipeline)
		if err != nil {
			return err
		}
		rates[name] = rate
		a.add("append_"+name+"_per_s", rate)
	}
	a.add("append_per_s", ours.PerSecond)
	a.add("append_single_per_s", alone.PerSecond)
	a.add("append_p99_ms", measure.Milliseconds(ours.P99))
	a.add("append_ratio", ours.PerSecond/rates["plain"])
	a.add("append_ratio_pipelined", ours.PerSecond/rates["pipelined"])
	a.add("append_vs_pgbench", ours.PerSecond/rates["pgbench"])
	a.add("append_vs_pgbench_pipelined", ours.PerSecond/rates["pgbench_pipelined"])
	a.add("append_single_ratio", alone.PerSecond/rates["single_plain"])
	a.add("append_single_ratio_pipelined", alone.PerSecond/rates["single_pipelined"])
	report.Note("run %d: batched %.0f/s (p50 %.2f ms, p99 %.2f ms); one transaction each %.0f/s, pipelined %.0f/s; pgbench %.0f/s, pipelined %.0f/s; one caller: batched %.0f/s, transaction %.0f/s, pipelined %.0f/s",
		i+1, ours.PerSecond, measure.Milliseconds(ours.P50), measure.Milliseconds(ours.P99), rates["plain"], rates["pipelined"], rates["pgbench"], rates["pgbench_pipelined"],
		alone.PerSecond, rates["single_plain"], rates["single_pipelined"])
	return nil
}
