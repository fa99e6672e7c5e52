package redis_test

import (
	"fmt"
	"testing"

	"andes/adapters/redis"
	"andes/projections"
	"andes/test/redistest"
)

// BenchmarkApply writes batches as the projector does, each over the same keys at the next position.
func BenchmarkApply(b *testing.B) {
	for _, size := range []int{1, 200, 500} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			model := newModel(b, redistest.New(b), redis.ReadModelConfig{})
			position := int64(0)
			for b.Loop() {
				position++
				batch := make([]projections.Entry, size)
				for i := range batch {
					batch[i] = stockEntry(fmt.Sprint(i), position, position)
				}
				apply(b, model, batch...)
			}
			b.ReportMetric(float64(size)*float64(b.N)/b.Elapsed().Seconds(), "keys/s")
		})
	}
}

// BenchmarkRead asks for the stock of some SKUs, as queries do.
func BenchmarkRead(b *testing.B) {
	for _, size := range []int{1, 10, 100} {
		client := redistest.New(b)
		var entries []projections.Entry
		var skus []string
		for i := range size {
			skus = append(skus, fmt.Sprint(i))
			entries = append(entries, stockEntry(skus[i], 1, 1))
		}
		apply(b, newModel(b, client, redis.ReadModelConfig{}), entries...)
		reader := redis.NewReader(client)
		read := func(b *testing.B) {
			if copied, err := reader.Stock(b.Context(), skus); err != nil || len(copied.Found) != size {
				b.Errorf("%d found, %v", len(copied.Found), err)
			}
		}
		b.Run(fmt.Sprint(size, " by one"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read(b)
			}
		})
		b.Run(fmt.Sprint(size, " by many"), func(b *testing.B) {
			b.SetParallelism(8)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					read(b)
				}
			})
		})
	}
}
