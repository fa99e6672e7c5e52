//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/test/bench/andes"
	"andes/test/bench/seed"
)

// What is asked for.
const (
	skus       = 1000
	skusAsked  = 10  // by one question
	mostAsked  = 100 // by one GET
	mixedLists = 20_000
	channel    = "reader"
)

// platform is Andes, built and migrated, with SKUs and a partner.
type platform struct {
	*andes.Installation
	client *http.Client
}

// preparePlatform gives what it made even when it fails.
func preparePlatform(ctx context.Context, binary string) (*platform, error) {
	p := &platform{client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}}
	var err error
	// The quota is on; it only is so large that nobody is refused.
	if p.Installation, err = andes.Install(ctx, "reads", binary, "ANDES_KAFKA_PARTITIONS=1",
		"ANDES_QUOTA_TIERS=bronze=20/2,silver=100/10,gold=1000000/50", "ANDES_QUOTA_CLIENT=1000000", "ANDES_QUOTA_ENDPOINT=1000000"); err != nil {
		return p, err
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
	return seed.With(ctx, p.Name, func(ctx context.Context, executor eventstore.Executor) error {
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
func (p *platform) serve(ctx context.Context, more ...string) (*andes.Server, error) {
	server, err := p.Serve(ctx, "query", more...)
	if err != nil {
		return nil, err
	}
	return server, untilReady(ctx, server)
}

// lists puts all SKUs into lists of so many, in order.
func lists(each int) [][]string {
	var all [][]string
	for from := 0; from < skus; from += each {
		list := make([]string, each)
		for i := range list {
			list[i] = skuName(from + i)
		}
		all = append(all, list)
	}
	return all
}

// mixed are lists of SKUs at random, so many that none is asked again before it is forgotten.
func mixed() [][]string {
	random := rand.New(rand.NewPCG(1, 2))
	all := make([][]string, mixedLists)
	for i := range all {
		for _, n := range random.Perm(skus)[:skusAsked] {
			all[i] = append(all[i], skuName(n))
		}
	}
	return all
}

// questions asks all questions, and gives them with their answers.
func (p *platform) questions(ctx context.Context, of *andes.Server, lists [][]string) ([]question, error) {
	token, err := of.Token(ctx, channel)
	if err != nil {
		return nil, err
	}
	all := make([]question, len(lists))
	for i, list := range lists {
		target := "/v1/stock?sku=" + strings.Join(list, ",")
		body, err := p.read(ctx, of, target, token)
		if err != nil {
			return nil, err
		}
		request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", target, of.Address, token)
		all[i] = question{request: []byte(request), want: body}
	}
	return all, pause(ctx, settleTime)
}

// settleTime lets what was read be put back.
const settleTime = 500 * time.Millisecond

func (p *platform) read(ctx context.Context, of *andes.Server, target, token string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, of.URL()+target, nil)
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
