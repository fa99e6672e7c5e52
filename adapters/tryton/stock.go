package tryton

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"andes/commands/stock"
	"andes/eventstore"
	"andes/polling"
)

// Warehouse is the WMS's part: stock levels and shipments.
type Warehouse struct {
	Client       *Client
	Reader       eventstore.Reader
	States       polling.States
	Now          func() time.Time // nil: time.Now
	Codes        []string         // of the warehouses that count; none: all
	PageSize     int              // rows; 0: DefaultPageSize
	CompareEvery time.Duration    // 0: DefaultCompareEvery
	Overlap      time.Duration    // 0: DefaultOverlap
}

// moves that are done made a level what it is. They are made in a state before that and written then, or made
// as they are.
var moves = []stream{
	{model: "stock.move", stamp: "write_date", key: "product.code", where: term("state", "=", done)},
	{model: "stock.move", stamp: "create_date", key: "product.code", where: domain{term("state", "=", done), term("write_date", "=", nil)}},
}

// Check reports all that is missing.
func (w *Warehouse) Check() error {
	if w.Client == nil || w.Reader == nil || w.States == nil {
		return errors.New("tryton: client, reader and states are needed")
	}
	return nil
}

func (w *Warehouse) now() time.Time {
	if w.Now == nil {
		return time.Now()
	}
	return w.Now()
}

func (w *Warehouse) pageSize() int { return orDefault(w.PageSize, DefaultPageSize) }

func (w *Warehouse) changes(fetch func(context.Context, polling.Since) (polling.ChangePage, error)) polling.Changes {
	return polling.Changes{
		Fetch: fetch, Overlap: orDefault(w.Overlap, DefaultOverlap), Lookback: lookback, LookbackEvery: lookbackEvery, Now: w.now,
	}
}

// Stock is the feed of levels: what is in the warehouses, picked goods included, until it leaves them.
func (w *Warehouse) Stock() polling.Source {
	return polling.Picking{From: w.pick, Source: polling.Comparing{
		Present: true,
		Changes: w.changes(w.moved),
		Round:   &polling.Round{Every: orDefault(w.CompareEvery, DefaultCompareEvery), Now: w.now, Page: byID(w.all), Gone: asked(w.gone)},
	}}
}

// pick reads what is on hand of a few SKUs.
func (w *Warehouse) pick(ctx context.Context, skus []string) ([]polling.Item, error) {
	company, err := w.Client.companyOf(ctx)
	if err != nil {
		return nil, err
	}
	levels, err := w.levels(ctx, company, skus)
	if err != nil {
		return nil, err
	}
	items := make([]polling.Item, 0, len(levels))
	for _, level := range levels {
		items = append(items, level.item(w.now()))
	}
	return items, nil
}

// moved is a page of the change feed.
func (w *Warehouse) moved(ctx context.Context, since polling.Since) (polling.ChangePage, error) {
	company, err := w.Client.companyOf(ctx)
	if err != nil {
		return polling.ChangePage{}, err
	}
	rows, more, err := recent(ctx, w.Client, moves, since, w.pageSize(), company.all())
	if err != nil {
		return polling.ChangePage{}, err
	}
	rows = latest(rows)
	levels, err := w.levels(ctx, company, keys(rows))
	if err != nil {
		return polling.ChangePage{}, err
	}
	page := polling.ChangePage{More: more}
	for _, row := range rows {
		item := nothing
		if level, counted := levels[row.key]; counted {
			item = level.item(row.at)
		}
		page.Changes = append(page.Changes, row.place(item))
	}
	return page, nil
}

// level is what is on hand of a SKU, beside what Andes has of it.
type level struct {
	sku      string
	quantity *float64
	known    stock.State
}

// item reports the level. Shipments that Andes still subtracts are in it: it is read after them.
func (l level) item(at time.Time) polling.Item {
	item := polling.Item{ID: l.sku, Meta: byWMS}
	onHand, err := units(l.quantity)
	if err != nil {
		item.Fault = eventstore.Refuse(CodeRecordInvalid, "%v", err)
		return item
	}
	same := l.known.SourceVersion > 0 && l.known.OnHand == onHand && len(l.known.Shipped) == 0
	item.Version = version(l.newest(), same, at)
	item.Command = stock.Report{SKU: l.sku, OnHand: onHand, SourceVersion: item.Version, At: at}
	return item
}

// after reports the level under a version that no reading from before now can have: that one would be
// compared with what is known now, and be one above it, or stamped earlier.
func (l level) after(now time.Time) polling.Item {
	item := l.item(now)
	if command, is := item.Command.(stock.Report); is {
		command.SourceVersion = max(now.UnixMicro(), l.newest()+2)
		item.Version, item.Command = command.SourceVersion, command
	}
	return item
}

// newest is the highest version that Andes knows of.
func (l level) newest() int64 {
	newest := l.known.SourceVersion
	for _, shipment := range l.known.Shipped {
		newest = max(newest, shipment.Version)
	}
	return newest
}

var byWMS = eventstore.Metadata{Actor: "wms"}

// levels reads what is on hand of SKUs, after it read what is known of them. Products that share a code are
// one SKU.
func (w *Warehouse) levels(ctx context.Context, company company, skus []string) (map[string]level, error) {
	if len(skus) == 0 {
		return nil, nil
	}
	known, err := kept(ctx, w.Reader, stock.Aggregate, skus)
	if err != nil {
		return nil, err
	}
	houses, err := w.houses(ctx, company)
	if err != nil {
		return nil, err
	}
	var found []struct {
		Code     string   `json:"code"`
		Quantity *float64 `json:"quantity"`
	}
	limit := maxSameCode * len(skus)
	with := company.all().with("locations", houses).with("with_childs", true).with("stock_date_end", lastDay) // today, there
	err = w.Client.call(ctx, reading, "model.product.product.search_read", &found,
		domain{term("code", "in", skus), term("type", "=", "goods")}, 0, limit, [][]string{{"id", "ASC"}}, []string{"code", "quantity"}, with)
	switch {
	case err != nil:
		return nil, err
	case len(found) == limit:
		return nil, fmt.Errorf("tryton: %d products have the same %d codes", limit, len(skus))
	}
	levels := make(map[string]level, len(skus))
	for _, product := range found {
		sum := product.Quantity
		if other, again := levels[product.Code]; again && sum != nil && other.quantity != nil {
			both := *sum + *other.quantity
			sum = &both
		}
		levels[product.Code] = level{sku: product.Code, quantity: sum, known: known[product.Code]}
	}
	return levels, nil
}

// houses are the warehouses that count.
func (w *Warehouse) houses(ctx context.Context, company company) ([]int64, error) {
	where := domain{term("type", "=", "warehouse")}
	if len(w.Codes) > 0 {
		where = append(where, term("code", "in", w.Codes))
	}
	var ids []int64
	err := w.Client.call(ctx, reading, "model.stock.location.search", &ids, where, 0, maxRelated, [][]string{{"id", "ASC"}}, company.all())
	switch {
	case err != nil:
		return nil, err
	case len(ids) == maxRelated || len(ids) < max(1, len(w.Codes)):
		return nil, fmt.Errorf("%w: %d warehouses are there of %v", ErrUnknown, len(ids), w.Codes)
	}
	return ids, nil
}

// all is a page of all goods in the order of their ids.
func (w *Warehouse) all(ctx context.Context, after int64) ([]polling.Item, []string, int64, error) {
	company, err := w.Client.companyOf(ctx)
	if err != nil {
		return nil, nil, 0, err
	}
	where := domain{term("id", ">", after), term("type", "=", "goods")}
	rows, last, err := page(ctx, w.Client, where, w.pageSize(), company.all())
	if err != nil || last == 0 {
		return nil, nil, 0, err
	}
	levels, err := w.levels(ctx, company, keys(rows))
	if err != nil {
		return nil, nil, 0, err
	}
	var items []polling.Item
	var skus []string
	for sku, level := range levels {
		items, skus = append(items, level.item(w.now())), append(skus, sku)
	}
	return items, skus, last, nil
}

// gone are the SKUs that Andes has units of and Tryton does not know any more.
func (w *Warehouse) gone(ctx context.Context, seen map[string]struct{}) ([]polling.Item, error) {
	missing, err := polling.Missing(ctx, w.States, stock.Aggregate, seen, func(state stock.State) bool { return state.OnHand == 0 })
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	company, err := w.Client.companyOf(ctx)
	if err != nil {
		return nil, err
	}
	var items []polling.Item
	for skus := range slices.Chunk(slices.Sorted(maps.Keys(missing)), w.pageSize()) {
		levels, err := w.levels(ctx, company, skus)
		if err != nil {
			return nil, err
		}
		known, err := kept(ctx, w.Reader, stock.Aggregate, skus)
		if err != nil {
			return nil, err
		}
		for _, sku := range skus {
			there, counted := levels[sku]
			if !counted {
				none := 0.0
				there = level{sku: sku, quantity: &none, known: known[sku]}
			}
			items = append(items, there.item(w.now()))
		}
	}
	return items, nil
}
