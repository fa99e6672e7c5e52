package wms

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"andes/commands/source"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/polling"
)

// page is a feed's answer. Records are decoded one by one, so that a bad one is rejected alone; a page
// without the members that say how it goes on is broken.
type page struct {
	Items   *[]json.RawMessage `json:"items"`
	HasMore *bool              `json:"hasMore"`
	Now     string             `json:"now"`
	Total   int                `json:"total"`
}

func (p page) check(path string) error {
	if p.Items == nil || p.HasMore == nil {
		return fmt.Errorf("read %s: %w: items or hasMore is missing", path, polling.ErrBroken)
	}
	return nil
}

// levels is the WMS's own feed of levels.
func (cfg Config) levels() polling.Source {
	fetch := func(ctx context.Context, since polling.Since) (polling.ChangePage, error) {
		return cfg.fetchStock(ctx, since, time.Time{})
	}
	picking := polling.Picking{
		Source: polling.Changes{Fetch: fetch, Overlap: cfg.Overlap, Lookback: lookback, LookbackEvery: lookbackEvery, Now: cfg.Now},
		From:   cfg.pickStock,
	}
	if cfg.States == nil {
		return picking
	}
	absence := polling.Absence[stock.State]{
		States: cfg.States, Aggregate: stock.Aggregate,
		Absent:  func(s stock.State) bool { return s.Absent || s.SourceVersion == 0 },
		Version: func(s stock.State) int64 { return s.SourceVersion },
		Vanish: func(sku string, version int64) polling.Item {
			return polling.Item{ID: sku, Version: version, Command: stock.Vanish{SKU: sku, Version: version, At: cfg.Now()}, Meta: byWMS}
		},
	}
	round := &polling.Round{
		Every: cfg.CompareEvery, Now: cfg.Now, Gone: absence.Gone,
		Counted: func(came, has int) { cfg.Metrics.Counted(source.WMSStock, came, has) },
	}
	round.Page = polling.Everything(func(ctx context.Context, since polling.Since) (polling.ChangePage, error) {
		return cfg.fetchStock(ctx, since, round.Begun())
	})
	picking.Source = polling.Comparing{Changes: picking.Source, Round: round}
	return picking
}

func (cfg Config) fetchStock(ctx context.Context, since polling.Since, compared time.Time) (polling.ChangePage, error) {
	query := url.Values{"limit": {strconv.Itoa(cfg.PageSize)}}
	if !since.UpdatedAt.IsZero() {
		query.Set("updatedSince", since.UpdatedAt.UTC().Format(time.RFC3339Nano))
	}
	if since.ID != "" {
		query.Set("afterId", since.ID)
	}
	var got page
	if err := cfg.get(ctx, "/stock", query, &got); err != nil {
		return polling.ChangePage{}, err
	}
	if err := got.check("/stock"); err != nil {
		return polling.ChangePage{}, err
	}
	answer := polling.ChangePage{More: *got.HasMore, Total: got.Total, Changes: make([]polling.Change, len(*got.Items))}
	if now, err := time.Parse(time.RFC3339Nano, got.Now); err == nil {
		answer.Now = now
	}
	for i, raw := range *got.Items {
		answer.Changes[i] = levelOf(raw, compared)
	}
	return answer, nil
}

// pickStock reads the levels of a few SKUs in one call: GET /stock?sku=A&sku=B. A WMS that does not know the
// parameter answers others.
func (cfg Config) pickStock(ctx context.Context, skus []string) ([]polling.Item, error) {
	var got page
	if err := cfg.get(ctx, "/stock", url.Values{"sku": skus, "limit": {strconv.Itoa(len(skus))}}, &got); err != nil {
		return nil, err
	}
	if err := got.check("/stock"); err != nil {
		return nil, err
	}
	items := make([]polling.Item, len(*got.Items))
	for i, raw := range *got.Items {
		items[i] = levelOf(raw, time.Time{}).Item
		if !slices.Contains(skus, items[i].ID) {
			return nil, fmt.Errorf("read /stock: %w: %.80q", polling.ErrNotPicked, items[i].ID)
		}
	}
	return items, nil
}

// Records are the kinds that the WMS may push, in the form of its feeds.
func Records() map[string]polling.Kind {
	return map[string]polling.Kind{
		"stock": {Feed: source.WMSStock, Read: func(record json.RawMessage) polling.Item { return levelOf(record, time.Time{}).Item }},
	}
}

var byWMS = eventstore.Metadata{Actor: "wms"}

// levelOf reads a stock level. Units are whole: a fraction, null or a missing figure is no level, and least
// of all zero.
func levelOf(raw json.RawMessage, compared time.Time) polling.Change {
	var r struct {
		SKU       string `json:"sku"`
		OnHand    *int64 `json:"onHand"`
		UpdatedAt string `json:"updatedAt"`
		Version   int64  `json:"version"`
	}
	unreadable := json.Unmarshal(raw, &r)
	misnumbered := source.CheckVersion(r.Version)
	if misnumbered != "" {
		r.Version = 0 // nothing could ever be newer than it
	}
	change := polling.Change{ID: r.SKU, Item: polling.Item{ID: r.SKU, Version: r.Version, Meta: byWMS}}
	at, err := time.Parse(time.RFC3339Nano, r.UpdatedAt)
	if err == nil {
		change.UpdatedAt = at.UTC()
	}
	change.Item.Doubt = func(code eventstore.Code) eventstore.Command {
		return stock.Doubt{SKU: r.SKU, SourceVersion: r.Version, Code: code, At: change.UpdatedAt}
	}
	refuse := func(format string, args ...any) polling.Change {
		change.Item.Fault = eventstore.Refuse(CodeRecordInvalid, format, args...)
		return change
	}
	switch {
	case unreadable != nil:
		return refuse("%v", unreadable)
	case err != nil:
		return refuse("updatedAt %.40q is not a time with an offset", r.UpdatedAt)
	case misnumbered != "":
		return refuse("%s", misnumbered)
	case r.OnHand == nil:
		return refuse("onHand is missing")
	}
	change.Item.Command = stock.Report{SKU: r.SKU, OnHand: *r.OnHand, SourceVersion: r.Version, At: change.UpdatedAt, Compared: compared}
	return change
}
