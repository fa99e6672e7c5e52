package queries

import (
	"context"
	"time"
)

// Product answers for one SKU.
func Product(ctx context.Context, reader Reader, now time.Time, sku string) (ProductView, bool, error) {
	if quick, able := reader.(Glancer); able {
		if seen, done := quick.GlanceProduct(now, sku); done {
			return seen.View, seen.There, nil
		}
	}
	found, err := reader.Products(ctx, []string{sku})
	view, known := found[sku]
	return view, known, err
}
