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

// Reader answers queries from the generation that serves. It implements queries.Copy.
type Reader struct {
	client *Client
}

// NewReader gives a reader on the client.
func NewReader(client *Client) *Reader { return &Reader{client: client} }

// Stock implements queries.Copy.
func (r *Reader) Stock(ctx context.Context, skus []string) (queries.Copied[queries.StockView], error) {
	return read(ctx, r, stockBook, skus)
}

// Prices implements queries.Copy.
func (r *Reader) Prices(ctx context.Context, list string, skus []string) (queries.Copied[queries.PriceView], error) {
	return read(ctx, r, priceBook(list), skus)
}

// Products implements queries.Copy.
func (r *Reader) Products(ctx context.Context, skus []string) (queries.Copied[queries.ProductView], error) {
	return read(ctx, r, productBook, skus)
}

func stockOf(value string) (queries.StockView, error) {
	kept, err := projections.DecodeStock(value)
	return queries.StockView(kept), err
}

func priceOf(value string) (queries.PriceView, error) {
	kept, err := projections.DecodePrice(value)
	return queries.PriceView(kept), err
}

func productOf(value string) (queries.ProductView, error) {
	kept, err := projections.DecodeProduct(value)
	return queries.ProductView(kept), err
}

// book is what is read of one read model, and where it is kept at hand.
type book[V any] struct {
	model  string
	shelf  func(n *near) *shelf[V]
	key    func(sku string) string // what follows the model in the entry's key
	decode func(value string) (V, error)
	fenced bool // is a watermark
}

func itself(sku string) string { return sku }

var (
	stockBook = book[queries.StockView]{
		model: projections.Stocks.Name, shelf: func(n *near) *shelf[queries.StockView] { return &n.stocks }, key: itself, decode: stockOf,
	}
	productBook = book[queries.ProductView]{
		model: projections.Products.Name, shelf: func(n *near) *shelf[queries.ProductView] { return &n.products }, key: itself, decode: productOf,
	}
	sourceBook = book[time.Time]{
		model: projections.Sources.Name, shelf: func(n *near) *shelf[time.Time] { return &n.sources }, key: itself,
		decode: projections.DecodeSource, fenced: true,
	}
)

func priceBook(list string) book[queries.PriceView] {
	return book[queries.PriceView]{
		model: projections.Prices.Name, shelf: func(n *near) *shelf[queries.PriceView] { return &n.prices },
		key: func(sku string) string { return price.Key(list, sku) }, decode: priceOf,
	}
}

// Watermark implements queries.Copy.
func (r *Reader) Watermark(ctx context.Context, feed string) (time.Time, bool, error) {
	copied, err := read(ctx, r, sourceBook, []string{feed})
	at, known := copied.Found[feed]
	return at, err == nil && known, err
}

// read gives what is at hand of the SKUs' entries, and gets the others. A value that can't be decoded is as good
// as not there.
func read[V any](ctx context.Context, r *Reader, of book[V], skus []string) (queries.Copied[V], error) {
	copied := queries.Copied[V]{Found: make(map[string]V, len(skus))}
	if len(skus) == 0 {
		return copied, nil
	}
	client, err := r.client.connection()
	if err != nil {
		return copied, err
	}
	serving, err := client.serving(ctx)
	if err != nil {
		return copied, err
	}
	generation := serving.Of(of.model).Serving
	wanted := look(client.near, of, generation, skus, copied.Found)
	if len(wanted) == 0 {
		return copied, nil
	}
	begun := begin(client.near, of, wanted)
	entryKeys := make([]string, len(wanted))
	for i, sku := range wanted {
		entryKeys[i] = of.model + ":" + of.key(sku)
	}
	entries := make([]*atHand[V], len(wanted))
	err = client.getBy(ctx, client.reading, client.layout(generation), entryKeys, func(i int, text string, kept bool) {
		switch {
		case kept:
			entries[i] = decoded(of, text)
		case of.fenced: // that there is no watermark yet is at hand, too: no state is asked for it
			entries[i] = &atHand[V]{}
		}
	})
	if err == nil && of.fenced {
		err = client.fence(ctx)
	}
	finish(client.near, of, generation, wanted, begun, entries, err == nil)
	if err != nil {
		return copied, err
	}
	for i, entry := range entries {
		switch {
		case entry == nil:
			copied.Lacking = append(copied.Lacking, wanted[i])
		case entry.there:
			copied.Found[wanted[i]] = entry.value
		}
	}
	return copied, nil
}

// decoded gives an entry, or nil for one that can't be read.
func decoded[V any](of book[V], text string) *atHand[V] {
	entry := &atHand[V]{bytes: len(text)}
	if projections.PositionOf(text) < 0 {
		return nil // nobody of us wrote that
	}
	value, there := projections.ValueOf(text)
	if !there {
		return entry
	}
	view, err := of.decode(value)
	if err != nil {
		return nil
	}
	entry.value, entry.there = view, true
	return entry
}

// maxKeysPerGet bounds one MGET.
const maxKeysPerGet = 1000

// get reads the entries with as few commands as the server allows and gives each to take.
func (c *connection) get(ctx context.Context, keys layout, entryKeys []string, take func(i int, text string, kept bool)) error {
	return c.getBy(ctx, c.Client, keys, entryKeys, take)
}

// pinned keeps a command that only reads from being used for another one: the driver sends it once more when the connection
// breaks, and then the first connection's writer may still have it.
func pinned(command rueidis.Completed) rueidis.Completed { return command.Pin() }

// getBy is get by one of the drivers: after one that is tracked, the server tells of the entries' changes.
func (c *connection) getBy(ctx context.Context, driver rueidis.Client, keys layout, entryKeys []string, take func(i int, text string, kept bool)) error {
	groups := c.group(len(entryKeys), maxKeysPerGet, func(i int) (string, int) { return entryKeys[i], 0 })
	commands := make(rueidis.Commands, len(groups))
	for g, members := range groups {
		full := make([]string, len(members))
		for n, i := range members {
			full[n] = keys.key(entryKeys[i])
		}
		commands[g] = pinned(driver.B().Mget().Key(full...).Build())
	}
	for g, result := range driver.DoMulti(ctx, commands...) {
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
