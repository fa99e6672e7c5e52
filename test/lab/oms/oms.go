// Package oms simulates the order registry. It does what a naive registry
// does: each POST makes one more order, whatever the reference, so that a
// caller who repeats a POST blindly is found out by the counters. Registered
// orders are handed to the warehouse, again and again until it takes them.
package oms

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"andes/test/lab/money"
	"andes/test/lab/sim"
	"andes/test/lab/wms"
)

// Line of an order.
type Line struct {
	SKU       string `json:"sku"`
	Quantity  int64  `json:"quantity"`
	UnitPrice string `json:"unitPrice"`
}

// Order as it is posted.
type Order struct {
	Ref      string `json:"ref"`
	Partner  string `json:"partner"`
	Currency string `json:"currency"`
	Total    string `json:"total"`
	Lines    []Line `json:"lines"`
}

// Registration is one POST that was accepted.
type Registration struct {
	Seq    int64  `json:"seq"`
	OMSID  string `json:"omsId"`
	Status string `json:"status"` // registered, cancelled
	Order
}

const (
	registered = "registered"
	cancelled  = "cancelled"
)

// Warehouse takes the orders to be dispatched; *wms.Sim is one.
type Warehouse interface {
	Pick(ctx context.Context, ref string, lines []wms.Line) error
	Cancel(ref string) error
}

// Knobs are the registry's settings.
type Knobs struct {
	sim.Faults
	Dedupe     bool   `json:"dedupe"`     // answer 409 to a second POST of a reference
	UnknownSKU string `json:"unknownSku"` // is missing from the OMS's own catalogue: an order of it gets 422
}

// Config of one registry.
type Config struct {
	Seed      uint64
	Now       func() time.Time
	Knobs     Knobs
	Warehouse Warehouse // nil: orders stay registered and go nowhere
	Snapshot  *Snapshot
}

const (
	maxOrders     = 500_000
	maxLines      = 5_000
	handoverQueue = 10_000
	handoverRetry = 500 * time.Millisecond
	maxDoubles    = 100 // double references listed in the stats
)

// Sim is a running registry.
type Sim struct {
	*sim.Core[Knobs]
	warehouse Warehouse
	handovers chan *Registration

	mu         sync.Mutex
	orders     []*Registration // in order of arrival
	byRef      map[string][]*Registration
	mismatches []string // references whose total is not the sum of their lines
	handed     int64
}

// New builds a registry. Close it at the end.
func New(cfg Config) (*Sim, error) {
	if err := cfg.Knobs.Validate(); err != nil {
		return nil, fmt.Errorf("oms simulator: %w", err)
	}
	s := &Sim{
		warehouse: cfg.Warehouse, byRef: map[string][]*Registration{},
		handovers: make(chan *Registration, handoverQueue),
	}
	s.Core = sim.NewCore(sim.Config{Name: "oms", Seed: cfg.Seed, Now: cfg.Now}, cfg.Knobs)
	s.OnStats(func() any { return s.counters() })
	s.routes()
	if s.warehouse != nil {
		s.Go(s.handOver)
	}
	if cfg.Snapshot != nil {
		if err := s.restore(*cfg.Snapshot); err != nil {
			s.Close()
			return nil, fmt.Errorf("oms simulator: %w", err)
		}
	}
	return s, nil
}

func (s *Sim) routes() {
	s.Handle("POST /orders", s.post)
	s.Handle("GET /orders/{ref}", s.get)
	s.Handle("POST /orders/{ref}/cancel", s.cancel)
	s.Lab("GET /_lab/orders", sim.Paged(s.ordersAfter, s.Now))
	s.Lab("GET /_lab/orders/{ref}", s.labOrder)
}

func (s *Sim) post(w http.ResponseWriter, r *http.Request) {
	var order Order
	if !sim.Read(w, r, &order) {
		return
	}
	sum, err := check(order)
	if err != nil {
		sim.Refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	if unknown := s.Knobs().UnknownSKU; unknown != "" && slices.ContainsFunc(order.Lines, func(l Line) bool { return l.SKU == unknown }) {
		sim.Refuse(w, http.StatusUnprocessableEntity, "no such article: %s", unknown)
		return
	}
	reg, err := s.register(order, sum)
	switch {
	case errors.Is(err, errExists):
		sim.Refuse(w, http.StatusConflict, "%v: %s", err, order.Ref)
	case err != nil:
		sim.Refuse(w, http.StatusServiceUnavailable, "%v", err)
	default:
		s.queue(reg)
		sim.Answer(w, http.StatusCreated, map[string]string{"omsId": reg.OMSID, "ref": reg.Ref})
	}
}

var errExists = errors.New("order is registered already")

// check returns the sum of the lines.
func check(o Order) (money.Amount, error) {
	if o.Ref == "" || o.Currency == "" || len(o.Lines) == 0 || len(o.Lines) > maxLines {
		return 0, fmt.Errorf("an order needs ref, currency and 1..%d lines", maxLines)
	}
	if _, err := money.Parse(o.Total); err != nil {
		return 0, fmt.Errorf("total: %w", err)
	}
	var sum money.Amount
	for i, line := range o.Lines {
		price, err := money.Parse(line.UnitPrice)
		if err != nil {
			return 0, fmt.Errorf("lines[%d].unitPrice: %w", i, err)
		}
		if line.SKU == "" || line.Quantity <= 0 {
			return 0, fmt.Errorf("lines[%d]: it needs a sku and a positive quantity", i)
		}
		sum += price.Times(line.Quantity)
	}
	return sum, nil
}

func (s *Sim) register(o Order, sum money.Amount) (*Registration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	earlier := s.byRef[o.Ref]
	if len(earlier) > 0 && s.Knobs().Dedupe {
		return nil, errExists
	}
	if len(s.orders) >= maxOrders {
		return nil, sim.ErrFull
	}
	if total, err := money.Parse(o.Total); err != nil || total != sum {
		s.mismatches = append(s.mismatches, o.Ref)
	}
	reg := &Registration{
		Seq: int64(len(s.orders)) + 1, OMSID: omsID(o.Ref, len(earlier)), Status: registered, Order: o,
	}
	s.orders = append(s.orders, reg)
	s.byRef[o.Ref] = append(earlier, reg)
	return reg, nil
}

// omsID depends on the reference only, so that a run can be repeated.
func omsID(ref string, n int) string {
	sum := sha256.Sum256([]byte(ref + "|" + strconv.Itoa(n)))
	return "OMS-" + hex.EncodeToString(sum[:5])
}

func (s *Sim) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	regs := s.byRef[r.PathValue("ref")]
	if len(regs) == 0 {
		sim.Refuse(w, http.StatusNotFound, "no such order: %s", r.PathValue("ref"))
		return
	}
	sim.Answer(w, http.StatusOK, map[string]string{
		"omsId": regs[0].OMSID, "ref": regs[0].Ref, "partner": regs[0].Partner, "status": regs[0].Status,
	})
}

// cancel withdraws an order that the warehouse has not dispatched.
func (s *Sim) cancel(w http.ResponseWriter, r *http.Request) {
	ref := r.PathValue("ref")
	s.mu.Lock()
	defer s.mu.Unlock()
	regs := s.byRef[ref]
	if len(regs) == 0 {
		sim.Refuse(w, http.StatusNotFound, "no such order: %s", ref)
		return
	}
	if s.warehouse != nil {
		// An order that was not handed over yet is unknown there, and never will be.
		if err := s.warehouse.Cancel(ref); err != nil && !errors.Is(err, wms.ErrUnknown) {
			sim.Refuse(w, http.StatusConflict, "%v: %s", err, ref)
			return
		}
	}
	for _, reg := range regs {
		reg.Status = cancelled
	}
	sim.Answer(w, http.StatusOK, map[string]string{"omsId": regs[0].OMSID, "ref": ref, "status": cancelled})
}

// queue never blocks the caller: a full queue is tried again later.
func (s *Sim) queue(reg *Registration) {
	if s.warehouse == nil {
		return
	}
	select {
	case s.handovers <- reg:
	default:
		_ = s.After(handoverRetry, func() { s.queue(reg) })
	}
}

func (s *Sim) handOver(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case reg := <-s.handovers:
			s.handOverOne(ctx, reg)
		}
	}
}

func (s *Sim) handOverOne(ctx context.Context, reg *Registration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reg.Status == cancelled {
		return
	}
	lines := make([]wms.Line, 0, len(reg.Lines))
	for _, line := range reg.Lines {
		lines = append(lines, wms.Line{SKU: line.SKU, Quantity: line.Quantity})
	}
	if err := s.warehouse.Pick(ctx, reg.Ref, lines); err != nil {
		_ = s.After(handoverRetry, func() { s.queue(reg) })
		return
	}
	s.handed++
}
