package wms

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

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
}

func (p page) check(path string) error {
	if p.Items == nil || p.HasMore == nil {
		return fmt.Errorf("read %s: %w: items or hasMore is missing", path, polling.ErrBroken)
	}
	return nil
}

func (cfg Config) fetchStock(ctx context.Context, since polling.Since) (polling.ChangePage, error) {
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
	answer := polling.ChangePage{More: *got.HasMore, Changes: make([]polling.Change, len(*got.Items))}
	if now, err := time.Parse(time.RFC3339Nano, got.Now); err == nil {
		answer.Now = now
	}
	for i, raw := range *got.Items {
		answer.Changes[i] = levelOf(raw)
	}
	return answer, nil
}

// levelOf reads a stock level. Units are whole: a fraction, null or a missing figure is no level, and least
// of all zero.
func levelOf(raw json.RawMessage) polling.Change {
	var r struct {
		SKU       string `json:"sku"`
		OnHand    *int64 `json:"onHand"`
		UpdatedAt string `json:"updatedAt"`
		Version   int64  `json:"version"`
	}
	unreadable := json.Unmarshal(raw, &r)
	change := polling.Change{ID: r.SKU, Item: polling.Item{ID: r.SKU, Version: r.Version, Meta: eventstore.Metadata{Actor: "wms"}}}
	at, err := time.Parse(time.RFC3339Nano, r.UpdatedAt)
	if err == nil {
		change.UpdatedAt = at.UTC()
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
	case r.Version < 1:
		return refuse("version %d is not above zero", r.Version)
	case r.OnHand == nil:
		return refuse("onHand is missing")
	}
	change.Item.Command = stock.Report{SKU: r.SKU, OnHand: *r.OnHand, SourceVersion: r.Version, At: change.UpdatedAt}
	return change
}
