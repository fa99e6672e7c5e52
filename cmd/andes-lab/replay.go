package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"andes/test/lab/money"
	"andes/test/lab/retail"
)

func isCancelled(err error) bool { return errors.Is(err, context.Canceled) }

// replay does the plan's tasks at their time, never more at once than asked for.
func (d *demo) replay(ctx context.Context) {
	speed := d.cmd.Speed
	if speed == 0 {
		speed = max(1, float64(d.plan.length)/float64(demoTarget))
	}
	fmt.Printf("speed     %.0f times: about %s, then a minute until the last order is at its end:\n", speed, (time.Duration(float64(d.plan.length) / speed)).Round(time.Second))
	fmt.Printf("          one payment is never reported, so the gateway is asked after a minute\n")
	probing, stopProbes := context.WithCancel(ctx)
	var probes sync.WaitGroup
	d.probes = d.newProbes()
	for _, p := range d.probes {
		probes.Go(func() { p.run(probing) })
	}
	bar := newProgress(ctx, "replay", len(d.plan.tasks))
	tasks := make(chan task)
	var workers sync.WaitGroup
	for range d.cmd.Concurrency {
		workers.Go(func() {
			for t := range tasks {
				d.do(ctx, t)
				bar.step()
			}
		})
	}
	d.feed(ctx, tasks, speed)
	workers.Wait()
	bar.stop()
	stopProbes()
	probes.Wait()
}

// feed hands out the tasks when they are due; a task that finds no free
// worker waits, and the lag is noted.
func (d *demo) feed(ctx context.Context, tasks chan<- task, speed float64) {
	defer close(tasks)
	start := time.Now()
	for _, t := range d.plan.tasks {
		due := start.Add(time.Duration(float64(t.offset) / speed))
		if !sleep(ctx, max(0, time.Until(due))) {
			return
		}
		select {
		case tasks <- t:
			d.journal.lag(time.Since(due))
		case <-ctx.Done():
			return
		}
	}
}

func (d *demo) do(ctx context.Context, t task) {
	switch {
	case t.sale != nil:
		d.sell(ctx, t.sale)
		close(t.sale.done)
	case t.cancel != nil:
		d.cancel(ctx, t.cancel)
	default:
		d.receive(ctx, t.delivery)
	}
}

type orderLine struct {
	SKU       string     `json:"sku"`
	Quantity  int64      `json:"quantity"`
	UnitPrice *orderCost `json:"unitPrice,omitempty"`
}

type orderCost struct {
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
}

type orderAnswer struct {
	OrderID string    `json:"orderId"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	OMSSync string    `json:"omsSync"`
	Total   orderCost `json:"total"`
}

// sell asks what a channel asks before it sells, and places the order.
func (d *demo) sell(ctx context.Context, s *sale) {
	skus := distinct(s.Lines)
	if _, err := d.channel.stock(ctx, kindRead, skus); err != nil {
		d.failed("stock", err)
		return
	}
	prices, err := d.channel.prices(ctx, kindRead, skus)
	if err != nil {
		d.failed("prices", err)
		return
	}
	lines, expected, fault := quote(s, prices)
	if s.odd == "" {
		s.odd = fault
	}
	body := map[string]any{
		"partnerOrderRef": s.InvoiceNo + "-" + d.id, "currency": retail.Currency, "lines": lines,
		"payment": map[string]string{"token": s.token},
	}
	if s.CustomerID != "" {
		body["customer"] = map[string]string{"name": "Customer " + s.CustomerID, "email": s.CustomerID + "@customers.example", "address": s.Country}
	}
	key := "demo-" + d.id + "-" + s.InvoiceNo
	got, err := d.channel.call(ctx, kindPlace, http.MethodPost, "/v1/orders", body, "Idempotency-Key", key)
	if err != nil {
		d.failed("place an order", err)
		return
	}
	d.judge(s, got, expected)
}

func (d *demo) failed(what string, err error) {
	if !isCancelled(err) {
		d.journal.broken("%s: %v", what, err)
	}
}

// judge compares the answer with what the order deserves.
func (d *demo) judge(s *sale, got answer, expected money.Amount) {
	if got.status == http.StatusAccepted {
		var a orderAnswer
		if err := got.into(http.MethodPost, "/v1/orders", &a); err != nil {
			d.journal.broken("%v", err)
			return
		}
		s.placed = &placed{
			id: a.OrderID, invoice: s.InvoiceNo, total: a.Total.Amount, expected: expected.String(), status: a.Status,
		}
		d.journal.accept(s.placed)
		if s.odd != "" {
			d.journal.broken("order %s was accepted with a %s", s.InvoiceNo, s.odd)
		}
		return
	}
	d.journal.refuse("", got)
	if code := got.problem().Code; s.odd == "" && code != "INSUFFICIENT_STOCK" {
		d.journal.broken("order %s has nothing odd and was refused: %d %s %s", s.InvoiceNo, got.status, code, got.problem().why())
	}
}

// quote makes the lines to order: at the price quoted, but what is odd goes
// out as it came in. It adds up the total, and names what must be refused.
func quote(s *sale, prices map[string]string) (lines []orderLine, total money.Amount, fault string) {
	for _, line := range s.Lines {
		price, known := prices[line.SKU]
		switch {
		case oddLine(line) != "":
			price = line.UnitPrice
		case !known:
			price, fault = line.UnitPrice, "SKU without a price: "+line.SKU
		}
		if amount, err := money.Parse(price); err == nil {
			total += amount.Times(line.Quantity)
		}
		lines = append(lines, orderLine{
			SKU: line.SKU, Quantity: line.Quantity, UnitPrice: &orderCost{Amount: price, Currency: retail.Currency},
		})
	}
	return lines, total, fault
}

func distinct(lines []retail.Line) []string {
	seen := map[string]bool{}
	var skus []string
	for _, line := range lines {
		if !seen[line.SKU] {
			seen[line.SKU] = true
			skus = append(skus, line.SKU)
		}
	}
	return skus
}

// cancel takes back a sale once its own answer is known. Its sale was handed
// out before, so the wait ends.
func (d *demo) cancel(ctx context.Context, s *sale) {
	select {
	case <-s.done:
	case <-ctx.Done():
		return
	}
	if s.placed == nil {
		return // it never became an order
	}
	path := "/v1/orders/" + url.PathEscape(s.placed.id) + "/cancel"
	got, err := d.channel.call(ctx, kindCancel, http.MethodPost, path, nil)
	switch {
	case err != nil:
		d.failed("cancel", err)
	case got.status/100 == 2:
		s.placed.cancelled = true
	case got.status == http.StatusConflict:
		d.journal.refuse("cancel: ", got)
	default:
		d.journal.broken("cancel order %s: %d %.200s", s.placed.id, got.status, got.body)
	}
}

// receive books goods in at the warehouse.
func (d *demo) receive(ctx context.Context, lines []retail.Line) {
	for _, line := range lines {
		body := map[string]any{"by": max(0, line.Quantity)}
		path := "/_lab/stock/" + url.PathEscape(line.SKU) + "/adjust"
		if err := d.lab.wms.into(ctx, http.MethodPost, path, body, nil); err != nil {
			d.failed("lab: receive goods", err)
		}
	}
}
