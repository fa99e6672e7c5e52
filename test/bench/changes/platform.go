package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"andes/commands/partner"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/test/bench/andes"
	"andes/test/bench/seed"
)

const (
	patience   = 30 * time.Second
	seeders    = 64
	mostAtOnce = 64
	perPartner = 10 // followers that the platform allows a partner at once
	oddTime    = 50 * time.Millisecond
)

// platform is a query instance, a process that publishes and projects, and who changes stock.
type platform struct {
	installation *andes.Installation
	workers      *andes.Server
	instance     *andes.Server
	client       *http.Client
	executor     eventstore.Executor
	skus         int
	tokens       []string // of the partners
	version      atomic.Int64
}

func skuName(i int) string { return fmt.Sprintf("SKU-%05d", i) }

func partnerName(i int) string { return fmt.Sprintf("bench-%03d", i) }

// onPlatform starts the platform, fills it and runs the work.
func onPlatform(ctx context.Context, o options, work func(ctx context.Context, p *platform) error) error {
	p := &platform{skus: o.skus, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true}}}
	defer p.stop()
	var err error
	if p.installation, err = andes.Install(ctx, "changes", "", "ANDES_QUOTA=off", "ANDES_KAFKA_PARTITIONS=3"); err != nil {
		return err
	}
	return seed.With(ctx, p.installation.Name, func(ctx context.Context, executor eventstore.Executor) error {
		p.executor = executor
		if err := p.fill(ctx, o); err != nil {
			return err
		}
		if err := p.start(ctx, len(p.tokens)); err != nil {
			return err
		}
		return work(ctx, p)
	})
}

// fill puts partners and a catalogue into the schema.
func (p *platform) fill(ctx context.Context, o options) error {
	p.tokens = make([]string, 1+max(o.followers, o.pollers*perPartner)/perPartner)
	for i := range p.tokens {
		_, err := p.executor.Execute(ctx, eventstore.Request{Command: partner.Configure{Partner: partner.State{
			ID: partnerName(i), Name: "Bench", Tier: "gold", Policy: partner.Policy{PriceList: "retail", Currency: "GBP"},
		}}})
		if err != nil {
			return err
		}
	}
	var all sync.WaitGroup
	failures := make(chan error, seeders)
	for s := range seeders {
		all.Go(func() {
			for i := s; i < o.skus; i += seeders {
				if _, err := p.set(ctx, skuName(i)); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failures)
	return <-failures
}

func (p *platform) start(ctx context.Context, partners int) (err error) {
	if p.workers, err = p.installation.Serve(ctx, "relay,projector"); err != nil {
		return err
	}
	if p.instance, err = p.installation.Serve(ctx, "query"); err != nil {
		return err
	}
	if err := p.workers.Ready(ctx); err != nil {
		return err
	}
	if err := p.instance.Ready(ctx); err != nil {
		return err
	}
	for i := range partners {
		if p.tokens[i], err = p.instance.Token(ctx, partnerName(i)); err != nil {
			return err
		}
	}
	return nil
}

func (p *platform) stop() {
	for _, server := range []*andes.Server{p.instance, p.workers} {
		if server != nil {
			server.Stop()
		}
	}
	if p.installation != nil {
		p.installation.Remove()
	}
}

// made is a change: the level, which no other change has, and when its commit was known.
type made struct {
	value int64
	at    time.Time
}

// change gives some SKU another level.
func (p *platform) change(ctx context.Context) (made, error) {
	return p.set(ctx, skuName(rand.IntN(p.skus)))
}

func (p *platform) set(ctx context.Context, sku string) (made, error) {
	value := p.version.Add(1)
	_, err := p.executor.Execute(ctx, eventstore.Request{Command: stock.Report{SKU: sku, OnHand: value, SourceVersion: value, At: time.Now()}})
	return made{value, time.Now()}, err
}

// outcome is what a load brought.
type outcome struct {
	changes   int
	took      time.Duration
	cpu       time.Duration // of the instance
	generator time.Duration
	values    int64 // that were told
	bytes     int64
	late      time.Duration // the last change, at the last follower
}

func (o outcome) cores() float64          { return o.cpu.Seconds() / o.took.Seconds() }
func (o outcome) bytesPerSecond() float64 { return float64(o.bytes) / o.took.Seconds() }

// load makes changes at a steady rate, and waits until all who follow have the last one; nil: nobody does.
func (p *platform) load(ctx context.Context, rate int, duration time.Duration, who *crowd) (outcome, error) {
	if who != nil {
		who.reset()
	}
	cpu, generator, began := p.instance.CPU(), andes.OwnCPU(), time.Now()
	count, err := p.steady(ctx, rate, duration)
	if err != nil {
		return outcome{}, err
	}
	done := outcome{changes: count}
	if who != nil {
		last, err := p.change(ctx)
		if err != nil {
			return done, err
		}
		done.changes++
		if done.late, err = who.await(ctx, last); err != nil {
			return done, err
		}
	}
	done.took, done.cpu, done.generator = time.Since(began), p.instance.CPU()-cpu, andes.OwnCPU()-generator
	if who != nil {
		done.values, done.bytes = who.values.Load(), who.bytes.Load()
	}
	return done, nil
}

// steady makes changes at a rate, whatever each takes.
func (p *platform) steady(ctx context.Context, rate int, duration time.Duration) (count int, err error) {
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	slots := make(chan struct{}, mostAtOnce)
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	for end := time.Now().Add(duration); time.Now().Before(end) && failed.Load() == nil; count++ {
		select {
		case <-ctx.Done():
			return count, ctx.Err()
		case <-ticker.C:
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if _, err := p.change(ctx); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	all.Wait()
	if fault := failed.Load(); fault != nil {
		return count, *fault
	}
	return count, nil
}

func odd() time.Duration { return oddTime + rand.N(2*oddTime) }

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
