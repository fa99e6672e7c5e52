//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/test/bench/seed"
)

// What is asked for.
const (
	skus      = 1000
	skusAsked = 10 // by one question
	channel   = "reader"
)

// platform is Andes, built and migrated, with SKUs and a partner.
type platform struct {
	name, folder, binary string
	environment          []string
	client               *http.Client
}

// secret is of the gateway's webhooks, which are not used here.
const secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// preparePlatform gives what it made even when it fails.
func preparePlatform(ctx context.Context, binary string) (*platform, error) {
	p := &platform{
		name:   fmt.Sprintf("bench_reads_%d", time.Now().UnixNano()),
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}},
	}
	folder, err := os.MkdirTemp("", "bench-reads")
	if err != nil {
		return p, err
	}
	p.folder, p.binary = folder, binary
	if binary == "" {
		p.binary = filepath.Join(folder, "andes")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", p.binary, "./cmd/andes").CombinedOutput(); err != nil {
			return p, fmt.Errorf("build: %w: %s", err, out)
		}
	}
	p.environment = append(os.Environ(),
		"ANDES_ENV=development", "ANDES_LOG_LEVEL=warn", "ANDES_PAYMENT_WEBHOOK_SECRET="+secret, "ANDES_DEV_KEY_FILE="+filepath.Join(folder, "issuer.pem"),
		"ANDES_POSTGRES_SCHEMA="+p.name, "ANDES_REDIS_PREFIX="+p.name+":", "ANDES_KAFKA_PREFIX="+p.name+".", "ANDES_KAFKA_PARTITIONS=1",
		// The quota is on; it only is so large that nobody is refused.
		"ANDES_QUOTA_TIERS=bronze=20/2,silver=100/10,gold=1000000/50", "ANDES_QUOTA_CLIENT=1000000", "ANDES_QUOTA_ENDPOINT=1000000")
	migrate := exec.CommandContext(ctx, p.binary, "migrate")
	migrate.Env = p.environment
	if out, err := migrate.CombinedOutput(); err != nil {
		return p, fmt.Errorf("migrate: %w: %s", err, out)
	}
	return p, p.fill(ctx)
}

func skuName(i int) string { return fmt.Sprintf("SKU-%05d", i) }

const seedTimeout = time.Minute

// fill writes to PostgreSQL. The first read of each SKU brings it into the read model.
func (p *platform) fill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, seedTimeout)
	defer cancel()
	at := time.Now()
	return seed.With(ctx, p.name, func(ctx context.Context, executor eventstore.Executor) error {
		commands := []eventstore.Command{partner.Configure{Partner: partner.State{
			ID: channel, Name: "Reader", Tier: "gold", Policy: partner.Policy{PriceList: "retail", Currency: "GBP"},
		}}}
		for i := range skus {
			commands = append(commands,
				product.Report{SKU: skuName(i), Name: "Product", Segment: "gift", SourceVersion: 1, At: at},
				price.Report{List: "retail", SKU: skuName(i), Amount: "2.55", Currency: "GBP", SourceVersion: 1, At: at},
				stock.Report{SKU: skuName(i), OnHand: 1000, SourceVersion: 1, At: at})
		}
		for _, command := range commands {
			if _, err := executor.Execute(ctx, eventstore.Request{Command: command}); err != nil {
				return err
			}
		}
		return nil
	})
}

// serve starts an instance that answers reads.
func (p *platform) serve(ctx context.Context, more []string) (*server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, p.binary, "serve", "--roles", "query")
	command.Env = append(append(p.environment[:len(p.environment):len(p.environment)], "ANDES_HTTP_ADDR="+address), more...)
	return startServer(ctx, command, address)
}

// questions asks each question until it is answered from the read model alone, and gives them with their answers.
func (p *platform) questions(ctx context.Context, of *server) ([]question, error) {
	token, err := p.token(ctx, of)
	if err != nil {
		return nil, err
	}
	var all []question
	for from := 0; from < skus; from += skusAsked {
		var names []string
		for i := range skusAsked {
			names = append(names, skuName(from+i))
		}
		target := "/v1/stock?sku=" + strings.Join(names, ",")
		body, err := p.read(ctx, of, target, token)
		if err != nil {
			return nil, err
		}
		request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", target, of.address, token)
		all = append(all, question{request: []byte(request), want: body})
	}
	return all, pause(ctx, settleTime)
}

// settleTime lets what was read be put back.
const settleTime = 500 * time.Millisecond

func (p *platform) read(ctx context.Context, of *server, target, token string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+of.address+target, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("answered %s: %s", response.Status, body)
	}
	return body, err
}

func (p *platform) token(ctx context.Context, of *server) (string, error) {
	body := fmt.Sprintf(`{"partner_id":%q,"roles":[]}`, channel)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+of.address+"/dev/token", bytes.NewReader([]byte(body)))
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

func (p *platform) stop() { _ = os.RemoveAll(p.folder) }
