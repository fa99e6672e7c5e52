package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"andes/commands/reservation"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/test/bench/measure"
)

// reserve holds one unit of a SKU for a fresh order.
type reserve struct{ orderID, sku string }

func (c reserve) Needs() []eventstore.Stream {
	return []eventstore.Stream{stock.Aggregate.Stream(c.sku)}
}

func (c reserve) Decide(u *eventstore.Unit) (any, error) {
	reservation.Aggregate.Expect(u, c.orderID, 0, reservation.State{})
	return nil, reservation.Hold(u, c.orderID, []reservation.Line{{SKU: c.sku, Quantity: 1}}, func(net int64) int64 { return net })
}

const (
	manySKUs   = 10_000
	ampleStock = 1 << 40
)

// measureHotSKU compares reservations that all want one SKU with reservations spread over many.
func measureHotSKU(ctx context.Context, url string, duration time.Duration, report measure.Report) error {
	store, closeStore, err := open(ctx, url, freshSchema("hot"))
	if err != nil {
		return err
	}
	defer closeStore()
	if err := stockUp(ctx, store); err != nil {
		return err
	}
	var ratio, hot, spread measure.Series
	for i := range measure.Runs {
		one := reserving(ctx, store, fmt.Sprint("hot", i), duration, func() string { return "sku-0" })
		many := reserving(ctx, store, fmt.Sprint("many", i), duration, func() string { return fmt.Sprint("sku-", rand.IntN(manySKUs)) })
		if one.Failed+many.Failed > 0 {
			return fmt.Errorf("%d reservations failed: %w %w", one.Failed+many.Failed, one.First, many.First)
		}
		hot, spread, ratio = append(hot, one.PerSecond), append(spread, many.PerSecond), append(ratio, one.PerSecond/many.PerSecond)
		report.Note("run %d: one SKU %.0f/s (p99 %.2f ms), %d SKUs %.0f/s (p99 %.2f ms)", i+1, one.PerSecond, measure.Milliseconds(one.P99), manySKUs, many.PerSecond, measure.Milliseconds(many.P99))
	}
	report.Result("hot_sku_per_s", hot, "reservations/s")
	report.Result("spread_sku_per_s", spread, "reservations/s")
	report.Result("hot_sku_ratio", ratio, "x")
	return nil
}

func reserving(ctx context.Context, store eventstore.Executor, prefix string, duration time.Duration, sku func() string) measure.Load {
	return measure.Closed(manyCallers, duration, func(caller, n int) error {
		_, err := store.Execute(ctx, eventstore.Request{Command: reserve{orderID: fmt.Sprintf("%s-%d-%d", prefix, caller, n), sku: sku()}})
		return err
	})
}

func stockUp(ctx context.Context, store eventstore.Executor) error {
	var all sync.WaitGroup
	failures := make(chan error, manyCallers)
	for w := range manyCallers {
		all.Go(func() {
			for i := w; i < manySKUs; i += manyCallers {
				_, err := store.Execute(ctx, eventstore.Request{Command: stock.Report{SKU: fmt.Sprint("sku-", i), OnHand: ampleStock, SourceVersion: 1, At: time.Now()}})
				if err != nil {
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
