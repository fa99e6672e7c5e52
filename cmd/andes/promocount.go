package main

import (
	"context"
	"maps"
	"math"
	"sync"

	dto "github.com/prometheus/client_model/go"

	"andes/adapters/postgres"
	"andes/promo"
)

// promoCounter counts what this process does, by its own metrics, for the board and the report of a promo.
type promoCounter struct {
	p      *platform
	events map[string]int64 // of orders since the promo began
	promo  string           // the one that they belong to
	upTo   int64            // position
}

func newPromoCounter(p *platform) *promoCounter { return &promoCounter{p: p} }

// readRoutes are those whose answers are counted.
var readRoutes = map[string]bool{"GET /v1/stock": true, "POST /v1/stock/query": true, "GET /v1/prices": true, "POST /v1/prices/query": true}

const orderRoute = "POST /v1/orders"

// count implements promo.SamplerConfig.Count.
func (c *promoCounter) count(ctx context.Context, state promo.State) (promo.Sample, error) {
	sample := promo.Sample{
		Answers: map[string]int64{}, Orders: map[string]int64{}, Cache: map[string]int64{}, Legacy: map[string]int64{}, Ages: map[string]float64{},
		Partners: c.p.refusals.counts(),
	}
	families, err := c.p.metrics.Gather()
	if err != nil {
		return sample, err
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			note(&sample, family.GetName(), metric)
		}
	}
	if state.ID != "" && c.p.keepsPromos {
		sample.Events, err = c.orderEvents(ctx, state)
	}
	return sample, err
}

// note takes one metric into the sample, if it is of interest.
func note(s *promo.Sample, name string, metric *dto.Metric) {
	labels := map[string]string{}
	for _, pair := range metric.GetLabel() {
		labels[pair.GetName()] = pair.GetValue()
	}
	count := int64(metric.GetCounter().GetValue())
	switch name {
	case "andes_http_request_seconds":
		if readRoutes[labels["route"]] {
			s.Reads = s.Reads.Plus(latency(metric.GetHistogram()))
		}
	case "andes_http_requests_total":
		if readRoutes[labels["route"]] {
			s.Answers[labels["status"]] += count
		}
		if labels["route"] == orderRoute {
			s.Orders[labels["status"]] += count
		}
	case "andes_microcache_requests_total":
		s.Cache[labels["outcome"]] += count
	case "andes_legacy_calls_total":
		if outcome := labels["outcome"]; outcome != "refused" && outcome != "busy" { // those were not sent
			s.Legacy[labels["system"]] += count
		}
	case "andes_quota_decisions_total":
		if labels["outcome"] == "refused" {
			s.Refused += count
		}
	case "andes_source_age_seconds":
		if age := metric.GetGauge().GetValue(); !math.IsInf(age, 0) && !math.IsNaN(age) { // JSON has no infinity
			s.Ages[labels["feed"]] = age
		} else {
			s.Ages[labels["feed"]] = promo.NeverInStep
		}
	}
}

// latency takes a histogram's buckets apart, which count all below their bound.
func latency(h *dto.Histogram) promo.Latency {
	var l promo.Latency
	below := uint64(0)
	for _, bucket := range h.GetBucket() {
		if math.IsInf(bucket.GetUpperBound(), 0) {
			continue
		}
		l.Bounds = append(l.Bounds, bucket.GetUpperBound())
		l.Counts = append(l.Counts, int64(bucket.GetCumulativeCount()-below))
		below = bucket.GetCumulativeCount()
	}
	l.Counts = append(l.Counts, int64(h.GetSampleCount()-below))
	return l
}

// maxEventPages bounds how much of the log one sample counts; the next one goes on.
const maxEventPages = 50

func (c *promoCounter) orderEvents(ctx context.Context, state promo.State) (map[string]int64, error) {
	if c.promo != state.ID {
		began, err := (postgres.ChangeLog{DB: c.p.store.DB}).Before(ctx, state.From)
		if err != nil {
			return nil, err
		}
		c.promo, c.upTo, c.events = state.ID, began, map[string]int64{}
	}
	for range maxEventPages {
		reached, err := c.p.store.CountOrderEvents(ctx, c.upTo, math.MaxInt64, c.events)
		if err != nil {
			return nil, err
		}
		if reached == c.upTo {
			break
		}
		c.upTo = reached
	}
	return maps.Clone(c.events), nil
}

// refusals counts requests that a quota refused, by partner.
type refusals struct {
	mu sync.Mutex
	by map[string]int64
}

// maxRefused bounds the partners that are counted apart.
const maxRefused = 10_000

func (r *refusals) add(partner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]int64{}
	}
	if _, known := r.by[partner]; known || len(r.by) < maxRefused {
		r.by[partner]++
	}
}

func (r *refusals) counts() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.by)
}
