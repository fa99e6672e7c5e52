package queries

import (
	"sync"
	"time"
)

// Glancer is a Reader, or a Copy, that may have what is asked for at hand, as fresh as the copy: it gives it at
// once, or says that it has to be asked properly. The watermark that it gives is not newer than any of the values
// permits, as if it had been read before them.
type Glancer interface {
	// GlanceStock puts the view of each SKU into seen, which is as long; ok is false when anything is not at hand.
	GlanceStock(now time.Time, feed string, skus []string, seen []Seen[StockView]) (synced time.Time, ok bool)
	GlancePrices(now time.Time, feed, list string, skus []string, seen []Seen[PriceView]) (synced time.Time, ok bool)
	GlanceProduct(now time.Time, sku string) (seen Seen[ProductView], ok bool)
}

// Seen is a view, or that there is none.
type Seen[V any] struct {
	View  V
	There bool
}

// maxGlance is how many SKUs are looked for at once; more are asked for properly.
const maxGlance = 100

var (
	stockGlances = sync.Pool{New: func() any { return new([maxGlance]Seen[StockView]) }}
	priceGlances = sync.Pool{New: func() any { return new([maxGlance]Seen[PriceView]) }}
)

// GlanceStock implements Glancer by what the copy has at hand.
func (f *Fallback) GlanceStock(now time.Time, feed string, skus []string, seen []Seen[StockView]) (synced time.Time, ok bool) {
	if f.quick != nil {
		synced, ok = f.quick.GlanceStock(now, feed, skus, seen)
	}
	f.metrics.glanced(ok)
	return synced, ok
}

// GlancePrices implements Glancer, as GlanceStock.
func (f *Fallback) GlancePrices(now time.Time, feed, list string, skus []string, seen []Seen[PriceView]) (synced time.Time, ok bool) {
	if f.quick != nil {
		synced, ok = f.quick.GlancePrices(now, feed, list, skus, seen)
	}
	f.metrics.glanced(ok)
	return synced, ok
}

// GlanceProduct implements Glancer, as GlanceStock.
func (f *Fallback) GlanceProduct(now time.Time, sku string) (seen Seen[ProductView], ok bool) {
	if f.quick != nil {
		seen, ok = f.quick.GlanceProduct(now, sku)
	}
	f.metrics.glanced(ok)
	return seen, ok
}
