package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"andes/projections"
	"andes/queries"
)

// Reader answers queries from the generation that serves. It implements queries.Copy.
type Reader struct {
	client *Client
}

// NewReader gives a reader on the client.
func NewReader(client *Client) *Reader { return &Reader{client: client} }

// Stock implements queries.Copy.
func (r *Reader) Stock(ctx context.Context, skus []string) (queries.Copied[queries.StockView], error) {
	return read(ctx, r, projections.Stocks.Name, skus, projections.StockKey, func(value string) (queries.StockView, error) {
		kept, err := projections.DecodeStock(value)
		return queries.StockView(kept), err
	})
}

// Prices implements queries.Copy.
func (r *Reader) Prices(ctx context.Context, list string, skus []string) (queries.Copied[queries.PriceView], error) {
	key := func(sku string) string { return projections.PriceKey(list, sku) }
	return read(ctx, r, projections.Prices.Name, skus, key, func(value string) (queries.PriceView, error) {
		kept, err := projections.DecodePrice(value)
		return queries.PriceView(kept), err
	})
}

// Products implements queries.Copy.
func (r *Reader) Products(ctx context.Context, skus []string) (queries.Copied[queries.ProductView], error) {
	return read(ctx, r, projections.Products.Name, skus, projections.ProductKey, func(value string) (queries.ProductView, error) {
		kept, err := projections.DecodeProduct(value)
		return queries.ProductView(kept), err
	})
}

// watermarkCacheTTL bounds how long a watermark is kept that Redis did not invalidate.
const watermarkCacheTTL = 10 * time.Second

// Watermark implements queries.Copy. It reads through client-side caching: every query needs the
// watermark and it changes once per poll.
func (r *Reader) Watermark(ctx context.Context, feed string) (time.Time, bool, error) {
	client, err := r.client.connection()
	if err != nil {
		return time.Time{}, false, err
	}
	keys, err := client.servingLayout(ctx, projections.Sources.Name)
	if err != nil {
		return time.Time{}, false, err
	}
	get := client.B().Get().Key(keys.key(projections.SourceKey(feed))).Cache()
	text, err := client.DoCache(ctx, get, watermarkCacheTTL).ToString()
	if rueidis.IsRedisNil(err) {
		return time.Time{}, false, nil
	}
	if err != nil {
		return time.Time{}, false, fmt.Errorf("redis: read the watermark of %s: %w", feed, err)
	}
	value, there := projections.ValueOf(text)
	if !there {
		return time.Time{}, true, nil
	}
	at, err := projections.DecodeSource(value)
	if err != nil {
		return time.Time{}, false, nil // as good as not there
	}
	return at, true, nil
}

// read gets and decodes the SKUs' entries. A value that can't be decoded is as good as not there.
func read[V any](ctx context.Context, r *Reader, model string, skus []string, key func(sku string) string, decode func(value string) (V, error)) (queries.Copied[V], error) {
	copied := queries.Copied[V]{Found: make(map[string]V, len(skus))}
	if len(skus) == 0 {
		return copied, nil
	}
	client, err := r.client.connection()
	if err != nil {
		return copied, err
	}
	keys, err := client.servingLayout(ctx, model)
	if err != nil {
		return copied, err
	}
	entryKeys := make([]string, len(skus))
	for i, sku := range skus {
		entryKeys[i] = key(sku)
	}
	err = client.get(ctx, keys, entryKeys, func(i int, text string, kept bool) {
		if !kept {
			copied.Lacking = append(copied.Lacking, skus[i])
			return
		}
		value, there := projections.ValueOf(text)
		if !there {
			return
		}
		if view, err := decode(value); err == nil {
			copied.Found[skus[i]] = view
		} else {
			copied.Lacking = append(copied.Lacking, skus[i])
		}
	})
	return copied, err
}

// maxKeysPerGet bounds one MGET.
const maxKeysPerGet = 1000

// get reads the entries with as few commands as the server allows and gives each to take.
func (c *connection) get(ctx context.Context, keys layout, entryKeys []string, take func(i int, text string, kept bool)) error {
	groups := c.group(len(entryKeys), maxKeysPerGet, func(i int) (string, int) { return entryKeys[i], 0 })
	commands := make(rueidis.Commands, len(groups))
	for g, members := range groups {
		full := make([]string, len(members))
		for n, i := range members {
			full[n] = keys.key(entryKeys[i])
		}
		commands[g] = c.B().Mget().Key(full...).Build()
	}
	for g, result := range c.DoMulti(ctx, commands...) {
		values, err := result.ToArray()
		if err != nil {
			return fmt.Errorf("redis: read %d keys: %w", len(groups[g]), err)
		}
		if len(values) != len(groups[g]) {
			return fmt.Errorf("redis: %d values for %d keys", len(values), len(groups[g]))
		}
		for n, i := range groups[g] {
			text, err := values[n].ToString()
			take(i, text, err == nil)
		}
	}
	return nil
}

// maxBytesPerCommand bounds the values of one command, so that large ones do not hold up the others on
// the server. One value may be larger by itself.
const maxBytesPerCommand = 1 << 20

// group parts the indexes 0..n-1 so that each group can be one command: on a single server by the bounds
// alone, in a cluster by slot as well. entry gives an index's key and how many bytes it sends.
func (c *connection) group(n, bound int, entry func(i int) (key string, bytes int)) [][]int {
	var open [buckets][]int
	var sizes [buckets]int
	var groups [][]int
	for i := range n {
		key, size := entry(i)
		bucket := 0
		if c.clustered {
			bucket = bucketOf(key)
		}
		if full := len(open[bucket]) == bound || sizes[bucket]+size > maxBytesPerCommand; full && len(open[bucket]) > 0 {
			groups = append(groups, open[bucket])
			open[bucket], sizes[bucket] = nil, 0
		}
		open[bucket] = append(open[bucket], i)
		sizes[bucket] += size
	}
	for _, rest := range open {
		if len(rest) > 0 {
			groups = append(groups, rest)
		}
	}
	return groups
}
