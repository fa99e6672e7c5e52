package main

import (
	"context"
	"time"

	"andes/adapters/kafka"
	"andes/eventstore"
)

// consumer is what is told of a consumer of events without running it.
type consumer struct {
	name   string
	topics func(kafka.Topics) []string
	policy kafka.Policy
	lanes  int // 0: the default
}

// webhookTimeout is above the sender's own deadline for one event, and webhookLanes many, as partners are slow.
const (
	webhookTimeout = 15 * time.Second
	webhookLanes   = 64
)

// legacyTimeout is above what all calls to a legacy system for one command take, with their attempts: a handler
// that gives up before its calls do hides from the breaker that the system hangs.
const legacyTimeout = time.Minute

// consumers lists the consumers of events with their ladders. All of them need their events in order per key.
func (s *settings) consumers() []consumer {
	// The settings were checked before; what can't be read has no tiers.
	tiers, _ := durations(s.RetryTiers)
	webhookTiers, _ := durations(s.WebhookRetryTiers)
	orders := func(t kafka.Topics) []string { return []string{t.Events("order"), t.Events("payment")} }
	commands := func(system string) func(kafka.Topics) []string {
		return func(t kafka.Topics) []string { return []string{t.Commands(system)} }
	}
	return []consumer{
		{sagaName, orders, kafka.Policy{Tiers: tiers}, 0},
		{omsName, commands("oms"), kafka.Policy{Tiers: tiers, RetryFor: s.OMSRetryFor, Timeout: legacyTimeout}, 0},
		{paymentName, commands("payment"), kafka.Policy{Tiers: tiers, Timeout: legacyTimeout}, 0},
		{webhookName, orders, kafka.Policy{Tries: 1, Timeout: webhookTimeout, Tiers: webhookTiers}, webhookLanes},
	}
}

// consuming makes a part of a consumer of events. ready blocks while it must not work; nil: it always may.
func (p *platform) consuming(name string, handle func(context.Context, eventstore.Record) error, ready func(context.Context) error) part {
	config := kafka.ConsumeConfig{
		Cluster: p.cluster, Names: p.topics, Registry: p.registry, Logger: p.logger, Metrics: p.metrics,
		CloseGrace: p.settings.StopWait / 2, Settled: p.store.DB,
	}
	consumer := p.consumerNamed(name, handle)
	consumer.Ready = ready
	return part{name: name, stage: workers, run: func(ctx context.Context) error {
		return kafka.Consume(ctx, config, consumer)
	}}
}

// consumerNamed gives a consumer of the list with its handler.
func (p *platform) consumerNamed(name string, handle func(context.Context, eventstore.Record) error) kafka.Consumer {
	for _, c := range p.settings.consumers() {
		if c.name == name {
			return kafka.Consumer{Name: c.name, Topics: c.topics(p.topics), Handle: handle, Policy: c.policy, Ordered: true, Lanes: c.lanes}
		}
	}
	panic("no consumer is called " + name)
}
