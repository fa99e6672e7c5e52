package main

import (
	"context"
	"net/http"
	"strings"
	"time"

	"andes/test/bench/andes"
)

// platform is some instances of `andes serve` that share their services.
type platform struct {
	installation *andes.Installation
	servers      []*andes.Server
	client       *http.Client
	tokens       map[string]string // by partner
	target       string            // of a read
}

// startPlatform gives what it started even when it fails.
func startPlatform(ctx context.Context, skus int) (*platform, error) {
	p := &platform{
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true}},
		tokens: map[string]string{},
	}
	var err error
	if p.installation, err = andes.Install(ctx, "quota", "", "ANDES_POSTGRES_CONNS=4", "ANDES_KAFKA_PARTITIONS=1"); err != nil {
		return p, err
	}
	if err := fill(ctx, p.installation.Name, skus); err != nil {
		return p, err
	}
	var names []string
	for i := range skus {
		names = append(names, skuName(i))
	}
	p.target = "/v1/stock?sku=" + strings.Join(names, ",")
	for range instances {
		server, err := p.installation.Serve(ctx, "query")
		if err != nil {
			return p, err
		}
		p.servers = append(p.servers, server)
		if err := server.Ready(ctx); err != nil {
			return p, err
		}
	}
	for _, partner := range []string{flooding, neighbour} {
		if p.tokens[partner], err = p.servers[0].Token(ctx, partner); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p *platform) stop() {
	for _, server := range p.servers {
		server.Stop()
	}
	p.installation.Remove()
}
