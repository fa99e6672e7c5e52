// Command orders measures how many orders a second are accepted over HTTP: `make bench-orders`. The
// platform runs as a process of its own; this process is the load generator and says what it costs.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/google/uuid"

	"andes/test/bench/andes"
	"andes/test/bench/measure"
)

// options are the flags.
type options struct {
	duration time.Duration
	callers  int
	lines    int
	skus     int
	roles    string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	flag.DurationVar(&o.duration, "duration", 5*time.Second, "of each run")
	flag.IntVar(&o.callers, "callers", 64, "that order at the same time")
	flag.IntVar(&o.lines, "lines", 3, "of an order")
	flag.IntVar(&o.skus, "skus", 4000, "in the catalogue")
	flag.StringVar(&o.roles, "roles", "command", "that the platform runs")
	flag.Parse()
	if err := run(ctx, o, measure.Stdout()); err != nil {
		fmt.Fprintln(os.Stderr, "bench-orders:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, report measure.Report) error {
	if os.Getenv("ANDES_POSTGRES_URL") == "" {
		return errors.New("ANDES_POSTGRES_URL is not set: use `make bench-orders`")
	}
	p, err := startPlatform(ctx, o.roles)
	defer p.stop()
	if err != nil {
		return err
	}
	if err := fill(ctx, p.installation.Name, o.skus); err != nil {
		return err
	}
	token, err := p.server.Token(ctx, "bench")
	if err != nil {
		return err
	}
	report.Note("PostgreSQL with fsync and synchronous_commit on; platform (roles %s) and load generator on the same two cores; %d callers, %d lines an order, %d SKUs", o.roles, o.callers, o.lines, o.skus)
	var rate, p99, generator, server measure.Series
	for i := range measure.Runs {
		before, serverBefore := andes.OwnCPU(), p.server.CPU()
		began := time.Now()
		load := measure.Closed(o.callers, o.duration, func(int, int) error { return p.order(ctx, token, o) })
		took := time.Since(began).Seconds()
		if load.Failed > 0 {
			return fmt.Errorf("%d orders failed: %w", load.Failed, load.First)
		}
		rate, p99 = append(rate, load.PerSecond), append(p99, measure.Milliseconds(load.P99))
		generator = append(generator, (andes.OwnCPU()-before).Seconds()/took)
		server = append(server, (p.server.CPU()-serverBefore).Seconds()/took)
		report.Note("run %d: %.0f orders/s, p50 %.1f ms, p99 %.1f ms; CPU: load generator %.2f cores, platform %.2f cores",
			i+1, load.PerSecond, measure.Milliseconds(load.P50), measure.Milliseconds(load.P99), generator[i], server[i])
	}
	report.Result("orders_per_s", rate, "orders/s")
	report.Result("orders_p99_ms", p99, "ms")
	report.Result("orders_generator_cpu", generator, "cores")
	report.Result("orders_platform_cpu", server, "cores")
	return nil
}

// order places one order over HTTP.
func (p *platform) order(ctx context.Context, token string, o options) error {
	type line struct {
		SKU      string `json:"sku"`
		Quantity int    `json:"quantity"`
	}
	body := struct {
		Currency string            `json:"currency"`
		Lines    []line            `json:"lines"`
		Payment  map[string]string `json:"payment"`
	}{Currency: "GBP", Payment: map[string]string{"token": "tok_bench"}}
	for range o.lines {
		body.Lines = append(body.Lines, line{SKU: skuName(rand.IntN(o.skus)), Quantity: 1})
	}
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.server.URL()+"/v1/orders", bytes.NewReader(data))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", uuid.NewString())
	return p.do(request, http.StatusAccepted, io.Discard)
}

func (p *platform) do(request *http.Request, want int, into io.Writer) error {
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != want {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return fmt.Errorf("%s %s: %s %s", request.Method, request.URL.Path, response.Status, text)
	}
	_, err = io.Copy(into, response.Body)
	return err
}

// platform is a running `andes serve`.
type platform struct {
	installation *andes.Installation
	server       *andes.Server
	client       *http.Client
}

// startPlatform gives what it started even when it fails.
func startPlatform(ctx context.Context, roles string) (*platform, error) {
	p := &platform{client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true}}}
	var err error
	if p.installation, err = andes.Install(ctx, "orders", "", "ANDES_KAFKA_PARTITIONS=3",
		"ANDES_QUOTA_TIERS=bronze=20/2,silver=100/10,gold=100000/100000", "ANDES_QUOTA_CLIENT=100000", "ANDES_QUOTA_ENDPOINT=100000"); err != nil {
		return p, err
	}
	if p.server, err = p.installation.Serve(ctx, roles); err != nil {
		return p, err
	}
	return p, p.server.Ready(ctx)
}

func (p *platform) stop() {
	if p.server != nil {
		p.server.Stop()
	}
	p.installation.Remove()
}
