package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"andes/commands/partner"
	"andes/eventstore"
	"andes/test/bench/seed"
	"andes/test/lab/feed"
	"andes/test/lab/wms"
)

// secret signs the warehouse's pushes, and the gateway's webhooks, which are not used here.
const secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

const (
	readyWait  = 60 * time.Second
	readyPause = 100 * time.Millisecond
	maxAnswer  = 1 << 16
)

// platform is a running `andes serve` and the warehouse that it reads.
type platform struct {
	process   *exec.Cmd
	client    *http.Client
	url       string
	token     string
	folder    string
	warehouse *wms.Sim
	server    *httptest.Server

	mu    sync.Mutex
	asked []time.Time // when polls of the levels arrived, the last few
}

const maxAsked = 100

func skuName(i int) string { return fmt.Sprintf("SKU-%05d", i) }

// start gives what it started even when it fails.
func start(ctx context.Context, o options, interval time.Duration, push bool) (*platform, error) {
	p := &platform{client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}}
	if err := p.openWarehouse(o.skus); err != nil {
		return p, err
	}
	folder, err := os.MkdirTemp("", "bench-freshness")
	if err != nil {
		return p, err
	}
	p.folder = folder
	binary := filepath.Join(folder, "andes")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/andes").CombinedOutput(); err != nil {
		return p, fmt.Errorf("build: %w: %s", err, out)
	}
	name := fmt.Sprintf("bench_freshness_%d", time.Now().UnixNano())
	address, err := freeAddress()
	if err != nil {
		return p, err
	}
	p.url = "http://" + address
	env := append(os.Environ(),
		"ANDES_ENV=development", "ANDES_LOG_LEVEL=warn", "ANDES_HTTP_ADDR="+address, "ANDES_QUOTA=off",
		"ANDES_POSTGRES_SCHEMA="+name, "ANDES_REDIS_PREFIX="+name+":", "ANDES_KAFKA_PREFIX="+name+".", "ANDES_KAFKA_PARTITIONS=3",
		"ANDES_PAYMENT_WEBHOOK_SECRET="+secret, "ANDES_WMS_FEED_SECRET="+secret,
		"ANDES_WMS_URL="+p.server.URL, "ANDES_WMS_POLL="+interval.String())
	migrate := exec.CommandContext(ctx, binary, "migrate")
	migrate.Env = env
	if out, err := migrate.CombinedOutput(); err != nil {
		return p, fmt.Errorf("migrate: %w: %s", err, out)
	}
	if err := setUp(ctx, name); err != nil {
		return p, err
	}
	p.process = exec.CommandContext(ctx, binary, "serve", "--roles", "query,command,relay,projector,wms")
	p.process.Env, p.process.Stderr = env, os.Stderr
	if err := p.process.Start(); err != nil {
		return p, err
	}
	if err := p.ready(ctx); err != nil {
		return p, err
	}
	if push {
		err = p.warehouse.Turn(func(k *wms.Knobs) { k.PushURL, k.PushSecret = p.url+"/v1/feeds/wms/changes", secret })
	}
	return p, err
}

// openWarehouse serves a warehouse and remembers when its levels are asked for.
func (p *platform) openWarehouse(skus int) error {
	rows := make([]feed.Row[wms.Level], skus)
	for i := range rows {
		rows[i] = wms.LevelRow(wms.Level{SKU: skuName(i), OnHand: 1}, time.Now().Add(-time.Hour))
	}
	warehouse, err := wms.New(wms.Config{Stock: rows})
	if err != nil {
		return err
	}
	p.warehouse = warehouse
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stock" {
			p.mu.Lock()
			p.asked = append(p.asked[max(0, len(p.asked)-maxAsked):], time.Now())
			p.mu.Unlock()
		}
		warehouse.Handler().ServeHTTP(w, r)
	}))
	return nil
}

// askedAfter is when the first poll after a moment arrived; that moment, if none did.
func (p *platform) askedAfter(moment time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.asked {
		if at.After(moment) {
			return at
		}
	}
	return moment
}

func setUp(ctx context.Context, schema string) error {
	return seed.With(ctx, schema, func(ctx context.Context, executor eventstore.Executor) error {
		_, err := executor.Execute(ctx, eventstore.Request{Command: partner.Configure{Partner: partner.State{
			ID: "bench", Name: "Bench", Tier: "gold", Policy: partner.Policy{PriceList: "retail", Currency: "GBP"},
		}}})
		return err
	})
}

// ready waits until the last SKU of the warehouse is answered.
func (p *platform) ready(ctx context.Context) error {
	last := errors.New("it was not asked")
	for deadline := time.Now().Add(readyWait); time.Now().Before(deadline) && ctx.Err() == nil; pause(ctx, readyPause) {
		if p.token == "" {
			p.token, last = p.newToken(ctx)
			continue
		}
		var got int64
		if got, last = p.available(ctx, skuName(p.warehouse.Table().Len()-1)); last == nil && got == 1 {
			return nil
		}
	}
	return fmt.Errorf("the platform did not become ready: %w", errors.Join(last, ctx.Err()))
}

func (p *platform) newToken(ctx context.Context) (string, error) {
	var token struct {
		AccessToken string `json:"access_token"`
	}
	err := p.ask(ctx, http.MethodPost, "/dev/token", []byte(`{"partner_id":"bench","roles":[]}`), &token)
	return token.AccessToken, err
}

// available asks the API; -1 is a SKU that it does not know.
func (p *platform) available(ctx context.Context, sku string) (int64, error) {
	var answer struct {
		Items []struct{ Available int64 }
	}
	if err := p.ask(ctx, http.MethodGet, "/v1/stock?sku="+sku, nil, &answer); err != nil {
		return 0, err
	}
	if len(answer.Items) == 0 {
		return -1, nil
	}
	return answer.Items[0].Available, nil
}

func (p *platform) ask(ctx context.Context, method, target string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, p.url+target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if p.token != "" {
		request.Header.Set("Authorization", "Bearer "+p.token)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s %s", method, target, response.Status, text)
	}
	return json.Unmarshal(text, into)
}

func (p *platform) stop() {
	if p.process != nil && p.process.Process != nil {
		_ = p.process.Process.Signal(syscall.SIGTERM)
		_ = p.process.Wait()
	}
	if p.server != nil {
		p.server.Close()
		p.warehouse.Close()
	}
	if p.folder != "" {
		_ = os.RemoveAll(p.folder)
	}
}

// cpu is what this process has used so far.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
