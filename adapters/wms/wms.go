// Package wms keeps Andes in step with the warehouse: the only code that talks to it. It polls the stock
// levels, a change feed, and the shipment events, a numbered sequence. On a schedule it reads all levels, a
// page at a time, and finds what no cursor tells. The WMS may also push levels; Records says how they are read.
package wms

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

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
	URL              string // of the WMS, without a slash at its end
	Caller           Caller
	Stock            polling.Source // nil: the WMS's own feed of levels
	Shipments        polling.Source // nil: the WMS's own feed of shipment events
	Executor         eventstore.Executor
	Reader           eventstore.Reader
	Lease            polling.Lease
	Rejects          func(context.Context, polling.Reject) // nil: only logged
	Ledger           polling.Ledger                        // as polling.Config has it
	States           polling.States                        // nil: the WMS's own levels are not compared
	Urgent           func() []string                       // SKUs whose levels are read more often, as polling.Config has it
	Log              *slog.Logger
	Metrics          *polling.Metrics
	Away             func() bool      // as polling.Config has it
	Now              func() time.Time // nil: time.Now
	StockInterval    time.Duration    // 0: polling.DefaultInterval
	ShipmentInterval time.Duration    // 0: polling.DefaultInterval
	Overlap          time.Duration    // of the stock feed; 0: DefaultOverlap
	CompareEvery     time.Duration    // how often all levels are compared; 0: DefaultCompareEvery
	PageSize         int              // 0: DefaultPageSize
	ShipmentPolls    int              // that a shipment of an order that is not confirmed is waited for; 0: DefaultShipmentPolls
}

// Defaults of the adapter.
const (
	DefaultOverlap       = 5 * time.Second
	DefaultPageSize      = 1000
	DefaultCompareEvery  = 10 * time.Minute
	DefaultShipmentPolls = 12
)

// Levels may become visible up to lookback late, and are then found within lookbackEvery.
const (
	lookback      = 10 * time.Minute
	lookbackEvery = time.Minute
)

// CodeRecordInvalid rejects a record that does not keep to the feed's contract.
const CodeRecordInvalid eventstore.Code = "RECORD_INVALID"

// Adapter polls the WMS.
type Adapter struct {
	Stock     *polling.Poller
	Shipments *polling.Poller
}

// New makes the adapter's two pollers.
func New(cfg Config) (*Adapter, error) {
	cfg = cfg.withDefaults()
	var faults []error
	if cfg.Stock == nil || cfg.Shipments == nil {
		if _, err := url.ParseRequestURI(cfg.URL); err != nil {
			faults = append(faults, fmt.Errorf("wms: %w", err))
		}
		if cfg.Caller == nil {
			faults = append(faults, errors.New("wms: no caller"))
		}
	}
	if cfg.Stock == nil {
		cfg.Stock = cfg.levels()
	}
	if cfg.Shipments == nil {
		cfg.Shipments = polling.Sequence{Fetch: cfg.fetchShipments, MayPass: mayPass, MaxPolls: cfg.ShipmentPolls}
	}
	stock, err := cfg.poller(source.WMSStock, cfg.StockInterval, cfg.Stock, cfg.Urgent)
	faults = append(faults, err)
	shipments, err := cfg.poller(source.WMSShipments, cfg.ShipmentInterval, cfg.Shipments, nil)
	return &Adapter{Stock: stock, Shipments: shipments}, errors.Join(append(faults, err)...)
}

func (cfg Config) withDefaults() Config {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Overlap == 0 {
		cfg.Overlap = DefaultOverlap
	}
	if cfg.PageSize == 0 {
		cfg.PageSize = DefaultPageSize
	}
	if cfg.ShipmentPolls == 0 {
		cfg.ShipmentPolls = DefaultShipmentPolls
	}
	if cfg.CompareEvery == 0 {
		cfg.CompareEvery = DefaultCompareEvery
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return cfg
}

func (cfg Config) poller(feed string, interval time.Duration, from polling.Source, urgent func() []string) (*polling.Poller, error) {
	return polling.New(polling.Config{
		Feed: feed, Source: from, Interval: interval, Urgent: urgent,
		Executor: cfg.Executor, Reader: cfg.Reader, Lease: cfg.Lease, Rejects: cfg.Rejects, Ledger: cfg.Ledger,
		Log: cfg.Log, Metrics: cfg.Metrics, Away: cfg.Away, Now: cfg.Now,
	})
}

// Run polls until ctx ends.
func (a *Adapter) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.Stock.Run(ctx) })
	group.Go(func() error { return a.Shipments.Run(ctx) })
	return group.Wait()
}

// get reads one page of a feed.
func (cfg Config) get(ctx context.Context, path string, query url.Values, answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.URL+path+"?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	status, err := cfg.Caller.Call(request, answer)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if status != http.StatusOK {
		return fmt.Errorf("read %s: status %d", path, status)
	}
	return nil
}
