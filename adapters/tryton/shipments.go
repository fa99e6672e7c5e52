package tryton

import (
	"context"
	"fmt"
	"slices"
	"time"

	"andes/commands/order"
	"andes/eventstore"
	"andes/polling"
)

// shipped are sales whose shipments have left. A sale is written when that is so, and when it is done.
var shipped = []stream{
	{model: "sale.sale", stamp: "write_date", key: "reference", where: domain{term("reference", "!=", nil), term("shipment_state", "=", "sent")}},
}

// Shipments is the feed of orders that left the warehouse. Tryton does not know whether goods arrived; that a
// sale is done (all of it shipped, and invoiced if it is to be) is the last it says, and counts as delivery.
//
// A sale that was shipped comes with the levels of its SKUs, read after it was seen, under the version from
// which on its units are not subtracted any more: whichever of the two is applied first, they are off once.
func (w *Warehouse) Shipments() polling.Source { return w.changes(w.sent) }

type delivery struct {
	reference string
	state     string
	skus      []string
	left      bool // goods did
	written   time.Time
}

// sent is a page of the change feed.
func (w *Warehouse) sent(ctx context.Context, since polling.Since) (polling.ChangePage, error) {
	company, err := w.Client.companyOf(ctx)
	if err != nil {
		return polling.ChangePage{}, err
	}
	rows, more, err := merge(ctx, w.Client, shipped, since, w.pageSize(), company.settings())
	if err != nil {
		return polling.ChangePage{}, err
	}
	rows = latest(rows)
	orders, err := w.orders(ctx, rows)
	if err != nil {
		return polling.ChangePage{}, err
	}
	var ids []int64
	for _, row := range rows {
		if _, ours := orders[row.key]; ours {
			ids = append(ids, row.id)
		}
	}
	deliveries, err := w.deliveries(ctx, company, ids)
	if err != nil {
		return polling.ChangePage{}, err
	}
	items, err := w.shipItems(ctx, company, orders, deliveries)
	if err != nil {
		return polling.ChangePage{}, err
	}
	page := polling.ChangePage{More: more}
	for _, row := range rows {
		page.Changes = append(page.Changes, row.place(nothing))
		for _, item := range items[row.key] {
			page.Changes = append(page.Changes, row.place(item))
		}
	}
	return page, nil
}

// orders are those of the sales' references that Andes knows and still waits for. Others sell by this Tryton, too.
func (w *Warehouse) orders(ctx context.Context, rows []row) (map[string]order.State, error) {
	known, err := kept(ctx, w.Reader, order.Aggregate, keys(rows))
	if err != nil {
		return nil, err
	}
	for id, state := range known {
		if state.Status == order.Delivered {
			delete(known, id)
		}
	}
	return known, nil
}

// deliveries reads sales.
func (w *Warehouse) deliveries(ctx context.Context, company company, ids []int64) ([]delivery, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var found []struct {
		Reference string `json:"reference"`
		State     string `json:"state"`
		Written   stamp  `json:"write_date"`
		Shipments []struct {
			State string `json:"state"`
		} `json:"shipments."`
		Lines []struct {
			Product *struct {
				Code *string `json:"code"`
			} `json:"product."`
		} `json:"lines."`
	}
	err := w.Client.call(ctx, reading, "model.sale.sale.read", &found, ids,
		[]string{"reference", "state", "write_date", "shipments.state", "lines.product.code"}, company.settings())
	if err != nil {
		return nil, err
	}
	deliveries := make([]delivery, len(found))
	for i, sale := range found {
		d := delivery{reference: sale.Reference, state: sale.State, written: sale.Written.Time}
		for _, shipment := range sale.Shipments {
			// One whose shipments were cancelled, and not to be made again, is "sent" too.
			d.left = d.left || shipment.State == done
		}
		for _, line := range sale.Lines {
			if line.Product != nil && text(line.Product.Code) != "" {
				d.skus = append(d.skus, *line.Product.Code)
			}
		}
		deliveries[i] = d
	}
	return deliveries, nil
}

// shipItems says what left, by order.
func (w *Warehouse) shipItems(ctx context.Context, company company, orders map[string]order.State, deliveries []delivery) (map[string][]polling.Item, error) {
	var skus []string
	for _, d := range deliveries {
		if d.left && orders[d.reference].Status != order.Dispatched {
			skus = append(skus, d.skus...)
		}
	}
	slices.Sort(skus)
	levels, err := w.levels(ctx, company, slices.Compact(skus))
	if err != nil {
		return nil, err
	}
	items := map[string][]polling.Item{}
	for _, d := range deliveries {
		if !d.left {
			continue
		}
		now := w.now()
		versions := map[string]int64{}
		for _, sku := range d.skus {
			level, counted := levels[sku]
			if !counted {
				continue
			}
			reported := level.after(now)
			versions[sku] = reported.Version
			items[d.reference] = append(items[d.reference], reported)
		}
		items[d.reference] = append(items[d.reference], polling.Item{
			ID: fmt.Sprintf("%s %s", d.reference, d.state), Version: d.written.UnixMicro(),
			Meta:    eventstore.Metadata{Actor: "wms", CorrelationID: orders[d.reference].CorrelationID},
			Command: order.Ship{OrderID: d.reference, Delivered: d.state == done, StockVersions: versions},
		})
	}
	return items, nil
}
