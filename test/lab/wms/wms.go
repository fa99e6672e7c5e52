// Package wms simulates the warehouse: it owns the stock levels, picks the
// orders that it is handed, and reports dispatch and delivery. A pick order's
// life, with the knobs that drive it:
//
//	WAITING ──dispatchDelayMs──▶ DISPATCHED ──deliveryDelayMs──▶ DELIVERED
//	   │  ▲ held by holdDispatch, or by too little stock
//	   ▼  │ (looked at again every recheck)
//	CANCELLED (only before dispatch)
//
// Dispatch lowers the stock of all lines in one step, or of none.
package wms

import (
	"fmt"
	"sync"
	"time"

	"andes/test/lab/feed"
	"andes/test/lab/sim"
)

// Level is the stock of one SKU.
type Level struct {
	SKU    string `json:"sku"`
	OnHand int64  `json:"onHand"`
}

// Line of a pick order.
type Line struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
}

// Knobs are the warehouse's settings.
type Knobs struct {
	sim.Faults
	feed.Push
	ClockSkewMs     int  `json:"clockSkewMs"` // may be negative
	DispatchDelayMs int  `json:"dispatchDelayMs"`
	DeliveryDelayMs int  `json:"deliveryDelayMs"` // counted from the dispatch
	HoldDispatch    bool `json:"holdDispatch"`
	AllowNegative   bool `json:"allowNegative"` // dispatch what is not there
}

// DefaultKnobs dispatches after 1.5 s and delivers 3 s later.
func DefaultKnobs() Knobs { return Knobs{DispatchDelayMs: 1500, DeliveryDelayMs: 3000} }

// Validate reports every fault of the settings.
func (k Knobs) Validate() error {
	return joinChecks(k.Faults.Validate(), k.Push.Validate(),
		sim.CheckMs("dispatchDelayMs", k.DispatchDelayMs), sim.CheckMs("deliveryDelayMs", k.DeliveryDelayMs))
}

// Config of one warehouse.
type Config struct {
	Seed        uint64
	Now         func() time.Time
	Knobs       *Knobs // nil: DefaultKnobs
	BaseVersion int64  // versions and sequence numbers start above it
	Stock       []feed.Row[Level]
	Snapshot    *Snapshot // picked up instead of Stock, if given
}

// Sim is a running warehouse.
type Sim struct {
	*sim.Core[Knobs]
	stock  *feed.Table[Level]
	pusher *feed.Pusher

	mu        sync.Mutex
	picks     map[string]*pick // by order reference
	order     []*pick          // in order of arrival
	pickSeq   int64
	evicted   int64
	events    []Event // a window: the oldest are dropped at maxEvents
	eventSeq  int64
	waits     map[*pick]struct{} // due, but held or short of stock
	looking   bool               // a recheck is on the timeline
	shortOnce int64              // pick orders that ever waited for stock
}

const (
	maxPickOrders = 500_000
	maxEvents     = 500_000
	maxPickLines  = 5_000
	recheck       = 250 * time.Millisecond
)

// New builds a warehouse and loads its stock. Close it at the end.
func New(cfg Config) (*Sim, error) {
	knobs := DefaultKnobs()
	if cfg.Knobs != nil {
		knobs = *cfg.Knobs
	}
	if err := knobs.Validate(); err != nil {
		return nil, fmt.Errorf("wms simulator: %w", err)
	}
	s := &Sim{
		stock: feed.New[Level](cfg.BaseVersion), picks: map[string]*pick{},
		eventSeq: cfg.BaseVersion, waits: map[*pick]struct{}{},
	}
	s.Core = sim.NewCore(sim.Config{Name: "wms", Seed: cfg.Seed, Now: cfg.Now}, knobs)
	s.pusher = feed.NewPusher(s.Core, func() feed.Push { return s.Knobs().Push })
	load := func() error { return s.stock.Load(cfg.Stock) }
	if cfg.Snapshot != nil {
		load = func() error { return s.restore(*cfg.Snapshot) }
	}
	if err := load(); err != nil {
		s.Close()
		return nil, fmt.Errorf("wms simulator: %w", err)
	}
	s.OnStats(func() any { return s.counters() })
	s.routes()
	return s, nil
}

// LevelRow stamps a stock level for loading.
func LevelRow(l Level, at time.Time) feed.Row[Level] {
	return feed.Row[Level]{ID: l.SKU, Value: l, UpdatedAt: at}
}

func (s *Sim) clock() time.Time { return s.Now().Add(sim.Millis(s.Knobs().ClockSkewMs)) }

// SetStock counts a SKU anew.
func (s *Sim) SetStock(sku string, onHand int64) (feed.Row[Level], error) {
	return s.change(sku, func(Level, bool) (Level, error) { return Level{SKU: sku, OnHand: onHand}, nil })
}

// change changes a level and tells of it.
func (s *Sim) change(sku string, decide func(Level, bool) (Level, error)) (feed.Row[Level], error) {
	row, err := s.stock.Change(sku, s.clock, decide)
	if err == nil {
		s.pusher.Tell("stock", showLevel(row))
	}
	return row, err
}

// Table is for tests that go past the application.
func (s *Sim) Table() *feed.Table[Level] { return s.stock }

// OnHand returns a SKU's level.
func (s *Sim) OnHand(sku string) (int64, bool) {
	row, ok := s.stock.Get(sku)
	return row.Value.OnHand, ok
}
