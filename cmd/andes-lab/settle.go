package main

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

const settlePause = 500 * time.Millisecond

// Order states of the partner API that the demo tells apart.
const (
	stateDelivered = "DELIVERED"
	stateCancelled = "CANCELLED"
)

func final(status string) bool { return status == stateDelivered || status == stateCancelled }

// settle asks for every acknowledged order, at least once, until all are in a
// final state or the time is up.
func (d *demo) settle(ctx context.Context) {
	orders := d.journal.accepted()
	deadline := time.Now().Add(d.cmd.Settle)
	bar := newProgress(ctx, "orders at their end", len(orders))
	defer bar.stop()
	open := orders
	for {
		d.look(ctx, open)
		still := open[:0:0]
		for _, o := range open {
			if !final(o.status) {
				still = append(still, o)
			}
		}
		open = still
		bar.set(len(orders) - len(open))
		if len(open) == 0 || time.Now().After(deadline) || !sleep(ctx, settlePause) {
			break
		}
	}
	for _, o := range open {
		d.journal.broken("order %s (%s) is still %s, OMS %s, after %s", o.id, o.invoice, o.status, o.omsSync, d.cmd.Settle)
	}
}

// look updates the orders from the API, each by one worker.
func (d *demo) look(ctx context.Context, orders []*placed) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(d.cmd.Concurrency, len(orders)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(orders) && ctx.Err() == nil; i = next.Add(1) - 1 {
				d.lookAt(ctx, orders[i])
			}
		})
	}
	workers.Wait()
}

func (d *demo) lookAt(ctx context.Context, o *placed) {
	got, err := d.channel.call(ctx, kindOrder, http.MethodGet, "/v1/orders/"+url.PathEscape(o.id), nil)
	if err != nil {
		d.failed("GET order", err)
		return
	}
	if got.status == http.StatusNotFound {
		d.journal.broken("order %s (%s) was acknowledged and is not found", o.id, o.invoice)
		o.status = stateCancelled // asked once is enough
		return
	}
	var a orderAnswer
	if err := got.into(http.MethodGet, "/v1/orders/{id}", &a); err != nil {
		d.journal.broken("%v", err)
		return
	}
	if a.Total.Amount != "" && !sameAmount(a.Total.Amount, o.total) {
		d.journal.broken("order %s: total %s when placed, %s now", o.id, o.total, a.Total.Amount)
	}
	o.status, o.reason, o.omsSync = a.Status, a.Reason, a.OMSSync
}
