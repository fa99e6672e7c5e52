package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"

	"andes/eventstore"
)

// Consumer is a part of the platform that reacts to events.
type Consumer struct {
	Name   string   // names its group, its retry topics, its replay topic and its DLQ
	Topics []string // full names
	// Handle processes one event. It may see an event again, and is done with it when it returns nil.
	// Its error's class decides what happens next: eventstore.Classify.
	Handle func(ctx context.Context, record eventstore.Record) error
	// Policy is how failures are retried; the zero value is DefaultPolicy.
	Policy Policy
	// Ordered has no record handled while an earlier one of its topic and key waits to be retried or lies
	// in the DLQ: it is parked behind that one.
	Ordered bool
	// Ready blocks while the consumer must not work, because of an open breaker, say; nil: it always may.
	// Meanwhile no try is used up and nothing is parked. It returns when ctx is done.
	Ready func(ctx context.Context) error
	// Lanes is how many keys of a partition are worked on at the same time; 0: 64.
	Lanes int
}

// ConsumeConfig is what the consumers of a process share.
type ConsumeConfig struct {
	Cluster        Cluster
	Names          Topics // names the groups and the DLQs
	Registry       *eventstore.Registry
	MaxRecordBytes int           // of the topics' settings; 0: DefaultMaxRecordBytes
	CloseGrace     time.Duration // how long handlers may go on when ctx is done; 0: 20 s
	Redelivery     time.Duration // the longest wait before a record that was not parked comes again; 0: 30 s
	Settled        Settlements   // tells which dead letters hold nobody any longer; nil: all do
	Logger         *slog.Logger
	Metrics        prometheus.Registerer
}

func (c ConsumeConfig) withDefaults() ConsumeConfig {
	setDefault(&c.MaxRecordBytes, DefaultMaxRecordBytes)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c ConsumeConfig) validate(consumers []Consumer) error {
	faults := []error{c.Cluster.validate()}
	if c.Registry == nil {
		faults = append(faults, errors.New("consume: no registry"))
	}
	seen := map[string]bool{}
	for _, consumer := range consumers {
		switch {
		case consumer.Name == "" || len(consumer.Topics) == 0 || consumer.Handle == nil:
			faults = append(faults, fmt.Errorf("consumer %q: a name, a topic and a handler are needed", consumer.Name))
		case seen[consumer.Name]:
			faults = append(faults, fmt.Errorf("consumer %q is given twice", consumer.Name))
		}
		if err := consumer.Policy.validate(); err != nil {
			faults = append(faults, fmt.Errorf("consumer %q: %w", consumer.Name, err))
		}
		seen[consumer.Name] = true
	}
	if len(consumers) == 0 {
		faults = append(faults, errors.New("consume: no consumers"))
	}
	return errors.Join(faults...)
}

// Consume runs the consumers until ctx is done, and returns when their handlers have returned and the
// finished offsets are committed. Kafka being away is waited for.
func Consume(ctx context.Context, cfg ConsumeConfig, consumers ...Consumer) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(consumers); err != nil {
		return err
	}
	metrics, err := newConsumerMetrics(cfg.Metrics)
	if err != nil {
		return fmt.Errorf("consumer metrics: %w", err)
	}
	parker := &parker{cluster: cfg.Cluster, topics: cfg.Names, registry: cfg.Registry, maxRecordBytes: cfg.MaxRecordBytes, settled: cfg.Settled}
	defer parker.close()
	router, err := message.NewRouter(message.RouterConfig{}, routerLog{cfg.Logger})
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	for _, consumer := range consumers {
		counters := metrics.of(consumer.Name)
		links := newChain(cfg, consumer, parker, counters)
		lanes, err := NewLanes(laneConfig(cfg, consumer, links.ladder, counters))
		if err != nil {
			return fmt.Errorf("consumer %s: %w", consumer.Name, err)
		}
		topics := slices.Concat(consumer.Topics, links.ladder.tiers, []string{links.ladder.replay})
		for i, door := range lanes.doorways() {
			handler := router.AddConsumerHandler(consumer.Name+"/"+strconv.Itoa(i), strings.Join(topics, ","), door, links.handle)
			handler.AddMiddleware(links.middlewares()...)
		}
	}
	// The router ends when every subscription has drained, which they do when ctx is done.
	if err := router.Run(ctx); err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	return nil
}

func laneConfig(cfg ConsumeConfig, consumer Consumer, ladder ladder, counters consumerCounters) LaneConfig {
	lanes := LaneConfig{
		Cluster: cfg.Cluster, Group: cfg.Names.Group(consumer.Name), Lanes: consumer.Lanes,
		RedeliveryMax: cfg.Redelivery, CloseGrace: cfg.CloseGrace, Ready: consumer.Ready, Logger: cfg.Logger,
		delays: ladder.delays(), doors: min(runtime.GOMAXPROCS(0), maxDoors),
	}
	if consumer.Ordered {
		lanes.sequencing = &sequencing{
			cluster: cfg.Cluster, consumer: consumer.Name, group: lanes.Group, origins: consumer.Topics, ladder: ladder,
			settled: cfg.Settled, keys: counters.outstanding, logger: cfg.Logger,
		}
	}
	return lanes
}
