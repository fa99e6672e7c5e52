package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"andes/test/lab/money"
	"andes/test/lab/wms"
)

const (
	checkPatience = 30 * time.Second // refunds and webhooks follow an order's end
	checkPause    = 500 * time.Millisecond
)

// check is one question whose answer is a list of violations.
type check struct {
	name string
	find func(ctx context.Context) ([]string, error)
}

// check asks every question until it is answered well or patience ends, and
// tells the violations that remain.
func (d *demo) check(ctx context.Context) {
	checks := []check{
		{"gateway: charged at most once; charged − refunded is the total, or 0 if cancelled", d.checkMoney},
		{"OMS: registered at most once, exactly once if delivered; totals are right", d.checkRegistry},
		{"warehouse: what is delivered has left, what is cancelled has not", d.checkShipments},
		{"webhooks: all verified; each order told placed and its end", d.checkWebhooks},
		{"stock answered is what the warehouse has", d.checkStock},
	}
	sql, closeDB, err := openInvariants(ctx, d.cmd.Postgres, d.cmd.Schema)
	if err != nil {
		d.journal.broken("invariants in PostgreSQL: %v", err)
	} else {
		defer closeDB()
		checks = append(checks, sql...)
	}
	fmt.Println("\nchecked:")
	deadline := time.Now().Add(cmp.Or(d.cmd.patience, checkPatience))
	for _, c := range checks {
		violations := c.patiently(ctx, deadline)
		mark := "ok"
		if len(violations) > 0 {
			mark = fmt.Sprintf("%d VIOLATIONS", len(violations))
		}
		fmt.Printf("  %-82s %s\n", c.name, mark)
		for _, v := range violations {
			d.journal.broken("%s: %s", firstClause(c.name), v)
		}
	}
	if d.cmd.Postgres == "" {
		fmt.Println("  (no ANDES_POSTGRES_URL: nothing checked in the system of record)")
	}
}

func firstClause(name string) string {
	clause, _, _ := strings.Cut(name, ":")
	return clause
}

func (c check) patiently(ctx context.Context, deadline time.Time) []string {
	for {
		violations, err := c.find(ctx)
		if err != nil {
			violations = append(violations, err.Error())
		}
		if len(violations) == 0 || time.Now().After(deadline) || !sleep(ctx, checkPause) {
			return violations
		}
	}
}

func sameAmount(a, b string) bool {
	x, errX := money.Parse(a)
	y, errY := money.Parse(b)
	return errX == nil && errY == nil && x == y
}

func (d *demo) checkMoney(ctx context.Context) ([]string, error) {
	charged, err := d.lab.charged(ctx)
	if err != nil {
		return nil, err
	}
	var bad []string
	for _, o := range d.journal.accepted() {
		sums, ok := charged[o.id]
		if !sameAmount(o.total, o.expected) {
			bad = append(bad, fmt.Sprintf("order %s has a total of %s, its lines add up to %s", o.id, o.total, o.expected))
		}
		if !ok {
			if o.status != stateCancelled {
				bad = append(bad, fmt.Sprintf("order %s (%s) was never charged", o.id, o.status))
			}
			continue
		}
		if sums.Charges > 1 {
			bad = append(bad, fmt.Sprintf("order %s was charged %d times", o.id, sums.Charges))
		}
		if fault := moneyFault(o, sums.Approved, sums.Refunded); fault != "" {
			bad = append(bad, fault)
		}
	}
	return bad, nil
}

func moneyFault(o *placed, approved, refunded string) string {
	taken, errTaken := money.Parse(approved)
	back, errBack := money.Parse(refunded)
	total, errTotal := money.Parse(o.total)
	if errTaken != nil || errBack != nil || errTotal != nil {
		return fmt.Sprintf("order %s: unreadable amounts %s, %s, %s", o.id, approved, refunded, o.total)
	}
	want := total
	if o.status == stateCancelled {
		want = 0
	}
	if taken-back != want {
		return fmt.Sprintf("order %s (%s %s): %s taken, %s refunded, total %s", o.id, o.status, o.reason, approved, refunded, o.total)
	}
	return ""
}

func (d *demo) checkRegistry(ctx context.Context) ([]string, error) {
	registered, err := d.lab.registered(ctx)
	if err != nil {
		return nil, err
	}
	var bad []string
	for _, o := range d.journal.accepted() {
		regs := registered[o.id]
		switch {
		case len(regs) > 1:
			bad = append(bad, fmt.Sprintf("order %s is registered %d times", o.id, len(regs)))
		case len(regs) == 0 && o.status == stateDelivered:
			bad = append(bad, fmt.Sprintf("order %s is delivered and was never registered", o.id))
		case len(regs) == 1 && !sameAmount(regs[0].Total, o.total):
			bad = append(bad, fmt.Sprintf("order %s is registered with a total of %s instead of %s", o.id, regs[0].Total, o.total))
		}
	}
	return bad, nil
}

func (d *demo) checkShipments(ctx context.Context) ([]string, error) {
	picked, err := d.lab.picked(ctx)
	if err != nil {
		return nil, err
	}
	var bad []string
	for _, o := range d.journal.accepted() {
		status := picked[o.id].Status
		left := status == wms.Dispatched || status == wms.Delivered
		if left && o.status == stateCancelled || !left && o.status == stateDelivered {
			bad = append(bad, fmt.Sprintf("order %s is %s, at the warehouse it is %s", o.id, o.status, cmp.Or(status, "unknown")))
		}
	}
	return bad, nil
}

func (d *demo) checkWebhooks(ctx context.Context) ([]string, error) {
	deliveries, err := d.lab.delivered(ctx, d.begun.deliveries)
	if err != nil {
		return nil, err
	}
	var bad []string
	told := map[string]bool{}
	for _, one := range deliveries {
		if !one.Verified {
			bad = append(bad, fmt.Sprintf("delivery %d (%s, id %s) is not verified", one.Seq, one.Type, one.ID))
		}
		told[one.Type+"|"+one.OrderID] = true
	}
	for _, o := range d.journal.accepted() {
		wanted := []string{"order.placed"}
		switch o.status {
		case stateDelivered:
			wanted = append(wanted, "payment.approved", "order.confirmed", "order.dispatched", "order.delivered")
		case stateCancelled:
			wanted = append(wanted, "order.cancelled")
		}
		for _, kind := range wanted {
			if !told[kind+"|"+o.id] {
				bad = append(bad, fmt.Sprintf("order %s: no %s was told", o.id, kind))
			}
		}
	}
	return bad, nil
}

// checkStock holds once no order is open: nothing is reserved then, and the
// API has to answer what the warehouse has (of a channel without buffer or cap).
func (d *demo) checkStock(ctx context.Context) ([]string, error) {
	levels, err := d.lab.levels(ctx)
	if err != nil {
		return nil, err
	}
	skus := d.plan.skus()
	available, err := d.channel.stock(ctx, "", skus)
	if err != nil {
		return nil, err
	}
	var bad []string
	for _, sku := range skus {
		onHand, known := levels[sku]
		if got, answered := available[sku]; answered != known || got != max(0, onHand) {
			bad = append(bad, fmt.Sprintf("%s: %d answered, the warehouse has %d", sku, got, onHand))
		}
	}
	return bad, nil
}

// skus are all that the plan sells.
func (p plan) skus() []string {
	seen := map[string]bool{}
	var skus []string
	for _, t := range p.tasks {
		if t.sale == nil {
			continue
		}
		for _, sku := range distinct(t.sale.Lines) {
			if !seen[sku] {
				seen[sku] = true
				skus = append(skus, sku)
			}
		}
	}
	return skus
}
