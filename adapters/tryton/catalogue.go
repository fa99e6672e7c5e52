package tryton

import (
	"context"
	"errors"
	"strconv"
	"time"

	"andes/commands/price"
	"andes/eventstore"
	"andes/polling"
)

// Catalogue is the ERP's part: products and prices.
type Catalogue struct {
	Client       *Client
	Reader       eventstore.Reader
	States       polling.States
	Now          func() time.Time // nil: time.Now
	PriceList    string           // the name under which the products' own list prices are known
	PageSize     int              // products; 0: DefaultPageSize
	CompareEvery time.Duration    // 0: DefaultCompareEvery
	Overlap      time.Duration    // 0: DefaultOverlap
}

// CodeRecordInvalid rejects a record that can't be made into what Andes knows.
const CodeRecordInvalid eventstore.Code = "RECORD_INVALID"

// products changed when they, or the templates that they are variants of, did. A template is older than its
// products.
var products = []stream{
	{model: "product.product", stamp: "create_date", key: "code"},
	{model: "product.product", stamp: "write_date", key: "code"},
	{model: "product.product", stamp: "template.write_date", key: "code"},
}

// Check reports all that is missing.
func (c *Catalogue) Check() error {
	var faults []error
	if c.Client == nil || c.Reader == nil || c.States == nil {
		faults = append(faults, errors.New("tryton: client, reader and states are needed"))
	}
	if !price.ValidList(c.PriceList) {
		faults = append(faults, errors.New("tryton: the name of the products' own price list is none"))
	}
	return errors.Join(faults...)
}

func (c *Catalogue) now() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}

func (c *Catalogue) pageSize() int { return orDefault(c.PageSize, DefaultPageSize) }

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// source makes the feed of what about tells of products.
func (c *Catalogue) source(about aboutProducts, gone func(context.Context, map[string]struct{}) ([]polling.Item, error), sign func(context.Context) (string, error)) polling.Source {
	return polling.Comparing{
		Present: true,
		Changes: polling.Changes{
			Fetch: func(ctx context.Context, since polling.Since) (polling.ChangePage, error) {
				return c.changed(ctx, since, about)
			},
			Overlap: orDefault(c.Overlap, DefaultOverlap), Lookback: lookback, LookbackEvery: lookbackEvery, Now: c.now,
		},
		Round: &polling.Round{
			Every: orDefault(c.CompareEvery, DefaultCompareEvery), Now: c.now, Gone: asked(gone), Sign: sign,
			Page: byID(func(ctx context.Context, after int64) ([]polling.Item, []string, int64, error) {
				return c.all(ctx, after, about)
			}),
		},
	}
}

// byID reads a round's pages in the order of ids.
func byID(page func(ctx context.Context, after int64) ([]polling.Item, []string, int64, error)) func(context.Context, string) (polling.RoundPage, error) {
	return func(ctx context.Context, after string) (polling.RoundPage, error) {
		var id int64
		if after != "" {
			var err error
			if id, err = strconv.ParseInt(after, 10, 64); err != nil {
				return polling.RoundPage{}, err
			}
		}
		items, keys, last, err := page(ctx, id)
		found := polling.RoundPage{Items: items, Keys: keys}
		if last != 0 {
			found.Next = strconv.FormatInt(last, 10)
		}
		return found, err
	}
}

// asked is for what is asked for by name before it is taken for gone, so that one round is enough.
func asked(gone func(context.Context, map[string]struct{}) ([]polling.Item, error)) func(context.Context, map[string]struct{}) ([]polling.Item, bool, error) {
	return func(ctx context.Context, seen map[string]struct{}) ([]polling.Item, bool, error) {
		items, err := gone(ctx, seen)
		return items, false, err
	}
}

// told is what there is to say of a product's code: items, and the keys of all that it has.
type told struct {
	items map[string][]polling.Item // by code
	keys  []string
}

// aboutProducts reads the products with these codes and says what is to be said of them.
type aboutProducts func(ctx context.Context, codes []string) (told, error)

// changed is a page of the change feed.
func (c *Catalogue) changed(ctx context.Context, since polling.Since, about aboutProducts) (polling.ChangePage, error) {
	company, err := c.Client.companyOf(ctx)
	if err != nil {
		return polling.ChangePage{}, err
	}
	rows, more, err := recent(ctx, c.Client, products, since, c.pageSize(), company.all())
	if err != nil {
		return polling.ChangePage{}, err
	}
	rows = latest(rows)
	told, err := about(ctx, keys(rows))
	if err != nil {
		return polling.ChangePage{}, err
	}
	page := polling.ChangePage{More: more}
	for _, row := range rows {
		for _, item := range told.items[row.key] {
			page.Changes = append(page.Changes, row.place(item))
		}
	}
	if end := len(rows) - 1; end >= 0 && len(told.items[rows[end].key]) == 0 {
		// Nothing is to be said of the last row, but the feed goes on behind it.
		page.Changes = append(page.Changes, rows[end].place(nothing))
	}
	return page, nil
}

// all is a page of all products in the order of their ids.
func (c *Catalogue) all(ctx context.Context, after int64, about aboutProducts) ([]polling.Item, []string, int64, error) {
	company, err := c.Client.companyOf(ctx)
	if err != nil {
		return nil, nil, 0, err
	}
	rows, last, err := page(ctx, c.Client, domain{term("id", ">", after)}, c.pageSize(), company.all())
	if err != nil || last == 0 {
		return nil, nil, 0, err
	}
	told, err := about(ctx, keys(rows))
	if err != nil {
		return nil, nil, 0, err
	}
	var items []polling.Item
	for _, said := range told.items {
		items = append(items, said...)
	}
	return items, told.keys, last, nil
}
