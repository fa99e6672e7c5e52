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
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/uuid"

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
	if err != nil {
		return err
	}
	defer p.stop()
	if err := fill(ctx, p.schema, o.skus); err != nil {
		return err
	}
	token, err := p.token(ctx)
	if err != nil {
		return err
	}
	report.Note("PostgreSQL with fsync and synchronous_commit on; platform (roles %s) and load generator on the same two cores; %d callers, %d lines an order, %d SKUs", o.roles, o.callers, o.lines, o.skus)
	var rate, p99, generator, server measure.Series
	for i := range measure.Runs {
		before, serverBefore := cpuOf(syscall.RUSAGE_SELF), p.cpu()
		began := time.Now()
		load := measure.Closed(o.callers, o.duration, func(int, int) error { return p.order(ctx, token, o) })
		took := time.Since(began).Seconds()
		if load.Failed > 0 {
			return fmt.Errorf("%d orders failed: %w", load.Failed, load.First)
		}
		rate, p99 = append(rate, load.PerSecond), append(p99, measure.Milliseconds(load.P99))
		generator = append(generator, (cpuOf(syscall.RUSAGE_SELF)-before).Seconds()/took)
		server = append(server, (p.cpu()-serverBefore).Seconds()/took)
		report.Note("run %d: %.0f orders/s, p50 %.1f ms, p99 %.1f ms; CPU: load generator %.2f cores, platform %.2f cores",
			i+1, load.PerSecond, measure.Milliseconds(load.P50), measure.Milliseconds(load.P99), generator[i], server[i])
	}
	report.Result("orders_per_s", rate, "orders/s")
	report.Result("orders_p99_ms", p99, "ms")
	report.Result("orders_generator_cpu", generator, "cores")
	report.Result("orders_platform_cpu", server, "cores")
	return nil
}

func cpuOf(who int) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(who, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
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
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/orders", bytes.NewReader(data))
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
	process *exec.Cmd
	client  *http.Client
	url     string
	schema  string
	folder  string
}

func startPlatform(ctx context.Context, roles string) (*platform, error) {
	folder, err := os.MkdirTemp("", "bench-orders")
	if err != nil {
		return nil, err
	}
	binary := filepath.Join(folder, "andes")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/andes").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build: %w: %s", err, out)
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("bench_orders_%d", time.Now().UnixNano())
	env := append(os.Environ(),
		"ANDES_ENV=development", "ANDES_HTTP_ADDR="+address, "ANDES_LOG_LEVEL=warn",
		"ANDES_QUOTA_TIERS=bronze=20/2,silver=100/10,gold=100000/100000", "ANDES_QUOTA_CLIENT=100000", "ANDES_QUOTA_ENDPOINT=100000",
		"ANDES_POSTGRES_SCHEMA="+name, "ANDES_REDIS_PREFIX="+name+":", "ANDES_KAFKA_PREFIX="+name+".", "ANDES_KAFKA_PARTITIONS=3",
		"ANDES_PAYMENT_WEBHOOK_SECRET=whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	migrate := exec.CommandContext(ctx, binary, "migrate")
	migrate.Env = env
	if out, err := migrate.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("migrate: %w: %s", err, out)
	}
	process := exec.CommandContext(ctx, binary, "serve", "--roles", roles)
	process.Env, process.Stderr = env, os.Stderr
	if err := process.Start(); err != nil {
		return nil, err
	}
	p := &platform{
		process: process, url: "http://" + address, schema: name, folder: folder,
		client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true}},
	}
	return p, p.ready(ctx)
}

const readyWait = 30 * time.Second

func (p *platform) ready(ctx context.Context) error {
	deadline := time.Now().Add(readyWait)
	for time.Now().Before(deadline) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/readyz", nil)
		if err != nil {
			return err
		}
		if p.do(request, http.StatusOK, io.Discard) == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	p.stop()
	return errors.New("the platform did not become ready")
}

func (p *platform) token(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/dev/token", bytes.NewReader([]byte(`{"partner_id":"bench","roles":[]}`)))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	var answer bytes.Buffer
	if err := p.do(request, http.StatusOK, &answer); err != nil {
		return "", err
	}
	var token struct {
		AccessToken string `json:"access_token"`
	}
	return token.AccessToken, json.Unmarshal(answer.Bytes(), &token)
}

// cpu reads what the platform's process has used so far.
func (p *platform) cpu() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.process.Process.Pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	var user, system int64
	if _, err := fmt.Sscan(string(fields[11])+" "+string(fields[12]), &user, &system); err != nil {
		return 0
	}
	const ticksPerSecond = 100 // USER_HZ, fixed on Linux
	return time.Duration(user+system) * time.Second / ticksPerSecond
}

func (p *platform) stop() {
	_ = p.process.Process.Signal(syscall.SIGTERM)
	_ = p.process.Wait()
	_ = os.RemoveAll(p.folder)
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
