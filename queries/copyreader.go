package queries

import (
	"context"
	"time"
)

// CopyReader is a Reader that asks a copy alone: what the copy lacks is told as not there.
type CopyReader struct{ Copy Copy }

var _ Reader = CopyReader{}

// Stock implements Reader.
func (r CopyReader) Stock(ctx context.Context, skus []string) (map[string]StockView, error) {
	copied, err := r.Copy.Stock(ctx, skus)
	return copied.Found, err
}

// Prices implements Reader.
func (r CopyReader) Prices(ctx context.Context, list string, skus []string) (map[string]PriceView, error) {
	copied, err := r.Copy.Prices(ctx, list, skus)
	return copied.Found, err
}

// Products implements Reader.
func (r CopyReader) Products(ctx context.Context, skus []string) (map[string]ProductView, error) {
	copied, err := r.Copy.Products(ctx, skus)
	return copied.Found, err
}

// Watermark implements Reader.
func (r CopyReader) Watermark(ctx context.Context, feed string) (time.Time, error) {
	at, _, err := r.Copy.Watermark(ctx, feed)
	return at, err
}
