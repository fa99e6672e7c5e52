package main

import (
	"context"
	"fmt"
	"time"

	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/test/bench/seed"
)

func skuName(i int) string { return fmt.Sprintf("SKU-%05d", i) }

const seedTimeout = time.Minute

// fill puts the partners and what they ask for into the platform's schema. The first read of each SKU
// brings it into the read model.
func fill(ctx context.Context, schema string, skus int) error {
	ctx, cancel := context.WithTimeout(ctx, seedTimeout)
	defer cancel()
	return seed.With(ctx, schema, func(ctx context.Context, executor eventstore.Executor) error {
		policy := partner.Policy{PriceList: "retail", Currency: "GBP"}
		commands := []eventstore.Command{
			partner.Configure{Partner: partner.State{ID: flooding, Name: "Flooding", Tier: "bronze", Policy: policy}},
			partner.Configure{Partner: partner.State{ID: neighbour, Name: "Neighbour", Tier: "gold", Policy: policy}},
		}
		for i := range skus {
			commands = append(commands,
				product.Report{SKU: skuName(i), Name: "Product", Segment: "gift", SourceVersion: 1, At: time.Now()},
				price.Report{List: "retail", SKU: skuName(i), Amount: "2.55", Currency: "GBP", SourceVersion: 1, At: time.Now()},
				stock.Report{SKU: skuName(i), OnHand: 1000, SourceVersion: 1, At: time.Now()})
		}
		for _, command := range commands {
			if _, err := executor.Execute(ctx, eventstore.Request{Command: command}); err != nil {
				return err
			}
		}
		return nil
	})
}
