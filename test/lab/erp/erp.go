// Package erp simulates the system that owns products and prices. It offers
// both as change feeds and as single reads; the lab changes them through
// /_lab/. Amounts are kept as the text they were given: an ERP in the field
// holds zero, negative and over-precise prices, and refusing those is the
// reader's work.
package erp

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"andes/test/lab/feed"
	"andes/test/lab/sim"
)

// Product is an article as the ERP knows it.
type Product struct {
	SKU        string            `json:"sku"`
	Name       string            `json:"name"`
	Segment    string            `json:"segment"`
	Attributes map[string]string `json:"attributes"`
}

// Price is one SKU's price in one price list.
type Price struct {
	PriceList string `json:"priceList"`
	SKU       string `json:"sku"`
	Amount    string `json:"amount"`
	Currency  string `json:"currency"`
}

// PriceID is the id of a price in its feed.
func PriceID(list, sku string) string { return list + "|" + sku }

// Knobs are the ERP's settings.
type Knobs struct {
	sim.Faults
	feed.Push
	ClockSkewMs int `json:"clockSkewMs"` // may be negative
}

// Validate reports every fault of the settings.
func (k Knobs) Validate() error { return errors.Join(k.Faults.Validate(), k.Push.Validate()) }

// Config of one ERP. The zero value is an empty, healthy one.
type Config struct {
	Seed        uint64
	Now         func() time.Time
	Knobs       Knobs
	BaseVersion int64 // versions start above it, so that they rise across restarts
	Products    []feed.Row[Product]
	Prices      []feed.Row[Price]
}

// Sim is a running ERP.
type Sim struct {
	*sim.Core[Knobs]
	products *feed.Table[Product]
	prices   *feed.Table[Price]
	pusher   *feed.Pusher
}

// New builds an ERP and loads its rows. Close it at the end.
func New(cfg Config) (*Sim, error) {
	if err := cfg.Knobs.Validate(); err != nil {
		return nil, fmt.Errorf("erp simulator: %w", err)
	}
	s := &Sim{products: feed.New[Product](cfg.BaseVersion), prices: feed.New[Price](cfg.BaseVersion)}
	if err := errors.Join(s.products.Load(cfg.Products), s.prices.Load(cfg.Prices)); err != nil {
		return nil, fmt.Errorf("erp simulator: %w", err)
	}
	s.Core = sim.NewCore(sim.Config{Name: "erp", Seed: cfg.Seed, Now: cfg.Now}, cfg.Knobs)
	s.pusher = feed.NewPusher(s.Core, func() feed.Push { return s.Knobs().Push })
	s.OnStats(func() any {
		return map[string]any{"products": s.products.Len(), "prices": s.prices.Len(), "pushed": s.pusher.Counts()}
	})
	s.routes()
	return s, nil
}

// ProductRow stamps a product for loading.
func ProductRow(p Product, at time.Time) feed.Row[Product] {
	return feed.Row[Product]{ID: p.SKU, Value: p, UpdatedAt: at}
}

// PriceRow stamps a price for loading.
func PriceRow(p Price, at time.Time) feed.Row[Price] {
	return feed.Row[Price]{ID: PriceID(p.PriceList, p.SKU), Value: p, UpdatedAt: at}
}

// clock is the ERP's own, which may be wrong.
func (s *Sim) clock() time.Time { return s.Now().Add(sim.Millis(s.Knobs().ClockSkewMs)) }

// SetPrice changes or adds a price.
func (s *Sim) SetPrice(p Price) (feed.Row[Price], error) {
	row, err := s.prices.Change(PriceID(p.PriceList, p.SKU), s.clock, func(Price, bool) (Price, error) { return p, nil })
	s.tell("price", err == nil, showPrice(row))
	return row, err
}

// DeletePrice leaves a tombstone; false if there was no such price.
func (s *Sim) DeletePrice(list, sku string) (bool, error) {
	row, existed, err := s.prices.Delete(PriceID(list, sku), s.clock)
	s.tell("price", existed, showPrice(row))
	return existed, err
}

// SetProduct changes or adds a product.
func (s *Sim) SetProduct(p Product) (feed.Row[Product], error) {
	row, err := s.products.Change(p.SKU, s.clock, func(Product, bool) (Product, error) { return p, nil })
	s.tell("product", err == nil, showProduct(row))
	return row, err
}

// DeleteProduct leaves a tombstone; false if there was no such product.
func (s *Sim) DeleteProduct(sku string) (bool, error) {
	row, existed, err := s.products.Delete(sku, s.clock)
	s.tell("product", existed, showProduct(row))
	return existed, err
}

// tell pushes a record that changed.
func (s *Sim) tell(kind string, changed bool, record any) {
	if changed {
		s.pusher.Tell(kind, record)
	}
}

// Tables are for tests that go past the application.
func (s *Sim) Tables() (*feed.Table[Product], *feed.Table[Price]) { return s.products, s.prices }

// Rows returns everything, for a snapshot.
func (s *Sim) Rows() ([]feed.Row[Product], []feed.Row[Price]) {
	return s.products.All(), s.prices.All()
}

type revision struct {
	UpdatedAt string `json:"updatedAt"`
	Version   int64  `json:"version"`
	Deleted   bool   `json:"deleted,omitempty"`
}

func revisionOf[T any](row feed.Row[T]) revision {
	return revision{UpdatedAt: sim.Stamp(row.UpdatedAt), Version: row.Version, Deleted: row.Deleted}
}

func showProduct(row feed.Row[Product]) any {
	return struct {
		Product
		revision
	}{row.Value, revisionOf(row)}
}

func showPrice(row feed.Row[Price]) any {
	return struct {
		Price
		revision
	}{row.Value, revisionOf(row)}
}

func (s *Sim) routes() {
	s.Handle("GET /products", feed.Serve(s.products, s.clock, showProduct))
	s.Handle("GET /prices", feed.Serve(s.prices, s.clock, showPrice))
	s.Handle("GET /products/{sku}", func(w http.ResponseWriter, r *http.Request) {
		answerRow(w, s.products, r.PathValue("sku"), showProduct)
	})
	s.Handle("GET /prices/{list}/{sku}", func(w http.ResponseWriter, r *http.Request) {
		answerRow(w, s.prices, PriceID(r.PathValue("list"), r.PathValue("sku")), showPrice)
	})
	s.Lab("PUT /_lab/products/{sku}", s.putProduct)
	s.Lab("DELETE /_lab/products/{sku}", func(w http.ResponseWriter, r *http.Request) {
		answerDeleted(w)(s.DeleteProduct(r.PathValue("sku")))
	})
	s.Lab("PUT /_lab/prices/{list}/{sku}", s.putPrice)
	s.Lab("DELETE /_lab/prices/{list}/{sku}", func(w http.ResponseWriter, r *http.Request) {
		answerDeleted(w)(s.DeletePrice(r.PathValue("list"), r.PathValue("sku")))
	})
}

func answerRow[T any](w http.ResponseWriter, t *feed.Table[T], id string, show func(feed.Row[T]) any) {
	row, ok := t.Get(id)
	if !ok {
		sim.Refuse(w, http.StatusNotFound, "no such item: %s", id)
		return
	}
	sim.Answer(w, http.StatusOK, show(row))
}

func answerDeleted(w http.ResponseWriter) func(bool, error) {
	return func(existed bool, err error) {
		switch {
		case err != nil:
			sim.Refuse(w, http.StatusInsufficientStorage, "%v", err)
		case !existed:
			sim.Refuse(w, http.StatusNotFound, "no such item")
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}
}

func (s *Sim) putProduct(w http.ResponseWriter, r *http.Request) {
	var p Product
	if !sim.Read(w, r, &p) {
		return
	}
	p.SKU = r.PathValue("sku")
	row, err := s.SetProduct(p)
	if err != nil {
		sim.Refuse(w, http.StatusInsufficientStorage, "%v", err)
		return
	}
	sim.Answer(w, http.StatusOK, showProduct(row))
}

func (s *Sim) putPrice(w http.ResponseWriter, r *http.Request) {
	var p Price
	if !sim.Read(w, r, &p) {
		return
	}
	p.PriceList, p.SKU = r.PathValue("list"), r.PathValue("sku")
	row, err := s.SetPrice(p)
	if err != nil {
		sim.Refuse(w, http.StatusInsufficientStorage, "%v", err)
		return
	}
	sim.Answer(w, http.StatusOK, showPrice(row))
}
