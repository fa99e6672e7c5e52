package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"andes/eventstore"
	"andes/projections"
)

// ReadModelConfig says what is written and how long it is kept.
type ReadModelConfig struct {
	Projections []projections.Projection // nil: all
	// TTLs are safety nets by read model: a key that is never written again goes at last, and is read
	// from the states when it is asked for. Up to an eighth is taken off by key, so that keys written
	// together do not go together.
	TTLs       map[string]time.Duration
	DefaultTTL time.Duration // of the read models without their own
	// AbsentTTL is for streams without events: long enough to spare the states a storm of questions
	// about nothing, short enough that invented SKUs do not fill the memory.
	AbsentTTL time.Duration
	Logger    *slog.Logger
	Metrics   prometheus.Registerer
}

// DefaultReadModelConfig has the defaults of all durations.
func DefaultReadModelConfig() ReadModelConfig {
	return ReadModelConfig{
		TTLs:       map[string]time.Duration{projections.Stocks.Name: 24 * time.Hour},
		DefaultTTL: 7 * 24 * time.Hour,
		AbsentTTL:  30 * time.Second,
	}
}

func (c ReadModelConfig) withDefaults() ReadModelConfig {
	defaults := DefaultReadModelConfig()
	if c.Projections == nil {
		c.Projections = projections.All()
	}
	ttls := maps.Clone(defaults.TTLs)
	maps.Copy(ttls, c.TTLs)
	c.TTLs = ttls
	setDefault(&c.DefaultTTL, defaults.DefaultTTL)
	setDefault(&c.AbsentTTL, defaults.AbsentTTL)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c ReadModelConfig) validate() error {
	var faults []error
	for name, ttl := range c.TTLs {
		if ttl < time.Second {
			faults = append(faults, fmt.Errorf("redis: the time to live of %s is below a second", name))
		}
	}
	if c.DefaultTTL < time.Second || c.AbsentTTL < time.Second {
		faults = append(faults, errors.New("redis: a time to live is below a second"))
	}
	return errors.Join(faults...)
}

// ReadModel writes entries to Redis.
type ReadModel struct {
	client  *Client
	config  ReadModelConfig
	set     *projections.Set
	metrics *modelMetrics
	known   atomic.Pointer[projections.Generations] // as last seen; each write compares it with the pointer
}

// NewReadModel checks the configuration and gives a writer on the client.
func NewReadModel(client *Client, config ReadModelConfig) (*ReadModel, error) {
	config = config.withDefaults()
	set, err := projections.NewSet(config.Projections...)
	if err = errors.Join(err, config.validate()); err != nil {
		return nil, err
	}
	metrics, err := newModelMetrics(config.Metrics)
	if err != nil {
		return nil, fmt.Errorf("redis: metrics of the read model: %w", err)
	}
	m := &ReadModel{client: client, config: config, set: set, metrics: metrics}
	m.known.Store(&projections.FirstGenerations)
	return m, nil
}

// Project applies state records: those of the feed, and those that a query read for want of an entry. A
// record without events (position 0) marks its key as known not to be there, for a short time. A record
// that can't be projected is logged and counted; the entry before it stays.
func (m *ReadModel) Project(ctx context.Context, records []eventstore.StateRecord) error {
	entries, faults := m.set.Entries(records)
	for _, fault := range faults {
		m.metrics.rejected.Inc()
		m.config.Logger.ErrorContext(ctx, "read model: record can't be projected", "error", fault)
	}
	return m.Apply(ctx, entries)
}

// maxPointerChanges bounds how often one Apply follows a pointer that changes under it.
const maxPointerChanges = 3

// Apply writes the entries to every generation that the pointer names. When it returns nil they are in
// all that the pointer named at some moment after the call: whoever adds a generation to the pointer and
// then reads the state topics to their ends misses nothing.
func (m *ReadModel) Apply(ctx context.Context, entries []projections.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	entries = m.latest(ctx, entries)
	known := *m.known.Load()
	for range maxPointerChanges {
		current, err := m.write(ctx, lots(known, entries), true)
		if err != nil {
			m.metrics.failed.Inc()
			return err
		}
		if current.Equal(known) {
			return nil
		}
		m.known.Store(&current)
		known = current
	}
	m.metrics.failed.Inc()
	return fmt.Errorf("redis: the generation pointer changed %d times during a write", maxPointerChanges)
}

// latest keeps the entry with the highest position of each key: within one script the kept values are
// read once.
func (m *ReadModel) latest(ctx context.Context, entries []projections.Entry) []projections.Entry {
	at := make(map[string]int, len(entries))
	kept := make([]projections.Entry, 0, len(entries))
	for _, entry := range entries {
		i, twice := at[entry.Key]
		if !twice {
			at[entry.Key] = len(kept)
			kept = append(kept, entry)
			continue
		}
		if entry.Position == kept[i].Position && !sameValue(entry, kept[i]) {
			m.conflict(ctx, entry)
		}
		if entry.Position > kept[i].Position {
			kept[i] = entry
		}
		m.metrics.stale.Inc()
	}
	return kept
}

func sameValue(a, b projections.Entry) bool {
	return (a.Value == nil) == (b.Value == nil) && string(a.Value) == string(b.Value)
}

// conflict reports two values at one position, which the guard can't order. The kept one stays.
func (m *ReadModel) conflict(ctx context.Context, entry projections.Entry) {
	m.metrics.conflicting.Inc()
	m.config.Logger.ErrorContext(ctx, "read model: another value at the same position", "key", entry.Key, "position", entry.Position)
}

// ttlSpread is the part of a time to live that differs by key.
const ttlSpread = 8

func (m *ReadModel) ttl(entry projections.Entry) time.Duration {
	if entry.Position == 0 {
		return m.config.AbsentTTL
	}
	ttl, own := m.config.TTLs[projections.ModelOf(entry.Key)]
	if !own {
		ttl = m.config.DefaultTTL
	}
	const steps = 1024
	return ttl - ttl/ttlSpread*time.Duration(hash(entry.Key)%steps)/steps
}
