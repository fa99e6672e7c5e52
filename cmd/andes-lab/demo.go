package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"andes/test/lab/retail"
)

type demoCmd struct {
	addresses
	product
	dataFlags
	Postgres    string        `name:"postgres-url" env:"ANDES_POSTGRES_URL" help:"System of record, to check invariants in; without it those checks are left out."`
	Schema      string        `name:"postgres-schema" env:"ANDES_POSTGRES_SCHEMA" default:"andes" help:"Schema of the system of record."`
	Partner     string        `default:"demo" help:"Partner that sells."`
	Day         string        `default:"2011-12-05" help:"First trading day to replay."`
	Days        int           `default:"1" help:"How many days."`
	Speed       float64       `help:"How many times faster than in life; by default as fast as ends in about 90 s."`
	Concurrency int           `default:"16" help:"Sales at once."`
	Settle      time.Duration `default:"3m" help:"How long to wait at the end until every order is in a final state."`

	patience time.Duration // of the checks; zero is checkPatience
}

const (
	demoTarget     = 90 * time.Second // length of a replay without --speed
	maxConcurrency = 256
	restockTimeout = 60 * time.Second
)

var errBroken = errors.New("something is broken: see above")

// demo is one run: what is replayed, against whom, and what came of it.
type demo struct {
	cmd     *demoCmd
	id      string // makes this run's references and keys its own
	channel *channel
	lab     labs
	plan    plan
	journal *journal
	begun   baseline
	probes  []*probe
}

// Run replays the days and checks what came of them.
func (c *demoCmd) Run(ctx context.Context) error {
	if c.Concurrency < 1 || c.Concurrency > maxConcurrency || c.Speed < 0 {
		return fmt.Errorf("concurrency is 1..%d, speed not negative", maxConcurrency)
	}
	d, err := c.prepare(ctx)
	if err != nil {
		return err
	}
	d.replay(ctx)
	if ctx.Err() == nil {
		d.settle(ctx)
		d.check(ctx)
	} else {
		d.journal.broken("interrupted: orders were not followed to their end, nothing was checked")
	}
	broken := d.report(os.Stdout)
	fmt.Printf("RESULT demo_broken %d count\n", broken)
	if broken > 0 {
		return errBroken
	}
	return nil
}

func (c *demoCmd) prepare(ctx context.Context) (*demo, error) {
	set, err := retail.Find(c.Data, c.Seed)
	if err != nil {
		return nil, err
	}
	orders, err := set.Orders(c.Day, c.Days)
	if err != nil {
		return nil, err
	}
	if len(orders) == 0 {
		days := set.Days()
		return nil, fmt.Errorf("no orders on %s; the set has %s to %s", c.Day, days[0], days[len(days)-1])
	}
	d := &demo{
		cmd: c, id: strconv.FormatInt(time.Now().Unix(), 36), lab: newLabs(c.addresses),
		journal: newJournal(), plan: newPlan(orders),
	}
	fmt.Printf("data      %s\n", set.Source)
	fmt.Printf("replay    %s, %d day(s): %s\n", c.Day, c.Days, d.plan)
	if err := ensurePartner(ctx, c.product.url(), c.Partner, "gold"); err != nil {
		return nil, err
	}
	if d.channel, err = openChannel(ctx, c.product.url(), c.Partner, d.journal); err != nil {
		return nil, err
	}
	if err := d.subscribe(ctx); err != nil {
		return nil, err
	}
	if err := d.restock(ctx, set); err != nil {
		return nil, err
	}
	if d.begun, err = d.lab.baseline(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// subscribe has the partner's events sent to the lab's receiver. An earlier
// run's subscription is ended; its secret stays good for what is under way.
func (d *demo) subscribe(ctx context.Context) error {
	url := d.lab.receiver.base + "/webhooks"
	d.channel.unsubscribe(ctx, url)
	var made struct {
		ID     string `json:"id"`
		Secret string `json:"secret"`
	}
	body := map[string]any{"url": url, "types": []string{"*"}}
	if err := d.channel.into(ctx, http.MethodPost, "/v1/subscriptions", body, &made, "Idempotency-Key", "demo-sub-"+d.id); err != nil {
		return fmt.Errorf("subscribe to webhooks: %w", err)
	}
	var knobs struct {
		Secret string `json:"secret"`
	}
	if err := d.lab.receiver.get(ctx, "/_lab/knobs", &knobs); err != nil {
		return fmt.Errorf("receiver's knobs: %w", err)
	}
	secrets := made.Secret
	if knobs.Secret != "" {
		secrets += " " + firstWord(knobs.Secret)
	}
	if err := d.lab.receiver.into(ctx, http.MethodPut, "/_lab/knobs", map[string]string{"secret": secrets}, nil); err != nil {
		return fmt.Errorf("receiver's secret: %w", err)
	}
	return nil
}

// restock sets the warehouse to the day's demand, as deliveries would, and
// waits until the channel sees it.
func (d *demo) restock(ctx context.Context, set *retail.Set) error {
	catalogue, err := set.Derive(retail.CatalogueConfig{Day: d.cmd.Day, Days: d.cmd.Days, Seed: d.cmd.Seed})
	if err != nil {
		return err
	}
	changed, err := d.lab.setLevels(ctx, catalogue.Stock)
	if err != nil {
		return fmt.Errorf("restock: %w", err)
	}
	fmt.Printf("warehouse %d SKUs stocked, %d of them with too few for the day\n", len(catalogue.Stock), len(catalogue.Short))
	return d.awaitCatalogue(ctx, catalogue, changed)
}

// awaitCatalogue waits until the platform has read the legacy systems.
func (d *demo) awaitCatalogue(ctx context.Context, c retail.Catalogue, changed []retail.StockLevel) error {
	ctx, cancel := context.WithTimeout(ctx, restockTimeout)
	defer cancel()
	levels := sample(changed, maxSKUsPerRead)
	if len(levels) == 0 {
		levels = sample(c.Stock, maxSKUsPerRead)
	}
	var priced []string
	for _, p := range sample(c.Prices, maxSKUsPerRead) {
		if p.Valid() {
			priced = append(priced, p.SKU)
		}
	}
	for {
		missing := d.channel.missing(ctx, levels, priced)
		if missing == "" {
			return nil
		}
		if !sleep(ctx, probePause) {
			return fmt.Errorf("the platform does not show the legacy systems' catalogue within %s: %s", restockTimeout, missing)
		}
	}
}

// sample takes at most n evenly spaced items, the last one among them.
func sample[T any](items []T, n int) []T {
	if len(items) <= n {
		return items
	}
	out := make([]T, n)
	for i := range out {
		out[i] = items[(i+1)*len(items)/n-1]
	}
	return out
}
