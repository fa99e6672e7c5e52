package polling

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"andes/commands/source"
	"andes/eventstore"
)

// Config of one poller.
type Config struct {
	Feed     string // as in package source
	Source   Source
	Executor eventstore.Executor
	Reader   eventstore.Reader
	Lease    Lease
	Now      func() time.Time
	Log      *slog.Logger
	Metrics  *Metrics                            // nil: counted, but not shown
	Rejects  func(ctx context.Context, r Reject) // nil: only logged. Told once per record and version, more often after a restart
	Interval time.Duration                       // between the begins of two polls
	InFlight int                                 // commands at once
	MaxPages int                                 // of one poll; the rest is read by the next one

	MaxInterval time.Duration // to which slow answers lengthen the interval
	Away        func() bool   // tells that the source can't be asked now, so that the turn is skipped; nil: it always can
}

// Defaults of a poller.
const (
	DefaultInterval = 5 * time.Second
	DefaultInFlight = 64
	DefaultMaxPages = 10_000

	DefaultMaxInterval = 30 * time.Second
)

// Poller polls one feed.
type Poller struct {
	cfg      Config
	polling  sync.Mutex // one poll at a time in this process, whoever asked for it
	rejected memory
	failures map[string]int // of records that fail on our side, polls in a row
	slowest  time.Duration  // answer of this poll
	interval *interval
}

// New checks the configuration and reports all that is missing.
func New(cfg Config) (*Poller, error) {
	var faults []error
	require := func(given bool, what string) {
		if !given {
			faults = append(faults, fmt.Errorf("poller of %q: no %s", cfg.Feed, what))
		}
	}
	require(cfg.Feed != "", "feed")
	require(cfg.Source != nil, "source")
	require(cfg.Executor != nil, "executor")
	require(cfg.Reader != nil, "reader")
	require(cfg.Lease != nil, "lease")
	require(cfg.Now != nil, "clock")
	require(cfg.Log != nil, "log")
	require(cfg.Interval >= 0 && cfg.InFlight >= 0 && cfg.MaxPages >= 0 && cfg.MaxInterval >= 0, "sense in a negative bound")
	if cfg.Metrics == nil {
		cfg.Metrics = unregistered()
	}
	if cfg.Interval == 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.InFlight == 0 {
		cfg.InFlight = DefaultInFlight
	}
	if cfg.MaxPages == 0 {
		cfg.MaxPages = DefaultMaxPages
	}
	if cfg.MaxInterval == 0 {
		cfg.MaxInterval = DefaultMaxInterval
	}
	adapting := &interval{least: cfg.Interval, most: max(cfg.Interval, cfg.MaxInterval), current: cfg.Interval}
	return &Poller{cfg: cfg, failures: map[string]int{}, interval: adapting}, errors.Join(faults...)
}

// Run polls while it holds the lease, until ctx ends. A poll that fails is tried again after the interval,
// which slow answers lengthen.
func (p *Poller) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := p.cfg.Lease.Hold(ctx, "poll/"+p.cfg.Feed, p.repeat)
		if ctx.Err() == nil && err != nil {
			p.cfg.Log.WarnContext(ctx, "the lease of a feed was lost", "feed", p.cfg.Feed, "error", err)
		}
		pause(ctx, p.cfg.Interval)
	}
	return nil
}

func (p *Poller) repeat(ctx context.Context) error {
	for ctx.Err() == nil {
		begun := p.cfg.Now()
		if p.cfg.Away != nil && p.cfg.Away() {
			p.cfg.Metrics.polls.WithLabelValues(p.cfg.Feed, "skipped").Inc()
			pause(ctx, p.cfg.Interval)
			continue
		}
		complete, err := p.Poll(ctx)
		if err != nil && ctx.Err() == nil {
			p.cfg.Log.WarnContext(ctx, "a poll failed; the cursor stays and the next poll goes on from there", "feed", p.cfg.Feed, "error", err)
		}
		if err == nil && !complete {
			continue
		}
		pause(ctx, p.interval.rest(p.cfg.Now().Sub(begun)))
	}
	return context.Cause(ctx)
}

func pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(max(wait, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Poll reads the feed once, from the kept cursor to its end, and applies what it finds. complete is false
// when the feed was too long for one poll.
func (p *Poller) Poll(ctx context.Context) (complete bool, err error) {
	p.polling.Lock()
	defer p.polling.Unlock()
	begun := p.cfg.Now()
	p.slowest = 0
	defer func() {
		p.cfg.Metrics.interval.WithLabelValues(p.cfg.Feed).Set(p.interval.answered(p.slowest).Seconds())
		outcome := "partial"
		if complete {
			outcome = "complete"
		}
		if err != nil {
			outcome = "failed"
		}
		p.cfg.Metrics.polls.WithLabelValues(p.cfg.Feed, outcome).Inc()
		p.cfg.Metrics.seconds.WithLabelValues(p.cfg.Feed).Observe(p.cfg.Now().Sub(begun).Seconds())
	}()
	pass, err := p.open(ctx)
	if err != nil {
		return false, fmt.Errorf("poll %s: %w", p.cfg.Feed, err)
	}
	var failed []error
	for range p.cfg.MaxPages {
		more, faults, err := p.page(ctx, pass, begun, len(failed) == 0)
		failed = append(failed, faults...)
		if err != nil {
			return false, fmt.Errorf("poll %s: %w", p.cfg.Feed, errors.Join(append(failed, err)...))
		}
		if len(failed) > 0 && (!more || len(failed) >= maxReported) {
			return false, fmt.Errorf("poll %s: %w", p.cfg.Feed, errors.Join(failed...))
		}
		if !more {
			return true, nil
		}
	}
	return false, errors.Join(failed...)
}

// open goes on from the kept cursor. One that can't be read is as good as none: a feed may be read twice.
func (p *Poller) open(ctx context.Context) (Pass, error) {
	stream := source.Aggregate.Stream(p.cfg.Feed)
	states, err := p.cfg.Reader.States(ctx, []eventstore.Stream{stream})
	if err != nil {
		return nil, fmt.Errorf("read the cursor: %w", err)
	}
	kept, err := source.Aggregate.Decode(states[stream].State)
	if err != nil {
		return nil, fmt.Errorf("read the cursor: %w", err)
	}
	pass, err := p.cfg.Source.Open(kept.Cursor)
	if err != nil {
		p.cfg.Log.ErrorContext(ctx, "the cursor of a feed can't be read; the feed is read from its beginning", "feed", p.cfg.Feed, "error", err)
		return p.cfg.Source.Open("")
	}
	return pass, nil
}

// page reads and applies a page and moves the cursor past it. Once a record failed the cursor stays, for
// this page and those behind it, which are applied all the same.
func (p *Poller) page(ctx context.Context, pass Pass, begun time.Time, move bool) (more bool, failed []error, err error) {
	asked := p.cfg.Now()
	items, more, err := pass.Next(ctx)
	p.slowest = max(p.slowest, p.cfg.Now().Sub(asked))
	if err != nil {
		return false, nil, err
	}
	p.cfg.Metrics.records.WithLabelValues(p.cfg.Feed).Add(float64(len(items)))
	applied, err := p.apply(ctx, items)
	if err != nil {
		return false, nil, err
	}
	for _, r := range pass.Settle(applied.refused) {
		p.reject(ctx, r)
	}
	if !move || len(applied.failed) > 0 {
		return more, applied.failed, nil
	}
	advance := source.Advance{Feed: p.cfg.Feed, Cursor: pass.Cursor()}
	if !more {
		advance.SyncedAt = begun
	}
	_, err = p.cfg.Executor.Execute(ctx, eventstore.Request{Command: advance, Meta: eventstore.Metadata{Actor: p.cfg.Feed}})
	if err != nil {
		return false, nil, fmt.Errorf("move the cursor: %w", err)
	}
	return more, nil, nil
}

func (p *Poller) reject(ctx context.Context, r Refused) {
	if !p.rejected.add(fmt.Sprintf("%s@%d", r.Item.ID, r.Item.Version)) {
		return
	}
	p.cfg.Metrics.rejected.WithLabelValues(p.cfg.Feed, string(r.Refusal.Code)).Inc()
	reject := Reject{Feed: p.cfg.Feed, ID: r.Item.ID, Version: r.Item.Version, Code: r.Refusal.Code, Detail: r.Refusal.Detail}
	p.cfg.Log.WarnContext(ctx, "a record of a feed can't be used", "feed", reject.Feed, "id", reject.ID,
		"version", reject.Version, "code", reject.Code, "detail", reject.Detail)
	if p.cfg.Rejects != nil {
		p.cfg.Rejects(ctx, reject)
	}
}

// memory remembers which records were reported. It forgets all when it is full: then some are reported twice.
type memory map[string]struct{}

const maxRemembered = 20_000

func (m *memory) add(key string) (fresh bool) {
	if _, known := (*m)[key]; known {
		return false
	}
	if *m == nil || len(*m) >= maxRemembered {
		*m = memory{}
	}
	(*m)[key] = struct{}{}
	return true
}
