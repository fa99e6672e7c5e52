package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"andes/adapters/kafka"
	"andes/adapters/postgres"
	"andes/adapters/redis"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/queries"
	"andes/test/bench/measure"
)

const (
	quietReads  = 10 * time.Second
	skusPerRead = 10
)

// readings are reads at a steady rate.
type readings struct {
	took  []time.Duration
	first error
}

func (r readings) p95() float64 { return measure.Milliseconds(measure.Percentile(r.took, 95)) }

func after(wait time.Duration) <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(wait, func() { close(done) })
	return done
}

// read asks for stock as the API does, until done.
func (p *platform) read(ctx context.Context, o options, done <-chan struct{}) readings {
	reader, err := queries.NewFallback(queries.FallbackConfig{Copy: redis.NewReader(p.client), States: p.store, PutBack: p.model.Project, Now: time.Now, Logger: quiet})
	if err != nil {
		return readings{first: err}
	}
	defer reader.Close()
	var all sync.WaitGroup
	var mu sync.Mutex
	var r readings
	ticker := time.NewTicker(time.Second / time.Duration(o.reads))
	defer ticker.Stop()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		case due := <-ticker.C:
			all.Go(func() {
				skus := make([]string, skusPerRead)
				for i := range skus {
					skus[i] = skuName(1 + rand.IntN(o.skus))
				}
				found, err := reader.Stock(ctx, skus)
				took := time.Since(due)
				if err == nil && len(found) == 0 {
					err = errors.New("a read found nothing")
				}
				mu.Lock()
				defer mu.Unlock()
				r.took = append(r.took, took)
				if r.first == nil {
					r.first = err
				}
			})
		}
	}
	all.Wait()
	slices.Sort(r.took)
	return r
}

// relayLog gives the relay its port.
type relayLog struct{ *postgres.RelayLog }

func (l relayLog) Acquire(ctx context.Context) (kafka.Session, error) { return l.RelayLog.Acquire(ctx) }

// stream starts relay and projector.
func (p *platform) stream(context.Context) error {
	relay, err := kafka.NewRelay(kafka.RelayConfig{
		Cluster: p.cluster, Topics: p.topics, Registry: p.registry, Logger: quiet,
		Log: relayLog{postgres.NewRelayLog(p.store.DB, postgres.DefaultRelayConfig())},
	})
	if err != nil {
		return err
	}
	feed := kafka.StateFeed{Cluster: p.cluster, Names: p.topics, Group: "projector", Topics: []string{p.topics.State("stock")}, Logger: quiet}
	p.running.Go(func() { _ = relay.Run(p.work) })
	p.running.Go(func() { _ = feed.Run(p.work, p.model.Project) })
	return nil
}

// writing are changes at a steady rate.
type writing struct {
	count atomic.Int64
	began time.Time
	ended time.Time
	stop  func() error
}

func (w *writing) rate() float64 { return float64(w.count.Load()) / w.ended.Sub(w.began).Seconds() }

const writers = 64

// write changes the stock of some SKU after the other, at the rate or as fast as the store can.
func (p *platform) write(ctx context.Context, o options) *writing {
	ctx, cancel := context.WithCancel(ctx)
	w := &writing{began: time.Now()}
	var all sync.WaitGroup
	var mu sync.Mutex
	var first error
	due := make(chan struct{}, writers)
	all.Go(func() { pace(ctx, o.changes, due) })
	version := time.Now().UnixNano()
	for range writers {
		all.Go(func() {
			for range due {
				n := w.count.Add(1)
				sku := skuName(1 + rand.IntN(o.skus))
				_, err := p.store.Execute(ctx, eventstore.Request{Command: stock.Report{SKU: sku, OnHand: n % 1000, SourceVersion: version + n, At: time.Now()}})
				if err != nil && ctx.Err() == nil {
					mu.Lock()
					first = errors.Join(first, err)
					mu.Unlock()
					cancel()
				}
			}
		})
	}
	w.stop = func() error {
		cancel()
		all.Wait()
		w.ended = time.Now()
		return first
	}
	return w
}

// pace hands out what is due, every few milliseconds.
func pace(ctx context.Context, perSecond int, due chan<- struct{}) {
	defer close(due)
	const step = 5 * time.Millisecond
	ticker := time.NewTicker(step)
	defer ticker.Stop()
	began, given := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for ; given < int(time.Since(began).Seconds()*float64(perSecond)); given++ {
			select {
			case due <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}
}

// drainLimit bounds the wait for changes on their way.
const drainLimit = time.Minute

// differences compares what a query is answered with PostgreSQL, key by key, once the last changes have
// arrived. It shares nothing with the product's own verification.
func (p *platform) differences(ctx context.Context) (wrong, compared int, err error) {
	for deadline := time.Now().Add(drainLimit); ; {
		if wrong, compared, err = p.compare(ctx); err != nil || wrong == 0 || time.Now().After(deadline) {
			return wrong, compared, err
		}
		select {
		case <-ctx.Done():
			return wrong, compared, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (p *platform) compare(ctx context.Context) (wrong, compared int, err error) {
	reader := redis.NewReader(p.client)
	err = p.store.EachState(ctx, "stock", func(records []eventstore.StateRecord) error {
		skus := make([]string, len(records))
		for i, record := range records {
			skus[i] = record.Stream.Key
		}
		copied, err := reader.Stock(ctx, skus)
		if err != nil {
			return fmt.Errorf("read Redis: %w", err)
		}
		for _, record := range records {
			state, err := stock.Aggregate.Decode(record.State)
			if err != nil {
				return err
			}
			compared++
			view, found := copied.Found[record.Stream.Key]
			if !found || view.Net != state.Net() || view.ChangedAt.UnixMilli() != state.ChangedAt.UnixMilli() {
				wrong++
			}
		}
		return nil
	})
	return wrong, compared, err
}
