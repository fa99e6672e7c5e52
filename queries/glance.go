package queries

import (
	"sync"
	"time"

	"andes/commands/partner"
	"andes/commands/source"
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

// Holder is a Glancer that tells how long what it has at hand stays what it is.
type Holder interface {
	// HoldStock names all that an answer about the SKUs is made of; nil when not all of it is at hand.
	HoldStock(now time.Time, feed string, skus []string) Held
	HoldPrices(now time.Time, feed, list string, skus []string) Held
}

// Held is what an answer was made of. While it holds, the same question has the same answer, but for what time alone
// changes.
type Held interface {
	Holds(now time.Time) bool
	Use(now time.Time) // says that the answer is given still: what is not used goes first when there is no room
	Size() int         // bytes, about
}

// HoldStock names what Stock answers the question by, if that is at hand: ask for it before the answer is made.
func HoldStock(reader Reader, now time.Time, skus []string) Held {
	if holder, able := reader.(Holder); able && len(skus) <= maxGlance {
		return holder.HoldStock(now, source.WMSStock, skus)
	}
	return nil
}

// HoldPrices names what Prices answers the question by, as HoldStock. Discounts by segment need products, too, and are
// not held.
func HoldPrices(reader Reader, policy *partner.Policy, now time.Time, skus []string) Held {
	if holder, able := reader.(Holder); able && len(skus) <= maxGlance && !policy.BySegment() {
		return holder.HoldPrices(now, source.ERPPrices, policy.PriceList, skus)
	}
	return nil
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
		synced = f.marks.orLast(feed, synced)
	}
	f.metrics.glanced(ok)
	return synced, ok
}

// GlancePrices implements Glancer, as GlanceStock.
func (f *Fallback) GlancePrices(now time.Time, feed, list string, skus []string, seen []Seen[PriceView]) (synced time.Time, ok bool) {
	if f.quick != nil {
		synced, ok = f.quick.GlancePrices(now, feed, list, skus, seen)
		synced = f.marks.orLast(feed, synced)
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

// HoldStock implements Holder by what the copy has at hand.
func (f *Fallback) HoldStock(now time.Time, feed string, skus []string) Held {
	if f.holder == nil {
		return nil
	}
	return f.holder.HoldStock(now, feed, skus)
}

// HoldPrices implements Holder, as HoldStock.
func (f *Fallback) HoldPrices(now time.Time, feed, list string, skus []string) Held {
	if f.holder == nil {
		return nil
	}
	return f.holder.HoldPrices(now, feed, list, skus)
}
