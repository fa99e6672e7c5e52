package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"time"

	"andes/test/lab/erp"
	"andes/test/lab/feed"
	"andes/test/lab/gateway"
	"andes/test/lab/retail"
	"andes/test/lab/wms"
	"andes/test/lab/world"
)

type simCmd struct {
	addresses
	product
	dataFlags
	Day    string `default:"2011-12-05" help:"First day that the warehouse is stocked for."`
	Days   int    `default:"1" help:"How many days it is stocked for."`
	Secret string `name:"webhook-secret" env:"ANDES_PAYMENT_WEBHOOK_SECRET" help:"Secret (whsec_…) that the gateway signs with."`
	State  string `env:"LAB_STATE_DIR" type:"path" help:"Folder where the systems' state is kept from a clean stop to the next start; without it they start anew."`
}

const gatewayWebhookPath = "/v1/payment-webhooks/generic"

// Run serves until ctx ends.
func (c *simCmd) Run(ctx context.Context) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	w, err := world.Start(ctx, cfg)
	if err != nil {
		return err
	}
	for _, s := range []struct{ name, url, holds string }{
		{"erp", w.URLs.ERP, fmt.Sprintf("%d products, %d prices", len(cfg.Products), len(cfg.Prices))},
		{"wms", w.URLs.WMS, fmt.Sprintf("%d SKUs", len(cfg.Stock))},
		{"oms", w.URLs.OMS, "hands its orders to the wms"},
		{"payment", w.URLs.Payment, "tells " + cfg.Payment.WebhookURL},
		{"receiver", w.URLs.Receiver, "a partner's endpoint: /webhooks"},
	} {
		fmt.Printf("%-9s %-24s %s\n", s.name, s.url, s.holds)
	}
	<-ctx.Done()
	w.Close()
	return saveState(c.State, w.Snapshot())
}

func (c *simCmd) config() (world.Config, error) {
	cfg := world.Config{Seed: c.Seed}
	addrs, err := c.listenAddrs()
	if err != nil {
		return cfg, err
	}
	cfg.Addrs = addrs
	if cfg.Payment, err = c.gatewayKnobs(); err != nil {
		return cfg, err
	}
	if cfg.Snapshot, err = takeState(c.State); err != nil {
		return cfg, err
	}
	if snap := cfg.Snapshot; snap != nil {
		cfg.Products, cfg.Prices, cfg.Stock = snap.Products, snap.Prices, snap.WMS.Stock
		fmt.Printf("data      taken up from %s\n", c.State)
		return cfg, nil
	}
	// Versions and sequence numbers of a world without memory begin above
	// those of any earlier one, so that what they say counts as news.
	now := time.Now()
	cfg.BaseVersion = now.UnixMilli()
	return cfg, c.stockUp(&cfg, now)
}

func (c *simCmd) stockUp(cfg *world.Config, now time.Time) error {
	set, err := retail.Find(c.Data, c.Seed)
	if err != nil {
		return err
	}
	catalogue, err := set.Derive(retail.CatalogueConfig{Day: c.Day, Days: c.Days, Seed: c.Seed})
	if err != nil {
		return err
	}
	fmt.Printf("data      %s, stocked for %s", set.Source, c.Day)
	if c.Days > 1 {
		fmt.Printf(" and %d days more", c.Days-1)
	}
	fmt.Println()
	cfg.Products, cfg.Prices, cfg.Stock = rowsOf(catalogue, now)
	return nil
}

// rowsOf stamps the catalogue so that a hundred rows share each millisecond,
// as the rows of a nightly import do.
func rowsOf(c retail.Catalogue, now time.Time) ([]feed.Row[erp.Product], []feed.Row[erp.Price], []feed.Row[wms.Level]) {
	const tied = 100
	stamp := func(i, n int) time.Time { return now.Add(-time.Duration((n-i)/tied) * time.Millisecond) }
	products := make([]feed.Row[erp.Product], len(c.Products))
	for i, p := range c.Products {
		products[i] = erp.ProductRow(erp.Product(p), stamp(i, len(c.Products)))
	}
	prices := make([]feed.Row[erp.Price], len(c.Prices))
	for i, p := range c.Prices {
		prices[i] = erp.PriceRow(erp.Price(p), stamp(i, len(c.Prices)))
	}
	stock := make([]feed.Row[wms.Level], len(c.Stock))
	for i, l := range c.Stock {
		stock[i] = wms.LevelRow(wms.Level(l), stamp(i, len(c.Stock)))
	}
	return products, prices, stock
}

func (c *simCmd) gatewayKnobs() (*gateway.Knobs, error) {
	secret := c.Secret
	if secret == "" {
		var random [32]byte
		if _, err := rand.Read(random[:]); err != nil {
			return nil, fmt.Errorf("webhook secret: %w", err)
		}
		secret = "whsec_" + base64.StdEncoding.EncodeToString(random[:])
		fmt.Println("payment   no ANDES_PAYMENT_WEBHOOK_SECRET: signing with a secret nobody knows")
	}
	return &gateway.Knobs{
		DecideDelayMs: gateway.DefaultDecideDelayMs, WebhookURL: c.product.url() + gatewayWebhookPath, WebhookSecret: secret,
	}, nil
}

func (c *simCmd) listenAddrs() (world.Addrs, error) {
	var faults []error
	host := func(name, text string) string {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" || u.Port() == "" {
			faults = append(faults, fmt.Errorf("%s address %q is not http://HOST:PORT", name, text))
			return ""
		}
		return u.Host
	}
	a := world.Addrs{
		ERP: host("ERP", c.ERP), WMS: host("WMS", c.WMS), OMS: host("OMS", c.OMS),
		Payment: host("payment", c.Payment), Receiver: host("receiver", c.Receiver),
	}
	return a, errors.Join(faults...)
}
