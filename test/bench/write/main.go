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
	"strings"
	"time"

	"github.com/google/uuid"

	"andes/adapters/postgres"
	"andes/commands"
	"andes/eventstore"
	"andes/test/bench/measure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	duration := flag.Duration("duration", 5*time.Second, "of each run")
	only := flag.String("only", "append,gaps,hot", "which measurements, comma-separated")
	writer := flag.String("writer", "", "internal: append to this schema until killed")
	flag.Parse()
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
	for name, measurement := range map[string]func(context.Context, string, time.Duration, measure.Report) error{
		"append": measureAppends, "hot": measureHotSKU, "gaps": measureGaps,
	} {
		if strings.Contains(only, name) {
			if err := measurement(ctx, url, duration, report); err != nil {
				return fmt.Errorf("%s: %w", name, err)
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

// measureAppends alternates ours and the peers, so that a noisy neighbour hits all of them.
func measureAppends(ctx context.Context, url string, duration time.Duration, report measure.Report) error {
	store, closeStore, err := open(ctx, url, freshSchema("append"))
	if err != nil {
		return err
	}
	defer closeStore()
	var ratio, vsPgbench, p99, single, oursRate, plainRate, pgbenchRate, oursSingle, plainSingle measure.Series
	for i := range measure.Runs {
		ours := batched(store, 2*i, manyCallers, duration)
		peer, err := plain(ctx, url, manyCallers, duration)
		if err != nil {
			return err
		}
		tool, err := pgbench(ctx, url, manyCallers, duration)
		if err != nil {
			return err
		}
		alone := batched(store, 2*i+1, 1, duration)
		aloneplain, err := plain(ctx, url, 1, duration)
		if err != nil {
			return err
		}
		for _, load := range []measure.Load{ours, peer, alone, aloneplain} {
			if load.Failed > 0 {
				return fmt.Errorf("%d appends failed: %w", load.Failed, load.First)
			}
		}
		oursRate, plainRate, pgbenchRate = append(oursRate, ours.PerSecond), append(plainRate, peer.PerSecond), append(pgbenchRate, tool)
		oursSingle, plainSingle = append(oursSingle, alone.PerSecond), append(plainSingle, aloneplain.PerSecond)
		ratio, vsPgbench = append(ratio, ours.PerSecond/peer.PerSecond), append(vsPgbench, ours.PerSecond/tool)
		p99, single = append(p99, measure.Milliseconds(ours.P99)), append(single, alone.PerSecond/aloneplain.PerSecond)
		report.Note("run %d: batched %.0f/s (p50 %.2f ms, p99 %.2f ms), one transaction each %.0f/s (p99 %.2f ms), pgbench %.0f/s; one caller: batched %.0f/s, plain %.0f/s",
			i+1, ours.PerSecond, measure.Milliseconds(ours.P50), measure.Milliseconds(ours.P99), peer.PerSecond, measure.Milliseconds(peer.P99), tool, alone.PerSecond, aloneplain.PerSecond)
	}
	report.Result("append_per_s", oursRate, "events/s")
	report.Result("append_plain_per_s", plainRate, "events/s")
	report.Result("append_pgbench_per_s", pgbenchRate, "events/s")
	report.Result("append_single_per_s", oursSingle, "events/s")
	report.Result("append_single_plain_per_s", plainSingle, "events/s")
	report.Result("append_ratio", ratio, "x")
	report.Result("append_vs_pgbench", vsPgbench, "x")
	report.Result("append_p99_ms", p99, "ms")
	report.Result("append_single_ratio", single, "x")
	return nil
}
