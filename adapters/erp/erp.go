// Package erp keeps Andes in step with the ERP: the only code that talks to it. It polls two change feeds,
// products and prices, and reports each record to the write side, which knows by the record's version
// whether it is news. On a schedule it reads both feeds from their beginnings, a page at a time, and finds
// what no cursor tells: changes without a stamp or a version, records that came back, and records that are
// gone. The ERP may also push records; Records says how they are read.
package erp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/source"
	"andes/eventstore"
	"andes/polling"
)

// Caller makes one guarded call: it gives the status of an answer that the system meant and decodes the
// JSON of a 2xx answer; everything else is an error.
type Caller interface {
	Call(request *http.Request, answer any) (status int, err error)
}

// Config of the adapter.
type Config struct {
	URL      string // of the ERP, without a slash at its end
	Caller   Caller
	Products polling.Source // nil: the ERP's own feed of products
	Prices   polling.Source // nil: the ERP's own feed of prices
	Executor eventstore.Executor
	Reader   eventstore.Reader
	Lease    polling.Lease
	Rejects  func(context.Context, polling.Reject) // nil: only logged
	Ledger   polling.Ledger                        // as polling.Config has it
	States   polling.States                        // nil: the ERP's own feeds are not compared
	Log      *slog.Logger
	Metrics  *polling.Metrics
	Away     func() bool      // as polling.Config has it
	Now      func() time.Time // nil: time.Now
	Interval time.Duration    // 0: polling.DefaultInterval
	Overlap  time.Duration    // 0: DefaultOverlap
	PageSize int              // 0: DefaultPageSize

	CompareEvery time.Duration // how often everything is compared; 0: DefaultCompareEvery
}

// Defaults of the adapter.
const (
	DefaultOverlap      = 5 * time.Second
	DefaultPageSize     = 1000
	DefaultCompareEvery = 10 * time.Minute
)

// Records may become visible up to lookback late, and are then found within lookbackEvery.
const (
	lookback      = 10 * time.Minute
	lookbackEvery = time.Minute
)

// CodeRecordInvalid rejects a record that does not keep to the feed's contract.
const CodeRecordInvalid eventstore.Code = "RECORD_INVALID"

// Adapter polls the ERP.
type Adapter struct {
	Products *polling.Poller
	Prices   *polling.Poller
}

// New makes the adapter's two pollers.
func New(cfg Config) (*Adapter, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Overlap == 0 {
		cfg.Overlap = DefaultOverlap
	}
	if cfg.PageSize == 0 {
		cfg.PageSize = DefaultPageSize
	}
	if cfg.CompareEvery == 0 {
		cfg.CompareEvery = DefaultCompareEvery
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	var faults []error
	if cfg.Products == nil || cfg.Prices == nil {
		if _, err := url.ParseRequestURI(cfg.URL); err != nil {
			faults = append(faults, fmt.Errorf("erp: %w", err))
		}
		if cfg.Caller == nil {
			faults = append(faults, errors.New("erp: no caller"))
		}
	}
	if cfg.Products == nil {
		absence := polling.Absence[product.State]{
			States: cfg.States, Aggregate: product.Aggregate,
			Absent:  func(s product.State) bool { return s.Removed },
			Version: func(s product.State) int64 { return s.SourceVersion },
			Vanish: func(sku string, version int64) polling.Item {
				return polling.Item{ID: sku, Version: version, Command: product.Vanish{SKU: sku, Version: version, At: cfg.Now()}, Meta: byERP}
			},
		}
		cfg.Products = cfg.feed(source.ERPProducts, "/products", productOf, absence.Gone)
	}
	if cfg.Prices == nil {
		absence := polling.Absence[price.State]{
			States: cfg.States, Aggregate: price.Aggregate,
			Absent:  func(s price.State) bool { return s.Removed },
			Version: func(s price.State) int64 { return s.SourceVersion },
			Vanish: func(key string, version int64) polling.Item {
				list, sku := price.ParseKey(key)
				return polling.Item{ID: key, Version: version, Command: price.Vanish{List: list, SKU: sku, Version: version, At: cfg.Now()}, Meta: byERP}
			},
		}
		cfg.Prices = cfg.feed(source.ERPPrices, "/prices", priceOf, absence.Gone)
	}
	products, err := cfg.poller(source.ERPProducts, cfg.Products)
	faults = append(faults, err)
	prices, err := cfg.poller(source.ERPPrices, cfg.Prices)
	return &Adapter{Products: products, Prices: prices}, errors.Join(append(faults, err)...)
}

// reading makes a change of a record; compared is when the comparison began that found it, zero if none did.
type reading func(record json.RawMessage, compared time.Time) polling.Change

// feed is one of the ERP's own.
func (cfg Config) feed(name, path string, read reading, gone func(context.Context, map[string]struct{}) ([]polling.Item, bool, error)) polling.Source {
	fetch := func(ctx context.Context, since polling.Since) (polling.ChangePage, error) {
		return cfg.fetch(ctx, path, since, func(record json.RawMessage) polling.Change { return read(record, time.Time{}) })
	}
	picking := polling.Picking{
		Source: polling.Changes{Fetch: fetch, Overlap: cfg.Overlap, Lookback: lookback, LookbackEvery: lookbackEvery, Now: cfg.Now},
		From: func(ctx context.Context, ids []string) ([]polling.Item, error) {
			return cfg.pick(ctx, path, ids, read)
		},
	}
	if cfg.States != nil {
		round := &polling.Round{
			Every: cfg.CompareEvery, Now: cfg.Now, Gone: gone,
			Counted: func(came, has int) { cfg.Metrics.Counted(name, came, has) },
		}
		round.Page = polling.Everything(func(ctx context.Context, since polling.Since) (polling.ChangePage, error) {
			return cfg.fetch(ctx, path, since, func(record json.RawMessage) polling.Change { return read(record, round.Begun()) })
		})
		picking.Source = polling.Comparing{Changes: picking.Source, Round: round}
	}
	return picking
}

// pick reads records one by one: GET /products/{sku}, GET /prices/{list}/{sku}.
func (cfg Config) pick(ctx context.Context, path string, ids []string, read reading) ([]polling.Item, error) {
	var items []polling.Item
	for _, id := range ids {
		target := cfg.URL + path
		if list, sku := price.ParseKey(id); sku != "" {
			target += "/" + url.PathEscape(list)
			id = sku
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, target+"/"+url.PathEscape(id), nil)
		if err != nil {
			return nil, fmt.Errorf("read one of %s: %w", path, err)
		}
		var record json.RawMessage
		status, err := cfg.Caller.Call(request, &record)
		switch {
		case err != nil:
			return nil, fmt.Errorf("read one of %s: %w", path, err)
		case status == http.StatusOK:
			items = append(items, read(record, time.Time{}).Item)
		}
	}
	return items, nil
}

func (cfg Config) poller(feed string, from polling.Source) (*polling.Poller, error) {
	return polling.New(polling.Config{
		Feed: feed, Source: from,
		Executor: cfg.Executor, Reader: cfg.Reader, Lease: cfg.Lease, Rejects: cfg.Rejects, Ledger: cfg.Ledger,
		Log: cfg.Log, Metrics: cfg.Metrics, Away: cfg.Away, Now: cfg.Now, Interval: cfg.Interval,
	})
}

// Run polls until ctx ends.
func (a *Adapter) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.Products.Run(ctx) })
	group.Go(func() error { return a.Prices.Run(ctx) })
	return group.Wait()
}

// page is a feed's answer. Records are decoded one by one, so that a bad one is rejected alone; a page
// without the members that say how it goes on is broken.
type page struct {
	Items   *[]json.RawMessage `json:"items"`
	HasMore *bool              `json:"hasMore"`
	Now     string             `json:"now"`
	Total   int                `json:"total"`
}

func (cfg Config) fetch(ctx context.Context, path string, since polling.Since, read func(json.RawMessage) polling.Change) (polling.ChangePage, error) {
	query := url.Values{"limit": {strconv.Itoa(cfg.PageSize)}}
	if !since.UpdatedAt.IsZero() {
		query.Set("updatedSince", since.UpdatedAt.UTC().Format(time.RFC3339Nano))
	}
	if since.ID != "" {
		query.Set("afterId", since.ID)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.URL+path+"?"+query.Encode(), nil)
	if err != nil {
		return polling.ChangePage{}, fmt.Errorf("read %s: %w", path, err)
	}
	var got page
	status, err := cfg.Caller.Call(request, &got)
	switch {
	case err != nil:
		return polling.ChangePage{}, fmt.Errorf("read %s: %w", path, err)
	case status != http.StatusOK:
		return polling.ChangePage{}, fmt.Errorf("read %s: status %d", path, status)
	case got.Items == nil || got.HasMore == nil:
		return polling.ChangePage{}, fmt.Errorf("read %s: %w: items or hasMore is missing", path, polling.ErrBroken)
	}
	answer := polling.ChangePage{More: *got.HasMore, Total: got.Total, Changes: make([]polling.Change, len(*got.Items))}
	if now, err := time.Parse(time.RFC3339Nano, got.Now); err == nil {
		answer.Now = now
	}
	for i, raw := range *got.Items {
		answer.Changes[i] = read(raw)
	}
	return answer, nil
}

// revision is what every record of a feed carries.
type revision struct {
	UpdatedAt string `json:"updatedAt"`
	Version   int64  `json:"version"`
	Deleted   bool   `json:"deleted"`
}

var byERP = eventstore.Metadata{Actor: "erp"}

// change places a record in the feed. readable is why the record could not be decoded completely; even
// then its place counts, or the feed could not be read past it.
func (r *revision) change(id string, readable error, command func(at time.Time) eventstore.Command) polling.Change {
	misnumbered := source.CheckVersion(r.Version)
	if misnumbered != "" {
		r.Version = 0 // nothing could ever be newer than it
	}
	change := polling.Change{ID: id, Deleted: r.Deleted, Item: polling.Item{ID: id, Version: r.Version, Meta: byERP}}
	at, err := time.Parse(time.RFC3339Nano, r.UpdatedAt)
	if err == nil {
		change.UpdatedAt = at.UTC()
	}
	switch {
	case readable != nil:
		change.Item.Fault = eventstore.Refuse(CodeRecordInvalid, "%v", readable)
	case err != nil:
		change.Item.Fault = eventstore.Refuse(CodeRecordInvalid, "updatedAt %.40q is not a time with an offset", r.UpdatedAt)
	case misnumbered != "":
		change.Item.Fault = eventstore.Refuse(CodeRecordInvalid, "%s", misnumbered)
	default:
		change.Item.Command = command(change.UpdatedAt)
	}
	return change
}

// Records are the kinds that the ERP may push, in the form of its feeds.
func Records() map[string]polling.Kind {
	return map[string]polling.Kind{
		"product": {Feed: source.ERPProducts, Read: func(record json.RawMessage) polling.Item { return productOf(record, time.Time{}).Item }},
		"price":   {Feed: source.ERPPrices, Read: func(record json.RawMessage) polling.Item { return priceOf(record, time.Time{}).Item }},
	}
}

func productOf(raw json.RawMessage, compared time.Time) polling.Change {
	var r struct {
		revision
		SKU        string            `json:"sku"`
		Name       string            `json:"name"`
		Segment    string            `json:"segment"`
		Attributes map[string]string `json:"attributes"`
	}
	err := json.Unmarshal(raw, &r)
	return r.change(r.SKU, err, func(at time.Time) eventstore.Command {
		return product.Report{
			SKU: r.SKU, Name: r.Name, Segment: r.Segment, Attributes: r.Attributes,
			SourceVersion: r.Version, At: at, Removed: r.Deleted, Compared: compared,
		}
	})
}

func priceOf(raw json.RawMessage, compared time.Time) polling.Change {
	var r struct {
		revision
		PriceList string `json:"priceList"`
		SKU       string `json:"sku"`
		Amount    string `json:"amount"` // a number would have passed through a float somewhere
		Currency  string `json:"currency"`
		MinQty    int64  `json:"minQty"` // from how many units on; a price here is for any number
	}
	err := json.Unmarshal(raw, &r)
	change := r.change(price.Key(r.PriceList, r.SKU), err, func(at time.Time) eventstore.Command {
		return price.Report{
			List: r.PriceList, SKU: r.SKU, Amount: r.Amount, Currency: r.Currency,
			SourceVersion: r.Version, At: at, Removed: r.Deleted, Compared: compared,
		}
	})
	if r.MinQty < 0 || r.MinQty > 1 {
		// It is no word about the price of one unit, which stays as it is.
		change.Item.ID += fmt.Sprintf("|from %d", r.MinQty)
		change.Item.Command, change.Item.Fault = nil, eventstore.Refuse(CodeRecordInvalid, "minQty %d: prices by quantity are not known here", r.MinQty)
		return change
	}
	change.Item.Doubt = func(code eventstore.Code) eventstore.Command {
		return price.Doubt{List: r.PriceList, SKU: r.SKU, SourceVersion: r.Version, Code: code, At: change.UpdatedAt}
	}
	return change
}
