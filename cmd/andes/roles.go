package main

import (
	"context"
	"time"

	"andes/adapters/erp"
	"andes/adapters/kafka"
	"andes/adapters/oms"
	"andes/adapters/payment"
	"andes/adapters/postgres"
	"andes/adapters/redis"
	"andes/adapters/webhook"
	"andes/adapters/wms"
	"andes/eventstore"
	"andes/projections"
	"andes/sagas"
)

// role is a part of the platform that is deployed by itself or with others.
type role struct {
	name     string
	settings []string // that it needs
	parts    func(p *platform) ([]part, error)
}

// roles is the platform: one line a role.
var roles = []role{
	{"query", nil, queryRole},
	{"command", []string{"payment_webhook_secret"}, commandRole},
	{"relay", nil, relayRole},
	{"projector", nil, projectorRole},
	{"saga", nil, sagaRole},
	{"erp", []string{"erp_url"}, erpRole},
	{"wms", []string{"wms_url"}, wmsRole},
	{"oms", []string{"oms_url"}, omsRole},
	{"payment", []string{"payment_url"}, paymentRole},
	{"webhook", nil, webhookRole},
	{opsName, nil, watchParts},
}

// Names of the consumers: of their groups and DLQs.
const (
	projectorName = "projector"
	sagaName      = "fulfilment"
	omsName       = "oms"
	paymentName   = "payment"
	webhookName   = "webhook"
)

// opsName is the role that measures what concerns all processes.
const opsName = "ops"

// queryRole serves a mesh too, if it is told where.
func queryRole(p *platform) ([]part, error) {
	feed, err := p.changeFeed()
	if err != nil {
		return nil, err
	}
	parts := []part{{name: "changes", stage: workers, run: feed.Run}}
	if p.settings.RateLimitAddr == "" {
		return parts, nil
	}
	service, err := p.rateLimits()
	if err != nil {
		return nil, err
	}
	return append(parts, part{name: "rate limits", stage: edge, run: service.Run}), nil
}

// Sweeping of expired answers.
const (
	sweepEvery = time.Minute
	sweepBatch = 10_000
)

func commandRole(p *platform) ([]part, error) {
	sweep := func(ctx context.Context) error {
		ticker := time.NewTicker(sweepEvery)
		defer ticker.Stop()
		for {
			if _, err := p.store.SweepAnswers(ctx, time.Now(), sweepBatch); err != nil && ctx.Err() == nil {
				p.logger.Warn("expired answers were not swept", "error", err.Error())
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
		}
	}
	return []part{{name: "answers", stage: workers, run: sweep}}, nil
}

// relayLog gives the relay its port.
type relayLog struct{ *postgres.RelayLog }

func (l relayLog) Acquire(ctx context.Context) (kafka.Session, error) { return l.RelayLog.Acquire(ctx) }

func relayRole(p *platform) ([]part, error) {
	relay, err := kafka.NewRelay(kafka.RelayConfig{
		Cluster: p.cluster, Topics: p.topics, Registry: p.registry,
		Log: relayLog{postgres.NewRelayLog(p.store.DB, postgres.DefaultRelayConfig())}, Logger: p.logger, Metrics: p.metrics,
	})
	if err != nil {
		return nil, err
	}
	return []part{{name: "relay", stage: publishing, run: relay.Run}}, nil
}

func projectorRole(p *platform) ([]part, error) {
	model, err := p.readModel()
	if err != nil {
		return nil, err
	}
	set, err := projections.NewSet(projections.All()...)
	if err != nil {
		return nil, err
	}
	var topics []string
	for _, category := range set.Categories() {
		topics = append(topics, p.topics.State(category))
	}
	gate, err := p.gate(model)
	if err != nil {
		return nil, err
	}
	feed := kafka.StateFeed{Cluster: p.cluster, Names: p.topics, Group: projectorName, Topics: topics, Logger: p.logger, Metrics: p.metrics}
	return []part{
		{name: "projector", stage: workers, run: func(ctx context.Context) error {
			return feed.Run(ctx, gate.Project)
		}},
		{name: "watermarks", stage: workers, run: gate.Run},
	}, nil
}

func (p *platform) readModel() (*redis.ReadModel, error) {
	if p.model != nil {
		return p.model, nil
	}
	config := redis.DefaultReadModelConfig()
	config.Logger, config.Metrics = p.logger, p.metrics
	model, err := redis.NewReadModel(p.redis, config)
	p.model = model
	return model, err
}

func sagaRole(p *platform) ([]part, error) {
	times := sagas.DefaultFulfilmentTimes
	times.Inquiry, times.Expiry = p.settings.PaymentInquiry, p.settings.PaymentExpiry
	manager := sagas.FulfilmentManager{Registry: p.registry, Executor: p.store, Times: times, Logger: p.logger}
	deadlines := sagas.Deadlines{Source: p.store, Executor: p.store, Reached: manager.Reaches(), Now: time.Now, Logger: p.logger}
	return []part{
		p.consuming(sagaName, manager.Handle, nil),
		{name: "deadlines", stage: workers, run: deadlines.Run},
	}, nil
}

func erpRole(p *platform) ([]part, error) {
	caller, err := p.guarded("erp")
	if err != nil {
		return nil, err
	}
	metrics, err := p.pollMetrics()
	if err != nil {
		return nil, err
	}
	config := erp.Config{
		URL: p.settings.ERPURL, Caller: caller, Executor: p.store, Reader: p.store, Lease: postgres.Leases{DB: p.store.DB},
		Log: p.logger, Metrics: metrics, Away: caller.Away, Interval: p.settings.ERPPoll,
		Ledger: postgres.Feeds{DB: p.store.DB}, States: p.store, CompareEvery: p.settings.FeedCompare,
	}
	if p.settings.ERPKind == trytonKind {
		if config.Products, config.Prices, err = p.trytonCatalogue(caller); err != nil {
			return nil, err
		}
	}
	adapter, err := erp.New(config)
	if err != nil {
		return nil, err
	}
	return []part{{name: "erp", stage: workers, run: adapter.Run}}, nil
}

func wmsRole(p *platform) ([]part, error) {
	caller, err := p.guarded("wms")
	if err != nil {
		return nil, err
	}
	metrics, err := p.pollMetrics()
	if err != nil {
		return nil, err
	}
	config := wms.Config{
		URL: p.settings.WMSURL, Caller: caller, Executor: p.store, Reader: p.store, Lease: postgres.Leases{DB: p.store.DB},
		Log: p.logger, Metrics: metrics, Away: caller.Away, StockInterval: p.settings.WMSPoll, ShipmentInterval: p.settings.WMSPoll, Urgent: p.urgent,
		Ledger: postgres.Feeds{DB: p.store.DB}, States: p.store, CompareEvery: p.settings.FeedCompare,
	}
	if p.settings.WMSKind == trytonKind {
		if config.Stock, config.Shipments, err = p.trytonWarehouse(caller); err != nil {
			return nil, err
		}
	}
	adapter, err := wms.New(config)
	if err != nil {
		return nil, err
	}
	return []part{{name: "wms", stage: workers, run: adapter.Run}}, nil
}

func omsRole(p *platform) ([]part, error) {
	caller, err := p.guarded("oms")
	if err != nil {
		return nil, err
	}
	config := oms.Config{URL: p.settings.OMSURL, Settle: p.settings.OMSSettle, Caller: caller, Executor: p.store, Reader: p.store, Registry: p.registry, Log: p.logger}
	if p.settings.OMSKind == trytonKind {
		if config.System, err = p.trytonSales(caller); err != nil {
			return nil, err
		}
	}
	adapter, err := oms.New(config)
	if err != nil {
		return nil, err
	}
	return []part{p.consuming(omsName, adapter.Handle, caller.Ready)}, nil
}

func paymentRole(p *platform) ([]part, error) {
	caller, err := p.guarded("payment")
	if err != nil {
		return nil, err
	}
	adapter, err := payment.New(payment.Config{URL: p.settings.PaymentURL, Caller: caller, Executor: p.store, Reader: p.store, Registry: p.registry, Log: p.logger})
	if err != nil {
		return nil, err
	}
	return []part{p.consuming(paymentName, adapter.Handle, caller.Ready)}, nil
}

func webhookRole(p *platform) ([]part, error) {
	sender, err := webhook.New(webhook.Config{
		Executor: p.store, Registry: p.registry, Subscriptions: p.store.Subscriptions, Order: p.store.Order,
		Deliveries: postgres.Deliveries{DB: p.store.DB}, Log: p.logger, Registerer: p.metrics, Development: p.settings.development(),
	})
	if err != nil {
		return nil, err
	}
	return []part{p.consuming(webhookName, sender.Handle, nil)}, nil
}

var _ eventstore.Store = (*postgres.Store)(nil)
