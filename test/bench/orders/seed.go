package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/test/bench/seed"
)

func skuName(i int) string { return fmt.Sprintf("SKU-%05d", i) }

const (
	seeders     = 64
	ampleStock  = 1 << 40
	seedTimeout = 2 * time.Minute
)

// fill puts a partner and a catalogue into the platform's schema.
func fill(ctx context.Context, schema string, skus int) error {
	ctx, cancel := context.WithTimeout(ctx, seedTimeout)
	defer cancel()
	return seed.With(ctx, schema, func(ctx context.Context, executor eventstore.Executor) error {
		_, err := executor.Execute(ctx, eventstore.Request{Command: partner.Configure{Partner: partner.State{
			ID: "bench", Name: "Bench", Tier: "gold", Policy: partner.Policy{PriceList: "retail", Currency: "GBP"},
		}}})
		if err != nil {
			return err
		}
		return seedCatalogue(ctx, executor, skus)
	})
}

func seedCatalogue(ctx context.Context, executor eventstore.Executor, skus int) error {
	var all sync.WaitGroup
	failures := make(chan error, seeders)
	for s := range seeders {
		all.Go(func() {
			for i := s; i < skus; i += seeders {
				for _, command := range []eventstore.Command{
					product.Report{SKU: skuName(i), Name: "Product " + skuName(i), Segment: "gift", SourceVersion: 1, At: time.Now()},
					price.Report{List: "retail", SKU: skuName(i), Amount: "2.55", Currency: "GBP", SourceVersion: 1, At: time.Now()},
					stock.Report{SKU: skuName(i), OnHand: ampleStock, SourceVersion: 1, At: time.Now()},
				} {
					if _, err := executor.Execute(ctx, eventstore.Request{Command: command}); err != nil {
						failures <- err
						return
					}
				}
			}
		})
	}
	all.Wait()
	close(failures)
	return <-failures
}
