package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"

	"andes/eventstore"
)

// Consumer is a part of the platform that reacts to events.
type Consumer struct {
	Name   string   // names its group and its DLQ
	Topics []string // full names
	// Handle processes one event. It may see an event again, and is done with it when it returns nil.
	// Its error's class decides what happens next: eventstore.Classify.
	Handle func(ctx context.Context, record eventstore.Record) error
	// Policy is how failures are retried; the zero value is DefaultPolicy.
	Policy Policy
	// Lanes is how many keys of a partition are worked on at the same time; 0: 32.
	Lanes int
}

// Policy is the ladder that a failing record climbs. The steps beyond the immediate ones go through
// retry topics; without tiers a transient failure comes again in its lane, ever more slowly.
type Policy struct {
	Tries       int             // in a row, transient failures only: 3
	TriesWithin time.Duration   // no further try starts after it: 2 s
	Timeout     time.Duration   // of each try: 10 s
	Tiers       []time.Duration // delays of the retry topics; none are served yet, so it must be empty
}

// DefaultPolicy is that of event consumers.
var DefaultPolicy = Policy{Tries: 3, TriesWithin: 2 * time.Second, Timeout: 10 * time.Second}

func (p Policy) withDefaults() Policy {
	setDefault(&p.Tries, DefaultPolicy.Tries)
	setDefault(&p.TriesWithin, DefaultPolicy.TriesWithin)
	setDefault(&p.Timeout, DefaultPolicy.Timeout)
	return p
}

// ConsumeConfig is what the consumers of a process share.
type ConsumeConfig struct {
	Cluster        Cluster
	Names          Topics // names the groups and the DLQs
	Registry       *eventstore.Registry
	MaxRecordBytes int           // of the topics' settings; 0: DefaultMaxRecordBytes
	CloseGrace     time.Duration // how long handlers may go on when ctx is done; 0: 20 s
	Redelivery     time.Duration // the longest wait before a failing record comes again; 0: 30 s
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
		case len(consumer.Policy.Tiers) > 0:
			faults = append(faults, fmt.Errorf("consumer %q: retry topics are not served", consumer.Name))
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
	dead := &deadLetters{cluster: cfg.Cluster, topics: cfg.Names, registry: cfg.Registry, maxRecordBytes: cfg.MaxRecordBytes}
	defer dead.close()
	router, err := message.NewRouter(message.RouterConfig{}, routerLog{cfg.Logger})
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	for _, consumer := range consumers {
		lanes, err := NewLanes(LaneConfig{
			Cluster: cfg.Cluster, Group: cfg.Names.Group(consumer.Name), Lanes: consumer.Lanes,
			RedeliveryMax: cfg.Redelivery, CloseGrace: cfg.CloseGrace, Logger: cfg.Logger,
		})
		if err != nil {
			return fmt.Errorf("consumer %s: %w", consumer.Name, err)
		}
		links := newChain(cfg, consumer, dead, metrics)
		handler := router.AddConsumerHandler(consumer.Name, strings.Join(consumer.Topics, ","), lanes, links.handle)
		handler.AddMiddleware(links.middlewares()...)
	}
	// The router ends when every subscription has drained, which they do when ctx is done.
	if err := router.Run(ctx); err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	return nil
}
