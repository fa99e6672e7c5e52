// Command ladder measures what consumers of events cost and how timely and safe their retries are:
// `make bench-ladder`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"time"

	"andes/adapters/kafka"
	"andes/test/bench/measure"
	"andes/test/members"
)

// options are the flags.
type options struct {
	records  int
	duration time.Duration
	only     string
	warmUp   time.Duration
	profile  string

	unguarded bool
}

func main() {
	members.Main()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // as cmd/andes does
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.IntVar(&o.records, "records", 300_000, "that are read in each run of the throughput")
	flag.DurationVar(&o.duration, "duration", 3*time.Second, "of each run with a handler that works")
	flag.DurationVar(&o.warmUp, "warmup", 15*time.Second, "before the first run: a broker that has just started is still compiling itself")
	flag.StringVar(&o.only, "only", "throughput,work,late,churn", "which measurements, comma-separated")
	flag.BoolVar(&o.unguarded, "unguarded", false, "churn with effects that are not idempotent, to see that doubled ones are counted")
	flag.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of this process to a file")
	flag.Parse()
	if err := profiled(o.profile, func() error { return run(ctx, o, measure.Stdout()) }); err != nil {
		fmt.Fprintln(os.Stderr, "bench-ladder:", err)
		os.Exit(1)
	}
}

func profiled(path string, run func() error) error {
	if path == "" {
		return run()
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return run()
}

func run(ctx context.Context, o options, report measure.Report) error {
	brokers := os.Getenv("ANDES_KAFKA_BROKERS")
	if brokers == "" {
		return errors.New("ANDES_KAFKA_BROKERS is not set: use `make bench-ladder`")
	}
	b := &bench{options: o, report: report, cluster: kafka.Cluster{Brokers: strings.Split(brokers, ","), ClientID: "bench"}}
	b.names = kafka.Topics{Prefix: fmt.Sprintf("bench_ladder_%d.", time.Now().UnixNano())}
	var err error
	if b.registry, err = members.Registry(); err != nil {
		return err
	}
	report.Note("broker: %s, on the same two cores as the consumers; records of about 700 bytes with their headers", brokerKind())
	for _, measurement := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"throughput", b.throughput}, {"work", b.work}, {"late", b.late}, {"churn", b.churn},
	} {
		if strings.Contains(o.only, measurement.name) {
			if err := measurement.run(ctx); err != nil {
				return fmt.Errorf("%s: %w", measurement.name, err)
			}
		}
	}
	return nil
}

func brokerKind() string {
	if kind := os.Getenv("ANDES_BROKER_KIND"); kind != "" {
		return kind
	}
	return "as configured"
}
