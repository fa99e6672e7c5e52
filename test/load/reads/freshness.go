package reads

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Bounds of the measurement of freshness.
const (
	probes      = 40                     // SKUs that are changed in turn
	changeEvery = 330 * time.Millisecond // no divisor of a poll interval, so that changes meet it anywhere
	lookPause   = 10 * time.Millisecond
	probeWait   = 15 * time.Second // after the last change; what is not seen by then is lost
)

// Freshness is how long changes in the legacy systems took to show in Andes's answers.
type Freshness struct {
	mu     sync.Mutex
	Stock  []time.Duration
	Prices []time.Duration
	Lost   int
}

// prober changes values and looks when they show.
type prober struct {
	behind   legacy
	platform *platform
	token    string
	result   *Freshness
	waiting  map[string]*change // by SKU
}

type change struct {
	at            time.Time
	onHand        int64
	amount        string
	stockPending  bool
	pricesPending bool
}

func probeSKU(i int) string { return fmt.Sprintf("PROBE-%02d", i) }

// probeItems are read by nobody else.
func probeItems() []item {
	items := make([]item, probes)
	for i := range items {
		items[i] = item{sku: probeSKU(i), onHand: 1, amount: "1.00"}
	}
	return items
}

// run changes values until ctx ends and waits for the last ones.
func (p *prober) run(ctx context.Context) {
	ending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	next := time.Now()
	for n := 0; ; {
		if now := time.Now(); ctx.Err() == nil && !now.Before(next) {
			p.begin(n)
			n, next = n+1, next.Add(changeEvery)
		}
		p.look(ending)
		if ctx.Err() != nil && (len(p.waiting) == 0 || time.Now().After(next.Add(probeWait))) {
			break
		}
		select {
		case <-ending.Done():
		case <-time.After(lookPause):
		}
	}
	p.result.mu.Lock()
	defer p.result.mu.Unlock()
	p.result.Lost += len(p.waiting)
}

// begin changes one SKU, unless its last change does not show yet.
func (p *prober) begin(n int) {
	sku := probeSKU(n % probes)
	if p.waiting[sku] != nil {
		return
	}
	c := &change{at: time.Now(), onHand: int64(2 + n), amount: fmt.Sprintf("%d.%02d", 2+n/100, n%100), stockPending: true, pricesPending: true}
	if err := p.behind.change(sku, c.onHand, c.amount); err != nil {
		p.result.mu.Lock()
		defer p.result.mu.Unlock()
		p.result.Lost++
		return
	}
	p.waiting[sku] = c
}

// look asks for all that is waited for. An answer that fails is asked for again.
func (p *prober) look(ctx context.Context) {
	var names []string
	for sku := range p.waiting {
		names = append(names, sku)
	}
	if len(names) == 0 {
		return
	}
	query := "?sku=" + strings.Join(names, ",")
	var stock stockAnswer
	if p.platform.ask(ctx, http.MethodGet, "/v1/stock"+query, p.token, nil, &stock) == nil {
		for _, item := range stock.Items {
			if c := p.waiting[item.SKU]; c.stockPending && item.Available == c.onHand {
				c.stockPending = false
				p.seen(&p.result.Stock, c)
			}
		}
	}
	var prices priceAnswer
	if p.platform.ask(ctx, http.MethodGet, "/v1/prices"+query, p.token, nil, &prices) == nil {
		for _, item := range prices.Items {
			if c := p.waiting[item.SKU]; c.pricesPending && item.Price.Amount == c.amount {
				c.pricesPending = false
				p.seen(&p.result.Prices, c)
			}
		}
	}
	for sku, c := range p.waiting {
		if !c.stockPending && !c.pricesPending {
			delete(p.waiting, sku)
		}
	}
}

func (p *prober) seen(by *[]time.Duration, c *change) {
	p.result.mu.Lock()
	defer p.result.mu.Unlock()
	*by = append(*by, time.Since(c.at))
}
