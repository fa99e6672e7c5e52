// Package world wires the five simulators together: the order registry hands
// its orders to the warehouse, the gateway tells its webhooks to the product.
//
//	ERP (products, prices)      WMS (stock, shipments) ◀── OMS (registry)
//	payment gateway ──webhook──▶ the product ──webhook──▶ receiver (a partner)
//
// A test starts one on free ports; cmd/andes-lab starts one on fixed ports.
package world

import (
	"context"
	"errors"
	"fmt"
	"time"

	"andes/test/lab/erp"
	"andes/test/lab/feed"
	"andes/test/lab/gateway"
	"andes/test/lab/oms"
	"andes/test/lab/receiver"
	"andes/test/lab/wms"
)

// AnyPort lets the operating system choose.
const AnyPort = "127.0.0.1:0"

// Addrs are the listen addresses; an empty one is AnyPort.
type Addrs struct{ ERP, WMS, OMS, Payment, Receiver string }

// URLs are the base addresses to call.
type URLs struct{ ERP, WMS, OMS, Payment, Receiver string }

// Config of a world. The zero value is an empty, healthy one on free ports.
type Config struct {
	Addrs       Addrs
	Seed        uint64
	Now         func() time.Time
	BaseVersion int64
	Products    []feed.Row[erp.Product]
	Prices      []feed.Row[erp.Price]
	Stock       []feed.Row[wms.Level]

	ERP      erp.Knobs
	WMS      *wms.Knobs     // nil: wms.DefaultKnobs
	Payment  *gateway.Knobs // nil: the gateway's defaults
	OMS      oms.Knobs
	Receiver receiver.Knobs

	Snapshot *Snapshot // state of an earlier world, taken instead of the rows above
}

// World is the running simulators.
type World struct {
	ERP      *erp.Sim
	WMS      *wms.Sim
	OMS      *oms.Sim
	Payment  *gateway.Sim
	Receiver *receiver.Sim
	URLs     URLs
}

// Start builds and serves all simulators. They stop when ctx ends or at Close.
func Start(ctx context.Context, cfg Config) (*World, error) {
	w := &World{}
	if err := errors.Join(w.build(cfg), w.serve(ctx, cfg.Addrs)); err != nil {
		w.Close()
		return nil, fmt.Errorf("start the lab's world: %w", err)
	}
	return w, nil
}

func (w *World) build(cfg Config) (err error) {
	erpCfg := erp.Config{
		Seed: cfg.Seed, Now: cfg.Now, Knobs: cfg.ERP, BaseVersion: cfg.BaseVersion,
		Products: cfg.Products, Prices: cfg.Prices,
	}
	wmsCfg := wms.Config{Seed: cfg.Seed + 1, Now: cfg.Now, Knobs: cfg.WMS, BaseVersion: cfg.BaseVersion, Stock: cfg.Stock}
	payCfg := gateway.Config{Seed: cfg.Seed + 2, Now: cfg.Now, Knobs: cfg.Payment}
	omsCfg := oms.Config{Seed: cfg.Seed + 3, Now: cfg.Now, Knobs: cfg.OMS}
	if snap := cfg.Snapshot; snap != nil {
		erpCfg.Products, erpCfg.Prices = snap.Products, snap.Prices
		wmsCfg.Snapshot, payCfg.Snapshot, omsCfg.Snapshot = &snap.WMS, &snap.Payment, &snap.OMS
	}
	if w.ERP, err = erp.New(erpCfg); err != nil {
		return err
	}
	if w.WMS, err = wms.New(wmsCfg); err != nil {
		return err
	}
	omsCfg.Warehouse = w.WMS
	if w.OMS, err = oms.New(omsCfg); err != nil {
		return err
	}
	if w.Payment, err = gateway.New(payCfg); err != nil {
		return err
	}
	w.Receiver, err = receiver.New(receiver.Config{Seed: cfg.Seed + 4, Now: cfg.Now, Knobs: cfg.Receiver})
	return err
}

func (w *World) serve(ctx context.Context, addrs Addrs) error {
	if w.Receiver == nil {
		return nil // build failed and says why
	}
	var faults []error
	start := func(serve func(context.Context, string) (string, error), addr string) string {
		if addr == "" {
			addr = AnyPort
		}
		url, err := serve(ctx, addr)
		faults = append(faults, err)
		return url
	}
	w.URLs = URLs{
		ERP: start(w.ERP.Start, addrs.ERP), WMS: start(w.WMS.Start, addrs.WMS), OMS: start(w.OMS.Start, addrs.OMS),
		Payment: start(w.Payment.Start, addrs.Payment), Receiver: start(w.Receiver.Start, addrs.Receiver),
	}
	return errors.Join(faults...)
}

// Close stops everything and waits for it.
func (w *World) Close() {
	// The registry first: it calls the warehouse.
	if w.OMS != nil {
		w.OMS.Close()
	}
	if w.ERP != nil {
		w.ERP.Close()
	}
	if w.WMS != nil {
		w.WMS.Close()
	}
	if w.Payment != nil {
		w.Payment.Close()
	}
	if w.Receiver != nil {
		w.Receiver.Close()
	}
}

// Snapshot is what the legacy systems know. The receiver has no memory worth keeping.
type Snapshot struct {
	Products []feed.Row[erp.Product] `json:"products"`
	Prices   []feed.Row[erp.Price]   `json:"prices"`
	WMS      wms.Snapshot            `json:"wms"`
	OMS      oms.Snapshot            `json:"oms"`
	Payment  gateway.Snapshot        `json:"payment"`
}

// Snapshot copies the state; take it after Close for a state at rest.
func (w *World) Snapshot() Snapshot {
	products, prices := w.ERP.Rows()
	return Snapshot{
		Products: products, Prices: prices,
		WMS: w.WMS.Snapshot(), OMS: w.OMS.Snapshot(), Payment: w.Payment.Snapshot(),
	}
}
