package main

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	httpapi "andes/adapters/http"
	"andes/promo"
	"andes/queries"
)

// newEdge makes the HTTP server of this process. Every process has one, for its health and metrics; the
// partner API is there with the roles query and command.
func newEdge(ctx context.Context, p *platform, chosen []role) (func(context.Context) error, error) {
	config := httpapi.Config{
		Roles:    []httpapi.Role{httpapi.Health},
		Executor: p.store, Orders: p.store, Subscriptions: p.store,
		Thresholds:            queries.Thresholds{Stock: p.settings.StockStale, Price: p.settings.PriceStale},
		PaymentWebhookSecrets: list(p.settings.PaymentWebhookSecret),
		Development:           p.settings.development(),
		Clock:                 time.Now, NewID: newID,
		Limits: httpapi.DefaultLimits,
		Logger: p.logger, Registerer: p.metrics, Gatherer: p.metrics,
		Ready: p.ready,
	}
	config.Limits.KeyTTL = p.settings.AnswerTTL
	for _, r := range chosen {
		if endpoints := httpapi.Role(r.name); endpoints == httpapi.Query || endpoints == httpapi.Command || endpoints == httpapi.Ops {
			config.Roles = append(config.Roles, endpoints)
		}
	}
	if err := p.feeds(&config); err != nil {
		return nil, err
	}
	if slices.Contains(config.Roles, httpapi.Ops) {
		service, err := p.deadLetters(ctx)
		if err != nil {
			return nil, err
		}
		config.DeadLetters, config.Guards, config.GuardDesk = service, p.guardStates, p.guardDesk()
		config.StockDesk = p.store
	}
	if err := p.reads(&config); err != nil {
		return nil, err
	}
	limits, err := p.quotas()
	if err != nil {
		return nil, err
	}
	if config.QuotaDesk, err = p.quotaDesk(); err != nil {
		return nil, err
	}
	promoting, err := p.promoDesk()
	if err != nil {
		return nil, err
	}
	config.PromoDesk, config.Promo = promoting, promoting.Effect
	if p.settings.Quota == quotaOn {
		config.Quota, config.OlderRateFields, config.QuotaRefused = limits, p.settings.QuotaOlderFields, p.refusals.add
	}
	if err := p.authenticate(&config); err != nil {
		return nil, err
	}
	api, err := httpapi.New(config)
	if err != nil {
		return nil, err
	}
	p.onPromo(func(promo.State) { api.ForgetAnswers() })
	listener, err := net.Listen("tcp", p.settings.HTTPAddr)
	if err != nil {
		return nil, err
	}
	server := httpapi.DefaultServerConfig(p.logger)
	server.DrainTimeout = p.settings.StopWait / 2
	if p.settings.development() {
		server.DrainDelay = 0 // no load balancer has to notice
	}
	return func(ctx context.Context) error { return httpapi.ServeOn(ctx, listener, api, server) }, nil
}

// ready tells what each part lacks. Without Redis the reads go on from PostgreSQL, and without Kafka
// orders are accepted and wait in the log, as they do while the relay refuses its checkpoint. All are asked
// at once: one that is silent must not use up the time of the others.
func (p *platform) ready(ctx context.Context) httpapi.Readiness {
	var postgres, redis, kafka, relay error
	var asking sync.WaitGroup
	asking.Go(func() { postgres = p.store.Ping(ctx) })
	asking.Go(func() { relay = p.store.CheckRelay(ctx) })
	asking.Go(func() { redis = p.redis.Ping(ctx) })
	asking.Go(func() { kafka = p.kafkaReachable(ctx) })
	asking.Wait()
	if postgres != nil {
		relay = nil // nothing is known of it
	}
	return httpapi.Readiness{
		Missing:  map[string]error{"postgres": postgres},
		Degraded: map[string]error{"redis": redis, "kafka": kafka, "relay": relay},
	}
}

// kafkaReachable asks whether one of the brokers takes a connection.
func (p *platform) kafkaReachable(ctx context.Context) error {
	var dialer net.Dialer
	var last error
	for _, broker := range p.cluster.Brokers {
		conn, err := dialer.DialContext(ctx, "tcp", broker)
		if err == nil {
			return conn.Close()
		}
		last = err
	}
	return last
}
