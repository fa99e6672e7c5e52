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
	Kind    string        `name:"erp-kind" env:"ANDES_ERP_KIND" help:"tryton: ERP, WMS and OMS are a Tryton."`
	SKUs    []string      `name:"sku" env:"LAB_SKUS" help:"SKUs to look at; without them some of the simulators' own."`
}

const welcomeText = `
Andes is running.

  partner API   %[1]s/docs            OpenAPI: %[1]s/openapi.json
  health        %[1]s/readyz          metrics: %[1]s/metrics
  %[2]s

The partner %[3]q with a token (one hour; make run gives a new one), then three commands to try:

  export ANDES=%[1]s TOKEN=%[4]s RECEIVER=%[8]s

  curl -s -H "Authorization: Bearer $TOKEN" "$ANDES/v1/stock?sku=%[5]s"
  curl -s -H "Authorization: Bearer $TOKEN" "$ANDES/v1/prices?sku=%[5]s"
  curl -si -H "Authorization: Bearer $TOKEN" -H "Idempotency-Key: k1" -H 'Content-Type: application/json' \
       -d '{"currency":"GBP","lines":[{"sku":"%[6]s","quantity":1}],"payment":{"token":"tok_visa"}}' $ANDES/v1/orders

For all commands of the README, those of operators too (andes dlq, guards, promo, events …):

  eval "$(scripts/platform env)"

%[7]s; make stop ends it all and keeps the data.
`

// What is told of the systems behind, and what to do next.
const (
	simulated     = "simulators    ERP %s · WMS %s · OMS %s\n                gateway %s · partner's receiver %s/webhooks"
	simulatedNext = "make demo replays a day of real orders (SPEED=1500: in two minutes)"
	tryton        = "Tryton        %s (ERP, WMS and OMS; database tryton, user admin, password admin)\n  simulators    gateway %s · partner's receiver %s/webhooks"
	trytonNext    = `What people do in Tryton, and what comes of it:

  scripts/tryton/clerk price %[1]s 5.50     # in a few seconds the price is another one
  scripts/tryton/clerk receive %[1]s 10     # and there are more of it
  scripts/tryton/clerk ship ORDER_ID          # GET $ANDES/v1/orders/ORDER_ID tells that it is delivered

make run without ERP=tryton goes back to the simulators`
)

// told gives the texts of the systems behind.
func (c *welcomeCmd) told(sku string) (systems, next string) {
	if c.Kind == "tryton" {
		return fmt.Sprintf(tryton, c.ERP, c.Payment, c.Receiver), fmt.Sprintf(trytonNext, sku)
	}
	return fmt.Sprintf(simulated, c.ERP, c.WMS, c.OMS, c.Payment, c.Receiver), simulatedNext
}

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
	skus := c.SKUs
	if len(skus) == 0 {
		if skus, err = c.simulatedSKUs(); err != nil {
			return err
		}
	}
	sku, err := c.awaitStock(ctx, newCaller(base, token), skus)
	if err != nil {
		return err
	}
	systems, next := c.told(sku)
	fmt.Printf(welcomeText, base, systems, c.Partner, token, url.QueryEscape(sku), sku, next, c.Receiver)
	return nil
}

// simulatedSKUs are a few to look at.
func (c *welcomeCmd) simulatedSKUs() ([]string, error) {
	set, err := retail.Find(c.Data, c.Seed)
	if err != nil {
		return nil, err
	}
	catalogue, err := set.Derive(retail.CatalogueConfig{Seed: c.Seed})
	return firstProducts(catalogue), err
}

// awaitStock waits until one of the SKUs can be ordered, and gives it.
func (c *welcomeCmd) awaitStock(ctx context.Context, partner *caller, skus []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	for {
		for _, product := range skus {
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
