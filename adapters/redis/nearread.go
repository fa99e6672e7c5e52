package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"andes/commands/price"
	"andes/projections"
	"andes/queries"
)

// pointerTTL bounds how long a reader goes by a pointer that Redis did not invalidate.
const pointerTTL = 5 * time.Second

// serving is what the pointer says. A Redis without a pointer is empty and gets one by its first write.
func (c *connection) serving(ctx context.Context) (projections.Generations, error) {
	n, now := c.near, time.Now()
	n.mu.RLock()
	known := n.pointer.at("", now)
	n.mu.RUnlock()
	if known != nil {
		return known.value, nil
	}
	n.mu.Lock()
	begun := n.pointer.begin("")
	n.mu.Unlock()
	says, err := c.askPointer(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pointer.finish("", begun) && err == nil {
		n.pointer.keep("", &atHand[projections.Generations]{vouched: vouched{until: now.Add(pointerTTL).UnixNano()}, value: says})
	}
	return says, err
}

func (c *connection) askPointer(ctx context.Context) (projections.Generations, error) {
	text, err := c.reading.Do(ctx, pinned(c.reading.B().Get().Key(c.pointerKey()).Build())).ToString()
	if rueidis.IsRedisNil(err) {
		return projections.FirstGenerations, nil
	}
	if err != nil {
		return projections.Generations{}, fmt.Errorf("redis: read the generation pointer: %w", err)
	}
	return c.parsed(text)
}

// servingLayout makes the keys of the generation that answers queries of the read model.
func (c *connection) servingLayout(ctx context.Context, model string) (layout, error) {
	says, err := c.serving(ctx)
	return c.layout(says.Of(model).Serving), err
}

// fence returns when all nodes' pushes of before the call were taken: an answer of each node that has keys comes
// behind them. A single node's pushes need no fence, they are in the way of whatever was just read.
func (c *connection) fence(ctx context.Context) error {
	if !c.clustered {
		return nil
	}
	commands := make(rueidis.Commands, len(tags))
	for i, tag := range tags {
		commands[i] = pinned(c.reading.B().Exists().Key(c.config.Prefix + "{" + tag + "}fence").Build())
	}
	for _, result := range c.reading.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return fmt.Errorf("redis: wait for what the nodes say: %w", err)
		}
	}
	return nil
}

// look puts what is at hand of the SKUs into found, and gives the others.
func look[V any](n *near, of book[V], generation projections.Generation, skus []string, found map[string]V) (wanted []string) {
	shelf, now := of.shelf(n), time.Now()
	n.mu.RLock()
	defer n.mu.RUnlock()
	if shelf.generation != generation {
		n.counts.looked(0, len(skus))
		return skus
	}
	for _, sku := range skus {
		switch entry := shelf.at(of.key(sku), now); {
		case entry == nil:
			wanted = append(wanted, sku)
		case entry.there:
			found[sku] = entry.value
		}
	}
	n.counts.looked(len(skus)-len(wanted), len(wanted))
	return wanted
}

// begin announces reads, and gives what finish needs.
func begin[V any](n *near, of book[V], skus []string) []int {
	shelf, begun := of.shelf(n), make([]int, len(skus))
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, sku := range skus {
		begun[i] = shelf.begin(of.key(sku))
	}
	return begun
}

// finish ends reads and keeps what they brought: entries of which Redis has not said that they changed.
func finish[V any](n *near, of book[V], generation projections.Generation, skus []string, begun []int, entries []*atHand[V], good bool) {
	shelf, until := of.shelf(n), time.Now().Add(nearTTL).UnixNano()
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, sku := range skus {
		key := of.key(sku)
		if holds := shelf.finish(key, begun[i]); holds && good && entries[i] != nil {
			entries[i].until = until
			learned(n, shelf, generation, key, entries[i])
		}
	}
}

var _ queries.Glancer = (*Reader)(nil)

// GlanceStock implements queries.Glancer.
func (r *Reader) GlanceStock(now time.Time, feed string, skus []string, seen []queries.Seen[queries.StockView]) (time.Time, bool) {
	n := r.client.atHand()
	if n == nil {
		return time.Time{}, false
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	synced, ok := n.watermark(feed, now)
	if !ok || !serves(n, &n.stocks, projections.Stocks.Name, now) {
		return time.Time{}, false
	}
	for i, sku := range skus {
		entry := n.stocks.at(sku, now)
		if entry == nil {
			return time.Time{}, false
		}
		seen[i] = queries.Seen[queries.StockView]{View: entry.value, There: entry.there}
	}
	return synced, true
}

// GlancePrices implements queries.Glancer.
func (r *Reader) GlancePrices(now time.Time, feed, list string, skus []string, seen []queries.Seen[queries.PriceView]) (time.Time, bool) {
	n := r.client.atHand()
	if n == nil {
		return time.Time{}, false
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	synced, ok := n.watermark(feed, now)
	if !ok || !serves(n, &n.prices, projections.Prices.Name, now) {
		return time.Time{}, false
	}
	var room [128]byte
	for i, sku := range skus {
		key := price.AppendKey(room[:0], list, sku)
		entry := n.prices.fresh(n.prices.kept[string(key)], now)
		if entry == nil {
			return time.Time{}, false
		}
		seen[i] = queries.Seen[queries.PriceView]{View: entry.value, There: entry.there}
	}
	return synced, true
}

// GlanceProduct implements queries.Glancer.
func (r *Reader) GlanceProduct(now time.Time, sku string) (queries.Seen[queries.ProductView], bool) {
	n := r.client.atHand()
	if n == nil {
		return queries.Seen[queries.ProductView]{}, false
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if !serves(n, &n.products, projections.Products.Name, now) {
		return queries.Seen[queries.ProductView]{}, false
	}
	entry := n.products.at(sku, now)
	if entry == nil {
		return queries.Seen[queries.ProductView]{}, false
	}
	return queries.Seen[queries.ProductView]{View: entry.value, There: entry.there}, true
}

var _ queries.Holder = (*Reader)(nil)

// held is what was at hand at one moment.
type held []*vouched

// Holds implements queries.Held.
func (h held) Holds(now time.Time) bool {
	for _, each := range h {
		if !each.holds(now) {
			return false
		}
	}
	return true
}

// Use implements queries.Held.
func (h held) Use(now time.Time) {
	for _, each := range h {
		each.use(now)
	}
}

// Size implements queries.Held. Values that are at hand no more are kept by it.
func (h held) Size() int { return len(h) * (8 + nearOverhead) }

// HoldStock implements queries.Holder.
func (r *Reader) HoldStock(now time.Time, feed string, skus []string) queries.Held {
	return hold(r.client.atHand(), func(n *near) *shelf[queries.StockView] { return &n.stocks }, projections.Stocks.Name, now, feed, skus,
		func(room []byte, sku string) []byte { return append(room, sku...) })
}

// HoldPrices implements queries.Holder.
func (r *Reader) HoldPrices(now time.Time, feed, list string, skus []string) queries.Held {
	return hold(r.client.atHand(), func(n *near) *shelf[queries.PriceView] { return &n.prices }, projections.Prices.Name, now, feed, skus,
		func(room []byte, sku string) []byte { return price.AppendKey(room, list, sku) })
}

// hold names all that an answer about the SKUs is made of; nil: not all of it is at hand.
func hold[V any](n *near, of func(*near) *shelf[V], model string, now time.Time, feed string, skus []string, key func(room []byte, sku string) []byte) queries.Held {
	if n == nil {
		return nil
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	shelf := of(n)
	if _, ok := n.watermark(feed, now); !ok || !serves(n, shelf, model, now) {
		return nil
	}
	made := make(held, 0, len(skus)+2)
	made = append(made, &n.pointer.kept[""].vouched, &n.sources.kept[feed].vouched)
	var room [128]byte
	for _, sku := range skus {
		entry := shelf.fresh(shelf.kept[string(key(room[:0], sku))], now)
		if entry == nil {
			return nil
		}
		made = append(made, &entry.vouched)
	}
	return made
}

// watermark gives what is at hand of a feed's; the caller holds the lock. A feed that never was in step is at hand,
// too.
func (n *near) watermark(feed string, now time.Time) (time.Time, bool) {
	entry := n.sources.at(feed, now)
	if entry == nil || !serves(n, &n.sources, projections.Sources.Name, now) {
		return time.Time{}, false
	}
	return entry.value, true
}

// atHand is what the process keeps of Redis; nil before it is connected.
func (c *Client) atHand() *near {
	if live := c.live.Load(); live != nil {
		return live.near
	}
	return nil
}
