// Package erp keeps Andes in step with the ERP: the only code that talks to it. It polls two change feeds,
// products and prices, and reports each record to the write side, which knows by the record's version
// whether it is news.
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
	Log      *slog.Logger
	Metrics  *polling.Metrics
	Away     func() bool      // as polling.Config has it
	Now      func() time.Time // nil: time.Now
	Interval time.Duration    // 0: polling.DefaultInterval
	Overlap  time.Duration    // 0: DefaultOverlap
	PageSize int              // 0: DefaultPageSize
}

// Defaults of the adapter.
const (
	DefaultOverlap  = 5 * time.Second
	DefaultPageSize = 1000
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
		cfg.Products = cfg.changes("/products", productOf)
	}
	if cfg.Prices == nil {
		cfg.Prices = cfg.changes("/prices", priceOf)
	}
	products, err := cfg.poller(source.ERPProducts, cfg.Products)
	faults = append(faults, err)
	prices, err := cfg.poller(source.ERPPrices, cfg.Prices)
	return &Adapter{Products: products, Prices: prices}, errors.Join(append(faults, err)...)
}

// changes is a feed of the ERP's own.
func (cfg Config) changes(path string, read func(json.RawMessage) polling.Change) polling.Changes {
	return polling.Changes{
		Fetch: func(ctx context.Context, since polling.Since) (polling.ChangePage, error) {
			return cfg.fetch(ctx, path, since, read)
		},
		Overlap: cfg.Overlap, Lookback: lookback, LookbackEvery: lookbackEvery, Now: cfg.Now,
	}
}

func (cfg Config) poller(feed string, from polling.Source) (*polling.Poller, error) {
	return polling.New(polling.Config{
		Feed: feed, Source: from,
		Executor: cfg.Executor, Reader: cfg.Reader, Lease: cfg.Lease, Rejects: cfg.Rejects,
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
	answer := polling.ChangePage{More: *got.HasMore, Changes: make([]polling.Change, len(*got.Items))}
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

// change places a record in the feed. readable is why the record could not be decoded completely; even
// then its place counts, or the feed could not be read past it.
func (r revision) change(id string, readable error, command func(at time.Time) eventstore.Command) polling.Change {
	change := polling.Change{ID: id, Item: polling.Item{ID: id, Version: r.Version, Meta: eventstore.Metadata{Actor: "erp"}}}
	at, err := time.Parse(time.RFC3339Nano, r.UpdatedAt)
	if err == nil {
		change.UpdatedAt = at.UTC()
	}
	switch {
	case readable != nil:
		change.Item.Fault = eventstore.Refuse(CodeRecordInvalid, "%v", readable)
	case err != nil:
		change.Item.Fault = eventstore.Refuse(CodeRecordInvalid, "updatedAt %.40q is not a time with an offset", r.UpdatedAt)
	case r.Version < 1:
		change.Item.Fault = eventstore.Refuse(CodeRecordInvalid, "version %d is not above zero", r.Version)
	default:
		change.Item.Command = command(change.UpdatedAt)
	}
	return change
}

func productOf(raw json.RawMessage) polling.Change {
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
			SourceVersion: r.Version, At: at, Removed: r.Deleted,
		}
	})
}

func priceOf(raw json.RawMessage) polling.Change {
	var r struct {
		revision
		PriceList string `json:"priceList"`
		SKU       string `json:"sku"`
		Amount    string `json:"amount"` // a number would have passed through a float somewhere
		Currency  string `json:"currency"`
	}
	err := json.Unmarshal(raw, &r)
	return r.change(price.Key(r.PriceList, r.SKU), err, func(at time.Time) eventstore.Command {
		return price.Report{
			List: r.PriceList, SKU: r.SKU, Amount: r.Amount, Currency: r.Currency,
			SourceVersion: r.Version, At: at, Removed: r.Deleted,
		}
	})
}
