package queries

import (
	"context"
	"errors"
	"sync"
	"time"

	"andes/commands/partner"
)

// CachedPartnersConfig is where partners are read and how long they are kept.
type CachedPartnersConfig struct {
	Source Partners
	Now    func() time.Time

	TTL        time.Duration // of a partner
	AbsentTTL  time.Duration // of an unknown one: shorter, so that a new partner need not wait
	KeepFor    time.Duration // how long an expired partner is used while the source fails
	RetryAfter time.Duration // until a failing source is asked again for the same partner
	Timeout    time.Duration // of one read
	Max        int           // partners kept
}

// DefaultCachedPartnersConfig has the defaults of all bounds.
func DefaultCachedPartnersConfig() CachedPartnersConfig {
	return CachedPartnersConfig{
		TTL: time.Minute, AbsentTTL: 5 * time.Second, KeepFor: time.Hour, RetryAfter: 2 * time.Second,
		Timeout: 2 * time.Second, Max: 10_000,
	}
}

func (c CachedPartnersConfig) withDefaults() CachedPartnersConfig {
	d := DefaultCachedPartnersConfig()
	setDefault(&c.TTL, d.TTL)
	setDefault(&c.AbsentTTL, d.AbsentTTL)
	setDefault(&c.KeepFor, d.KeepFor)
	setDefault(&c.RetryAfter, d.RetryAfter)
	setDefault(&c.Timeout, d.Timeout)
	setDefault(&c.Max, d.Max)
	return c
}

// CachedPartners is Partners with a memory, for queries. The path that creates an order does not use it.
type CachedPartners struct {
	config  CachedPartnersConfig
	flights flights[string, keptPartner]

	mu   sync.Mutex
	kept map[string]keptPartner
}

type keptPartner struct {
	state  partner.State
	exists bool
	readAt time.Time
	until  time.Time // then it is read again
}

// NewCachedPartners checks the configuration.
func NewCachedPartners(config CachedPartnersConfig) (*CachedPartners, error) {
	config = config.withDefaults()
	if config.Source == nil || config.Now == nil {
		return nil, errors.New("cached partners: Source and Now are needed")
	}
	if config.Max < 1 || min(config.TTL, config.AbsentTTL, config.KeepFor, config.RetryAfter, config.Timeout) < 0 {
		return nil, errors.New("cached partners: a bound is negative")
	}
	return &CachedPartners{config: config, kept: make(map[string]keptPartner)}, nil
}

// Close waits for the reads under way, which their timeout bounds.
func (c *CachedPartners) Close() { c.flights.wait() }

// Partner implements Partners. The state is shared: it must not be changed.
func (c *CachedPartners) Partner(ctx context.Context, id string) (partner.State, bool, error) {
	last, kept := c.last(id)
	if kept && c.config.Now().Before(last.until) {
		return last.state, last.exists, nil
	}
	detached := context.WithoutCancel(ctx)
	read, err := c.flights.get(ctx, []string{id}, func([]string) (map[string]keptPartner, error) {
		return c.read(detached, id)
	}, func(map[string]keptPartner) {})
	if err != nil {
		return partner.State{}, false, err
	}
	return read[id].state, read[id].exists, nil
}

func (c *CachedPartners) last(id string) (keptPartner, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, kept := c.kept[id]
	return last, kept
}

// read asks the source. While it fails, what was known is used on.
func (c *CachedPartners) read(ctx context.Context, id string) (map[string]keptPartner, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	state, exists, err := c.config.Source.Partner(ctx, id)
	now := c.config.Now()
	next := keptPartner{state: state, exists: exists, readAt: now, until: now.Add(c.config.TTL)}
	if !exists {
		next.until = now.Add(c.config.AbsentTTL)
	}
	if err != nil {
		last, kept := c.last(id)
		if !kept || now.Sub(last.readAt) > c.config.KeepFor {
			return nil, err
		}
		next = last
		next.until = now.Add(c.config.RetryAfter)
	}
	c.keep(id, next)
	return map[string]keptPartner{id: next}, nil
}

// keep makes room where it must: an arbitrary partner goes, and is read again when it is asked for.
func (c *CachedPartners) keep(id string, next keptPartner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, kept := c.kept[id]; !kept && len(c.kept) >= c.config.Max {
		for victim := range c.kept {
			delete(c.kept, victim)
			break
		}
	}
	c.kept[id] = next
}
