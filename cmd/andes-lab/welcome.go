package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"andes/test/lab/retail"
)

// welcomeCmd greets who has just started the platform.
type welcomeCmd struct {
	addresses
	product
	dataFlags
	Partner string        `default:"demo" help:"Partner whose token is shown."`
	Wait    time.Duration `default:"90s" help:"How long to wait for the catalogue to be synced."`
}

const welcomeText = `
Andes is running.

  partner API   %[1]s/docs            OpenAPI: %[1]s/openapi.json
  health        %[1]s/readyz          metrics: %[1]s/metrics
  simulators    ERP %[2]s · WMS %[3]s · OMS %[4]s
                gateway %[5]s · partner's receiver %[6]s/webhooks

The partner %[7]q with a token (one hour; make run gives a new one), then three commands to try:

  export ANDES=%[1]s TOKEN=%[8]s

  curl -s -H "Authorization: Bearer $TOKEN" "$ANDES/v1/stock?sku=%[9]s"
  curl -s -H "Authorization: Bearer $TOKEN" "$ANDES/v1/prices?sku=%[9]s"
  curl -si -H "Authorization: Bearer $TOKEN" -H "Idempotency-Key: k1" -H 'Content-Type: application/json' \
       -d '{"currency":"GBP","lines":[{"sku":"%[10]s","quantity":1}],"payment":{"token":"tok_visa"}}' $ANDES/v1/orders

make demo replays a day of real orders (SPEED=1500: in two minutes); make stop ends it all and keeps the data.
`

// Run sets the partner up, waits for the first sync, and prints what to try.
func (c *welcomeCmd) Run(ctx context.Context) error {
	base := c.product.url()
	if err := ensurePartner(ctx, base, c.Partner, "gold"); err != nil {
		return err
	}
	token, err := devToken(ctx, base, c.Partner)
	if err != nil {
		return err
	}
	set, err := retail.Find(c.Data, c.Seed)
	if err != nil {
		return err
	}
	catalogue, err := set.Derive(retail.CatalogueConfig{Seed: c.Seed})
	if err != nil {
		return err
	}
	sku, err := c.awaitStock(ctx, newCaller(base, token), catalogue)
	if err != nil {
		return err
	}
	fmt.Printf(welcomeText, base, c.ERP, c.WMS, c.OMS, c.Payment, c.Receiver, c.Partner, token, url.QueryEscape(sku), sku)
	return nil
}

// awaitStock waits until a SKU of the catalogue can be ordered, and gives it.
func (c *welcomeCmd) awaitStock(ctx context.Context, partner *caller, catalogue retail.Catalogue) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	for {
		for _, product := range firstProducts(catalogue) {
			if orderable(ctx, partner, product) {
				return product, nil
			}
		}
		if !sleep(ctx, firstPause) {
			return "", errors.New("no product can be ordered yet: see .andes/run for the logs")
		}
	}
}

// firstProducts are a few to look at.
func firstProducts(catalogue retail.Catalogue) []string {
	const few = 20
	var skus []string
	for _, level := range catalogue.Stock {
		if len(skus) < few && level.OnHand > 10 && url.QueryEscape(level.SKU) == level.SKU {
			skus = append(skus, level.SKU)
		}
	}
	return skus
}

func orderable(ctx context.Context, partner *caller, sku string) bool {
	var stock, prices struct {
		Items []struct {
			Available int64 `json:"available"`
		} `json:"items"`
	}
	query := "?sku=" + url.QueryEscape(sku)
	if partner.into(ctx, http.MethodGet, "/v1/stock"+query, nil, &stock) != nil || partner.into(ctx, http.MethodGet, "/v1/prices"+query, nil, &prices) != nil {
		return false
	}
	return len(stock.Items) == 1 && stock.Items[0].Available > 0 && len(prices.Items) == 1
}
