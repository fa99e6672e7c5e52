package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"andes/test/lab/retail"
)

// drillCmd is an operator's bad day in some minutes: an OMS that is ill, a message that can't succeed and a
// read model that is lost, each noticed, looked at and mended with the commands that an operator has.
type drillCmd struct {
	addresses
	product
	dataFlags
	Andes    string `default:"bin/andes" help:"The product's command."`
	Postgres string `name:"postgres-url" env:"ANDES_POSTGRES_URL" help:"System of record, to check invariants in."`
	Schema   string `name:"postgres-schema" env:"ANDES_POSTGRES_SCHEMA" default:"andes" help:"Schema of the system of record."`
	Redis    string `name:"redis-addrs" env:"ANDES_REDIS_ADDRS" help:"Read model, to be emptied."`
	Prefix   string `name:"redis-prefix" env:"ANDES_REDIS_PREFIX" default:"andes:" help:"Of the read model's keys."`
	Partner  string `default:"drill" help:"Partner that sells."`
}

const (
	drillDay      = "2011-12-05"
	drillSettle   = 2 * time.Minute
	drillPatience = 90 * time.Second // for anything that is waited for
	drillReads    = 50               // a second, while the read model is mended
)

// drill is one run.
type drill struct {
	*demo
	*terminal
	cmd  *drillCmd
	skus []string // that can be ordered
	next int      // number of the next order
}

// Run goes through the scenes. It fails at the first thing that is not as it must be.
func (c *drillCmd) Run(ctx context.Context) error {
	d, err := c.prepare(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	for _, scene := range []func(context.Context) error{d.allIsWell, d.illOMS, d.poison, d.lostReadModel} {
		if err := scene(ctx); err != nil {
			return errors.Join(err, d.mendOMS(context.WithoutCancel(ctx)))
		}
	}
	d.scene("Was anything lost, or done twice?")
	d.settle(ctx)
	d.check(ctx)
	broken := d.journal.nBroken
	for _, detail := range d.journal.details {
		fmt.Println("BROKEN", detail)
	}
	fmt.Printf("\n%d orders went through it in %s.\n", len(d.journal.accepted()), time.Since(began).Round(time.Second))
	fmt.Printf("RESULT drill_broken %d count\n", broken)
	if broken > 0 {
		return errBroken
	}
	return nil
}

// prepare sets a partner up with webhooks and a stocked warehouse, as a demo does.
func (c *drillCmd) prepare(ctx context.Context) (*drill, error) {
	set, err := retail.Find(c.Data, c.Seed)
	if err != nil {
		return nil, err
	}
	demo := &demo{
		cmd: &demoCmd{
			addresses: c.addresses, product: c.product, dataFlags: c.dataFlags, Postgres: c.Postgres, Schema: c.Schema,
			Partner: c.Partner, Day: drillDay, Days: 1, Concurrency: 4, Settle: drillSettle,
		},
		id: strconv.FormatInt(time.Now().Unix(), 36), lab: newLabs(c.addresses), journal: newJournal(),
	}
	d := &drill{demo: demo, cmd: c, terminal: &terminal{andes: c.Andes}}
	if d.self, err = os.Executable(); err != nil {
		return nil, err
	}
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
	settings, err := opsSettings(ctx, c.product.url())
	if err != nil {
		return nil, err
	}
	d.env = append(settings, "ANDES_LOG_LEVEL=error")
	catalogue, err := set.Derive(retail.CatalogueConfig{Day: drillDay, Days: 1, Seed: c.Seed})
	if err != nil {
		return nil, err
	}
	if d.skus = firstProducts(catalogue); len(d.skus) < 2 {
		return nil, errors.New("the catalogue has too few products that can be ordered")
	}
	d.begun, err = d.lab.baseline(ctx)
	return d, err
}

// allIsWell shows what an operator sees on a good day.
func (d *drill) allIsWell(ctx context.Context) error {
	d.scene("A good day")
	if err := d.order(ctx, d.skus[0]); err != nil {
		return err
	}
	if err := d.run(ctx, "dlq", "stats"); err != nil {
		return err
	}
	return d.run(ctx, "projections", "status")
}

// order sells one unit of a SKU.
func (d *drill) order(ctx context.Context, sku string) error {
	d.next++
	line := retail.Line{SKU: sku, Quantity: 1, UnitPrice: "1.00"} // the price that is quoted counts
	s := &sale{Order: retail.Order{InvoiceNo: "drill-" + strconv.Itoa(d.next), Lines: []retail.Line{line}}, number: d.next, token: "tok_visa"}
	d.sell(ctx, s)
	if s.placed == nil {
		return fmt.Errorf("order of %s was not accepted", sku)
	}
	d.plan.tasks = append(d.plan.tasks, task{sale: s})
	return nil
}

// last is the order that was placed last.
func (d *drill) last() *placed {
	orders := d.journal.accepted()
	return orders[len(orders)-1]
}
