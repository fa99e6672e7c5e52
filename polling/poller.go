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
	Ledger   Ledger                              // nil: records that can't be used are not kept
	Interval time.Duration                       // between the begins of two polls
	InFlight int                                 // commands at once
	MaxPages int                                 // of one poll; the rest is read by the next one

	MaxInterval time.Duration // to which slow answers lengthen the interval
	Away        func() bool   // tells that the source can't be asked now, so that the turn is skipped; nil: it always can

	// Urgent lists the records, up to MaxUrgent, that are read more often than the rest: those of a promotion.
	// It is asked before each wait, and needs a Source that is a Picker; nil: none are.
	Urgent         func() []string
	UrgentInterval time.Duration // between two readings of them; 0: a quarter of Interval
}

// Defaults of a poller.
const (
	DefaultInterval = 5 * time.Second
	DefaultInFlight = 64
	DefaultMaxPages = 10_000

	DefaultMaxInterval = 30 * time.Second

	urgentShare = 4 // urgent records are read so many times as often
)

// Poller polls one feed.
type Poller struct {
	cfg      Config
	polling  sync.Mutex // one poll at a time in this process, whoever asked for it
	applier  *applier
	rejects  *rejects
	haste    urgency
	slowest  time.Duration // answer of this poll
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
	if cfg.UrgentInterval == 0 {
		cfg.UrgentInterval = cfg.Interval / urgentShare
	}
	adapting := &interval{least: cfg.Interval, most: max(cfg.Interval, cfg.MaxInterval), current: cfg.Interval}
	return &Poller{
		cfg: cfg, interval: adapting,
		applier: &applier{executor: cfg.Executor, inFlight: cfg.InFlight},
		rejects: &rejects{feed: cfg.Feed, ledger: cfg.Ledger, told: cfg.Rejects, log: cfg.Log, metrics: cfg.Metrics, now: cfg.Now},
	}, errors.Join(faults...)
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
		if err := p.again(ctx); err != nil && ctx.Err() == nil {
			p.cfg.Log.WarnContext(ctx, "records were not read once more", "feed", p.cfg.Feed, "error", err)
		}
		p.rest(ctx, p.interval.rest(p.cfg.Now().Sub(begun)))
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
	failed, err = p.settle(ctx, items, pass.Settle)
	if err != nil || !move || len(failed) > 0 {
		return more && err == nil, failed, err
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

// maxReported bounds how many failing records one error names.
const maxReported = 10

// settle applies items and deals with those that can't be. failed are faults of records that the next poll
// has to try again; the first few of them.
func (p *Poller) settle(ctx context.Context, items []Item, final func([]Refused) []Refused) (failed []error, err error) {
	results, err := p.applier.run(ctx, items)
	if err != nil {
		return nil, err
	}
	var refused []Refused
	done := make([]Item, 0, len(items))
	for i, r := range results {
		p.cfg.Metrics.wentBack(p.cfg.Feed, r.word)
		switch {
		case r.refusal != nil:
			refused = append(refused, Refused{Item: items[i], Refusal: r.refusal})
		case r.fault == nil:
			done = append(done, items[i])
		case len(failed) < maxReported:
			failed = append(failed, r.fault)
		}
	}
	refused = final(refused)
	for _, r := range refused {
		if err := p.rejects.add(ctx, r); err != nil {
			return failed, err
		}
	}
	if err := p.applier.doubt(ctx, refused); err != nil {
		return failed, err
	}
	return failed, p.rejects.applied(ctx, done)
}
