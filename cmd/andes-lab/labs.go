package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"andes/test/lab/gateway"
	"andes/test/lab/oms"
	"andes/test/lab/receiver"
	"andes/test/lab/retail"
	"andes/test/lab/sim"
	"andes/test/lab/wms"
)

// labs are the simulators, seen from outside.
type labs struct{ erp, wms, oms, payment, receiver *caller }

func newLabs(a addresses) labs {
	return labs{
		erp: newCaller(a.ERP, ""), wms: newCaller(a.WMS, ""), oms: newCaller(a.OMS, ""),
		payment: newCaller(a.Payment, ""), receiver: newCaller(a.Receiver, ""),
	}
}

// baseline is where the counters stood when the run began.
type baseline struct {
	calls      map[string]int64 // by system
	deliveries int64
}

func (l labs) baseline(ctx context.Context) (baseline, error) {
	b := baseline{calls: map[string]int64{}}
	for name, lab := range map[string]*caller{"erp": l.erp, "wms": l.wms, "oms": l.oms, "payment": l.payment} {
		var s sim.Stats
		if err := lab.get(ctx, "/_lab/stats", &s); err != nil {
			return b, fmt.Errorf("%s simulator: %w", name, err)
		}
		b.calls[name] = s.Calls.Total
	}
	var s struct{ Business receiver.Counters }
	if err := l.receiver.get(ctx, "/_lab/stats", &s); err != nil {
		return b, fmt.Errorf("receiver: %w", err)
	}
	b.deliveries = s.Business.LastSeq
	return b, nil
}

const labPage = 1000

// all reads a numbered list of a simulator to its end, beginning after a number.
func all[T any](ctx context.Context, lab *caller, path string, after int64, seq func(T) int64) ([]T, error) {
	const maxPages = 1000
	var items []T
	for range maxPages {
		var page sim.Page[T]
		if err := lab.get(ctx, fmt.Sprintf("%s?after=%d&limit=%d", path, after, labPage), &page); err != nil {
			return nil, err
		}
		items = append(items, page.Items...)
		if !page.HasMore || len(page.Items) == 0 {
			return items, nil
		}
		after = seq(page.Items[len(page.Items)-1])
	}
	return nil, fmt.Errorf("%s: more than %d pages", path, maxPages)
}

// charged sums up each order at the gateway.
func (l labs) charged(ctx context.Context) (map[string]gateway.OrderSums, error) {
	list, err := all(ctx, l.payment, "/_lab/orders", 0, func(o gateway.OrderSums) int64 { return o.Seq })
	out := make(map[string]gateway.OrderSums, len(list))
	for _, o := range list {
		out[o.OrderID] = o
	}
	return out, err
}

// registered lists each order's registrations.
func (l labs) registered(ctx context.Context) (map[string][]oms.Registration, error) {
	list, err := all(ctx, l.oms, "/_lab/orders", 0, func(r oms.Registration) int64 { return r.Seq })
	out := make(map[string][]oms.Registration, len(list))
	for _, r := range list {
		out[r.Ref] = append(out[r.Ref], r)
	}
	return out, err
}

// picked gives the warehouse's pick orders by order.
func (l labs) picked(ctx context.Context) (map[string]wms.PickOrder, error) {
	list, err := all(ctx, l.wms, "/_lab/pick-orders", 0, func(p wms.PickOrder) int64 { return p.Seq })
	out := make(map[string]wms.PickOrder, len(list))
	for _, p := range list {
		out[p.OrderRef] = p
	}
	return out, err
}

// delivered lists the webhooks after a sequence number.
func (l labs) delivered(ctx context.Context, after int64) ([]receiver.Delivery, error) {
	return all(ctx, l.receiver, "/_lab/deliveries", after, func(d receiver.Delivery) int64 { return d.Seq })
}

// levels reads the warehouse's whole stock through the lab's door.
func (l labs) levels(ctx context.Context) (map[string]int64, error) {
	const maxPages = 1000
	out := map[string]int64{}
	query := url.Values{"limit": {fmt.Sprint(labPage)}}
	for range maxPages {
		var page struct {
			Items []struct {
				wms.Level
				UpdatedAt string `json:"updatedAt"`
			} `json:"items"`
			HasMore bool `json:"hasMore"`
		}
		if err := l.wms.get(ctx, "/_lab/stock?"+query.Encode(), &page); err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			out[item.SKU] = item.OnHand
		}
		if !page.HasMore || len(page.Items) == 0 {
			return out, nil
		}
		last := page.Items[len(page.Items)-1]
		query.Set("updatedSince", last.UpdatedAt)
		query.Set("afterId", last.SKU)
	}
	return nil, fmt.Errorf("stock of the warehouse: more than %d pages", maxPages)
}

// setLevels sets the levels that differ and returns those.
func (l labs) setLevels(ctx context.Context, want []retail.StockLevel) ([]retail.StockLevel, error) {
	have, err := l.levels(ctx)
	if err != nil {
		return nil, err
	}
	var changed []retail.StockLevel
	var items []wms.Level
	for _, level := range want {
		if n, known := have[level.SKU]; !known || n != level.OnHand {
			changed = append(changed, level)
			items = append(items, wms.Level(level))
		}
	}
	if len(items) == 0 {
		return nil, nil
	}
	return changed, l.wms.into(ctx, http.MethodPost, "/_lab/stock/bulk", map[string]any{"items": items}, nil)
}
