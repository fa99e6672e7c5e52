package reads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"andes/test/bench/andes"
)

// platform is one process of Andes with the roles that reads need, on services of its own.
type platform struct {
	process  *exec.Cmd
	exited   chan error
	client   *http.Client
	URL      string
	log      *cappedFile
	folder   string
	stopping sync.Once
}

// roles: orders are not part of this lab.
const roles = "query,command,relay,projector,erp,wms"

// labSecret signs what ERP and WMS tell of changes, and the gateway's webhooks, which never come.
const labSecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// The partners that read.
const (
	goldPartner   = "lab-gold"
	bronzePartner = "lab-bronze"
)

// Bounds of waiting for the platform.
const (
	readyWait  = time.Minute
	stopWait   = 30 * time.Second
	lookEvery  = 100 * time.Millisecond
	askTimeout = 10 * time.Second
	maxBody    = 16 << 20
	maxLog     = 8 << 20
)

// settingsOf are those that differ from the defaults, and are told in the report.
func settingsOf(o Options) []string {
	return []string{
		"ANDES_QUOTA_TIERS=bronze=20/2,silver=100/10,gold=100000/100000", "ANDES_QUOTA_CLIENT=100000", "ANDES_QUOTA_ENDPOINT=100000",
		"ANDES_STOCK_STALE=" + o.stale().String(), "ANDES_PRICE_STALE=" + o.stale().String(), "ANDES_BREAKER_OPEN_FOR=" + openFor.String(),
		"ANDES_ERP_POLL=" + erpPoll.String(),
	}
}

// startPlatform gives what it started even when it fails.
func startPlatform(ctx context.Context, o Options, systems []string) (*platform, error) {
	p := &platform{
		client: &http.Client{Timeout: askTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true}},
		exited: make(chan error, 1),
	}
	var err error
	if p.folder, err = os.MkdirTemp("", "andes-lab-reads"); err != nil {
		return p, err
	}
	log, err := os.Create(filepath.Join(o.Folder, "andes.log"))
	if err != nil {
		return p, err
	}
	p.log = &cappedFile{file: log}
	address, err := andes.FreeAddress()
	if err != nil {
		return p, err
	}
	p.URL = "http://" + address
	name := fmt.Sprintf("lab_reads_%d", time.Now().UnixNano())
	env := slices.Concat(os.Environ(), []string{
		"ANDES_ENV=development", "ANDES_LOG_LEVEL=warn", "ANDES_HTTP_ADDR=" + address, "ANDES_PAYMENT_WEBHOOK_SECRET=" + labSecret,
		"ANDES_DEV_KEY_FILE=" + filepath.Join(p.folder, "issuer.pem"),
		"ANDES_POSTGRES_SCHEMA=" + name, "ANDES_REDIS_PREFIX=" + name + ":", "ANDES_KAFKA_PREFIX=" + name + ".",
	}, settingsOf(o), systems)
	// A broker that has just started may not have a leader for each new topic yet.
	err = p.until(ctx, "andes migrate", func() error {
		migrate := exec.CommandContext(ctx, o.Andes, "migrate")
		migrate.Env = env
		out, err := migrate.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	if err != nil {
		return p, err
	}
	// It ends by its own stop, not by ctx: what was measured is still asked of it when a run is interrupted.
	p.process = exec.Command(o.Andes, "serve", "--roles", roles)
	p.process.Env, p.process.Stderr = env, p.log
	if err := p.process.Start(); err != nil {
		p.process = nil
		return p, err
	}
	go func() { p.exited <- p.process.Wait() }()
	return p, p.until(ctx, "Andes is ready", func() error { return p.ask(ctx, http.MethodGet, "/readyz", "", nil, nil) })
}

// cappedFile takes the log's first bytes and leaves the rest out.
type cappedFile struct {
	file    *os.File
	written int
}

// Write implements io.Writer.
func (f *cappedFile) Write(text []byte) (int, error) {
	if f.written+len(text) <= maxLog {
		n, err := f.file.Write(text)
		f.written += n
		return n, err
	}
	return len(text), nil
}

// until waits for a condition.
func (p *platform) until(ctx context.Context, what string, condition func() error) error {
	deadline := time.Now().Add(readyWait)
	for {
		err := condition()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %s: %s: %w", readyWait, what, err)
		}
		select {
		case ended := <-p.exited:
			p.exited <- ended
			return fmt.Errorf("andes serve ended: %w; its log is beside the results", errors.Join(errors.New("before "+what), ended))
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lookEvery):
		}
	}
}

// ask makes a JSON call that has to be answered with a 2xx.
func (p *platform) ask(ctx context.Context, method, path, token string, body, into any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, p.URL+path, content)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s %.300s", method, path, response.Status, text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

// partner sets a partner up and gives its token.
func (p *platform) partner(ctx context.Context, id, tier string) (string, error) {
	operator, err := p.token(ctx, "lab-operator", "ops-admin")
	if err != nil {
		return "", err
	}
	body := map[string]any{"name": "Lab channel " + id, "tier": tier, "policy": map[string]any{"priceList": priceList, "currency": currency}}
	if err := p.ask(ctx, http.MethodPut, "/ops/partners/"+id, operator, body, nil); err != nil {
		return "", err
	}
	return p.token(ctx, id)
}

func (p *platform) token(ctx context.Context, partner string, granted ...string) (string, error) {
	var got struct {
		AccessToken string `json:"access_token"`
	}
	err := p.ask(ctx, http.MethodPost, "/dev/token", "", map[string]any{"partner_id": partner, "roles": append([]string{}, granted...)}, &got)
	return got.AccessToken, err
}

// awaitCatalogue waits until all of it is answered.
func (p *platform) awaitCatalogue(ctx context.Context, token string, c catalogue) error {
	const most = 1000 // SKUs of a query
	for part := range slices.Chunk(c.items, most) {
		var names []string
		for _, item := range part {
			names = append(names, item.sku)
		}
		err := p.until(ctx, "the catalogue is synced", func() error {
			var stock stockAnswer
			var prices priceAnswer
			err := errors.Join(
				p.ask(ctx, http.MethodPost, "/v1/stock/query", token, map[string]any{"skus": names}, &stock),
				p.ask(ctx, http.MethodPost, "/v1/prices/query", token, map[string]any{"skus": names}, &prices))
			if err == nil && (len(stock.Items) < len(part) || len(prices.Items) < len(part)) {
				err = fmt.Errorf("%d levels and %d prices of %d", len(stock.Items), len(prices.Items), len(part))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// cpu is what the process has used so far.
func (p *platform) cpu() time.Duration { return andes.CPUOf(p.process.Process.Pid) }

// busy is the load average; 0 where there is none.
func busy() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	var lastMinute float64
	if _, err := fmt.Sscan(string(text), &lastMinute); err != nil {
		return 0
	}
	return lastMinute
}

// stop may be called again.
func (p *platform) stop() { p.stopping.Do(p.end) }

func (p *platform) end() {
	if p.process != nil {
		_ = p.process.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.exited:
		case <-time.After(stopWait):
			_ = p.process.Process.Kill()
			<-p.exited
		}
	}
	if p.log != nil {
		_ = p.log.file.Close()
	}
	p.client.CloseIdleConnections()
	_ = os.RemoveAll(p.folder)
}
