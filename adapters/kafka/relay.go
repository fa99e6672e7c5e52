package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"andes/eventstore"
)

const (
	relayBackoffMin = 50 * time.Millisecond
	relayBackoffMax = 5 * time.Second

	// relayDrain is how long a stopping relay waits for acks, and then for its last checkpoint.
	relayDrain = 5 * time.Second
)

// Log is where the relay reads committed events. One instance at a time is the active relay.
type Log interface {
	// Acquire blocks until this instance is the active relay; others stand by.
	Acquire(ctx context.Context) (Session, error)
}

// Session is the time of one instance as the active relay. It is used by one goroutine.
type Session interface {
	// Checkpoint is the position up to which everything is published.
	Checkpoint() int64
	// Next waits, bounded, for records after the position. It returns them in position order, bounded in
	// count and bytes, with the current states of the published streams that they touched. An empty
	// slice is normal.
	Next(ctx context.Context, after int64) ([]eventstore.Record, []eventstore.StateRecord, error)
	// Save moves the checkpoint; it fails when the session is no longer ours.
	Save(ctx context.Context, position int64) error
	// Republication gives the order to publish a part of the log again that is open; its ID is empty when none
	// is. It is asked at every turn.
	Republication(ctx context.Context) (eventstore.Republication, error)
	// Republished saves how far the order has been carried out.
	Republished(ctx context.Context, order eventstore.Republication) error
	// Close gives the role up.
	Close() error
}

// RelayConfig is what a Relay needs.
type RelayConfig struct {
	Cluster        Cluster
	Topics         Topics
	Registry       *eventstore.Registry
	Log            Log
	Logger         *slog.Logger          // nil: slog.Default
	Metrics        prometheus.Registerer // nil: none
	MaxRecordBytes int                   // of the topics' settings; 0: DefaultMaxRecordBytes
}

func (c RelayConfig) withDefaults() RelayConfig {
	setDefault(&c.MaxRecordBytes, DefaultMaxRecordBytes)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c RelayConfig) validate() error {
	faults := []error{c.Cluster.validate()}
	if c.Registry == nil {
		faults = append(faults, errors.New("relay: no registry"))
	}
	if c.Log == nil {
		faults = append(faults, errors.New("relay: no log"))
	}
	return errors.Join(faults...)
}

// Relay publishes what the event store committed, in commit order, at least once. Its checkpoint never
// passes a record that is not acknowledged.
//
//	      ┌── Next after head ──► publish ──► acked: head moves
//	head ─┤                          └─ a topic fails: it falls behind, head moves without it
//	      ├── a topic behind ──► Next after its own position ──► publish ──► caught up
//	      └── an order to publish again ──► Next after what it has reached ──► publish ──► carried out
//	checkpoint = the least of all positions but an order's
type Relay struct {
	cfg     RelayConfig
	metrics *relayMetrics
	out     producer
}

// NewRelay checks the configuration.
func NewRelay(cfg RelayConfig) (*Relay, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	metrics, err := newRelayMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("relay metrics: %w", err)
	}
	return &Relay{
		cfg:     cfg,
		metrics: metrics,
		out:     producer{cluster: cfg.Cluster, maxRecordBytes: cfg.MaxRecordBytes, drain: relayDrain},
	}, nil
}

// Run relays until ctx is done. A lost session is acquired again; Kafka being away is waited for with
// the session kept.
func (r *Relay) Run(ctx context.Context) error {
	defer r.out.close()
	wait := backoff{least: relayBackoffMin, most: relayBackoffMax}
	for ctx.Err() == nil {
		started := time.Now()
		err := r.serve(ctx)
		if ctx.Err() != nil {
			break
		}
		r.failed("relay: session ended", err)
		if time.Since(started) > relayBackoffMax {
			wait.reset()
		}
		wait.pause(ctx)
	}
	return nil
}

// serve relays as the active instance for as long as the session lasts.
func (r *Relay) serve(ctx context.Context) error {
	session, err := r.cfg.Log.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire the log: %w", err)
	}
	defer func() {
		if err := session.Close(); err != nil {
			r.cfg.Logger.WarnContext(ctx, "relay: session not closed", "error", err)
		}
	}()
	r.cfg.Logger.InfoContext(ctx, "relay: active", "checkpoint", session.Checkpoint())
	r.metrics.active.Set(1)
	defer r.metrics.active.Set(0)
	return r.newPass(session).follow(ctx)
}

func (r *Relay) failed(what string, err error, args ...any) {
	r.cfg.Logger.Error(what, append(args, "error", err)...)
	r.metrics.errors.Inc()
	r.metrics.lastError.SetToCurrentTime()
}
