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
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// platform is some instances of `andes serve` that share their services.
type platform struct {
	processes []*exec.Cmd
	client    *http.Client
	urls      []string
	tokens    map[string]string // by partner
	target    string            // of a read
	folder    string
}

// secret is of the gateway's webhooks, which are not used here.
const secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// startPlatform gives what it started even when it fails.
func startPlatform(ctx context.Context, skus int) (*platform, error) {
	p := &platform{
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true}},
		tokens: map[string]string{},
	}
	folder, err := os.MkdirTemp("", "bench-quota")
	if err != nil {
		return p, err
	}
	p.folder = folder
	binary := filepath.Join(folder, "andes")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/andes").CombinedOutput(); err != nil {
		return p, fmt.Errorf("build: %w: %s", err, out)
	}
	name := fmt.Sprintf("bench_quota_%d", time.Now().UnixNano())
	env := append(os.Environ(),
		"ANDES_ENV=development", "ANDES_LOG_LEVEL=warn", "ANDES_PAYMENT_WEBHOOK_SECRET="+secret, "ANDES_DEV_KEY_FILE="+filepath.Join(folder, "issuer.pem"),
		"ANDES_POSTGRES_SCHEMA="+name, "ANDES_POSTGRES_CONNS=4", "ANDES_REDIS_PREFIX="+name+":", "ANDES_KAFKA_PREFIX="+name+".", "ANDES_KAFKA_PARTITIONS=1")
	migrate := exec.CommandContext(ctx, binary, "migrate")
	migrate.Env = env
	if out, err := migrate.CombinedOutput(); err != nil {
		return p, fmt.Errorf("migrate: %w: %s", err, out)
	}
	if err := fill(ctx, name, skus); err != nil {
		return p, err
	}
	var names []string
	for i := range skus {
		names = append(names, skuName(i))
	}
	p.target = "/v1/stock?sku=" + strings.Join(names, ",")
	for range instances {
		if err := p.start(ctx, binary, env); err != nil {
			return p, err
		}
	}
	for _, partner := range []string{flooding, neighbour} {
		if p.tokens[partner], err = p.token(ctx, partner); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p *platform) start(ctx context.Context, binary string, env []string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return err
	}
	process := exec.CommandContext(ctx, binary, "serve", "--roles", "query")
	process.Env, process.Stderr = append(env, "ANDES_HTTP_ADDR="+address), os.Stderr
	if err := process.Start(); err != nil {
		return err
	}
	p.processes, p.urls = append(p.processes, process), append(p.urls, "http://"+address)
	return p.ready(ctx, "http://"+address)
}

const (
	readyWait  = 30 * time.Second
	readyPause = 100 * time.Millisecond
)

func (p *platform) ready(ctx context.Context, url string) error {
	for deadline := time.Now().Add(readyWait); time.Now().Before(deadline); {
		response, err := p.client.Get(url + "/readyz")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(readyPause):
		}
	}
	return errors.New("an instance did not become ready")
}

func (p *platform) token(ctx context.Context, partner string) (string, error) {
	body := fmt.Sprintf(`{"partner_id":%q,"roles":[]}`, partner)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.urls[0]+"/dev/token", bytes.NewReader([]byte(body)))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := p.client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	var token struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<16)).Decode(&token); err != nil {
		return "", err
	}
	return token.AccessToken, nil
}

func (p *platform) stop() {
	for _, process := range p.processes {
		_ = process.Process.Signal(syscall.SIGTERM)
	}
	for _, process := range p.processes {
		_ = process.Wait()
	}
	_ = os.RemoveAll(p.folder)
}
