// Command replay measures how fast dead letters are sent back: `make bench-replay`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"time"

	"andes/deadletters"
	"andes/test/bench/measure"
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // as cmd/andes does
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	letters := flag.Int("letters", 20_000, "of each run")
	keys := flag.Int("keys", 2_000, "that the letters of a run have")
	flag.Parse()
	if err := run(ctx, *letters, *keys, measure.Stdout()); err != nil {
		fmt.Fprintln(os.Stderr, "bench-replay:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, letters, keys int, report measure.Report) error {
	for _, name := range []string{"ANDES_POSTGRES_URL", "ANDES_KAFKA_BROKERS"} {
		if os.Getenv(name) == "" {
			return errors.New(name + " is not set: use `make bench-replay`")
		}
	}
	report.Note("%d letters of %d keys, 500 bytes, one redacted field each that is restored from the event store; in order per key, no consumer, PostgreSQL with fsync on, Kafka acks=all", letters, keys)
	var rates measure.Series
	for i := range measure.Runs + 1 {
		p, err := prepare(ctx, letters, keys)
		if err != nil {
			return err
		}
		rate, err := p.replay(ctx, letters)
		p.close()
		if err != nil {
			return err
		}
		if i == 0 {
			continue // connections, and the broker's compiler
		}
		report.Note("run %d: %.0f letters/s", i, rate)
		rates = append(rates, rate)
	}
	report.Result("dlq_replay_per_s", rates, "1/s")
	return nil
}

// replay sends all letters back and gives how many that were a second, from the first look at the DLQ to
// the last settlement.
func (p *pipeline) replay(ctx context.Context, letters int) (float64, error) {
	job := deadletters.Job{Consumer: consumer, Action: deadletters.Replayed, All: true, Force: true, Actor: "bench", Reason: "bench"}
	began := time.Now()
	for {
		progress, err := p.service.Advance(ctx, job)
		if err != nil {
			return 0, err
		}
		if job.Cursor = progress.Cursor; progress.Sent == int64(letters) {
			return float64(letters) / time.Since(began).Seconds(), nil
		}
		if job.Cursor == "" {
			return 0, fmt.Errorf("only %d of %d were sent: %+v", progress.Sent, letters, progress.Left)
		}
	}
}
