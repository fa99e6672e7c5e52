package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"andes/test/lab/retail"
)

const (
	probeEvery = 3 * time.Second
	probePause = 50 * time.Millisecond // between two looks at the API
	probeLimit = 90 * time.Second      // after that the change counts as lost
	probeSKU   = "LAB-PROBE"
)

// probe measures freshness: it changes a value in a legacy system and looks
// when the API shows it.
type probe struct {
	name      string
	objective time.Duration // p95
	set       func(ctx context.Context, n int) error
	shown     func(ctx context.Context, n int) (bool, error)

	mu      sync.Mutex
	samples []time.Duration
	faults  []string
}

func (d *demo) newProbes() []*probe {
	// A level that rises with each probe, whatever earlier runs set.
	level := func(n int) int64 { return time.Now().Unix()%1_000_000_000/10 + int64(n) }
	var wanted int64
	return []*probe{
		{
			name: "stock", objective: 10 * time.Second,
			set: func(ctx context.Context, n int) error {
				wanted = level(n)
				return d.lab.wms.into(ctx, http.MethodPut, "/_lab/stock/"+probeSKU, map[string]int64{"onHand": wanted}, nil)
			},
			shown: func(ctx context.Context, _ int) (bool, error) {
				got, err := d.channel.stock(ctx, "", []string{probeSKU})
				return got[probeSKU] == wanted, err
			},
		},
		{
			name: "price", objective: 60 * time.Second,
			set: func(ctx context.Context, n int) error {
				path := "/_lab/prices/" + retail.DefaultPriceList + "/" + url.PathEscape(probeSKU)
				return d.lab.erp.into(ctx, http.MethodPut, path, map[string]string{"amount": probePrice(n), "currency": retail.Currency}, nil)
			},
			shown: func(ctx context.Context, n int) (bool, error) {
				got, err := d.channel.prices(ctx, "", []string{probeSKU})
				return got[probeSKU] == probePrice(n), err
			},
		},
	}
}

func probePrice(n int) string { return fmt.Sprintf("%d.%02d", 1+n/100, n%100) }

// run probes until ctx ends.
func (p *probe) run(ctx context.Context) {
	for n := 1; ; n++ {
		begun := time.Now()
		p.once(ctx, n)
		if !sleep(ctx, max(0, probeEvery-time.Since(begun))) {
			return
		}
	}
}

func (p *probe) once(ctx context.Context, n int) {
	if err := p.set(ctx, n); err != nil {
		p.fault(ctx, err.Error())
		return
	}
	changed := time.Now()
	for time.Since(changed) < probeLimit {
		shown, err := p.shown(ctx, n)
		switch {
		case err != nil:
			p.fault(ctx, err.Error())
			return
		case shown:
			p.mu.Lock()
			p.samples = append(p.samples, time.Since(changed))
			p.mu.Unlock()
			return
		}
		if !sleep(ctx, probePause) {
			return
		}
	}
	p.fault(ctx, fmt.Sprintf("a change was not shown within %s", probeLimit))
}

func (p *probe) fault(ctx context.Context, text string) {
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, text)
}

// result is the p95, the number of samples, and what went wrong.
func (p *probe) result() (time.Duration, int, []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return quantile(p.samples, 0.95), len(p.samples), p.faults
}
