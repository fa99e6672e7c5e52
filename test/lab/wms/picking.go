package wms

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"andes/test/lab/sim"
)

// Status of a pick order.
type Status string

// The statuses.
const (
	Waiting    Status = "WAITING"
	Dispatched Status = "DISPATCHED"
	Delivered  Status = "DELIVERED"
	Cancelled  Status = "CANCELLED"
)

// Types of shipment events.
const (
	DispatchStarted   = "DispatchStarted"
	DeliveryConfirmed = "DeliveryConfirmed"
)

type pick struct {
	PickOrder
	due        time.Time // of the dispatch
	short      bool
	dispatches int
	deliveries int
	shipped    []EventLine
}

// PickOrder is an order to be dispatched, as the lab shows it.
type PickOrder struct {
	Seq      int64  `json:"seq"`
	OrderRef string `json:"orderRef"`
	Status   Status `json:"status"`
	Lines    []Line `json:"lines"` // one per SKU
}

// Event reports a shipment.
type Event struct {
	Seq      int64       `json:"seq"`
	ID       string      `json:"id"`
	OrderRef string      `json:"orderRef"`
	Type     string      `json:"type"`
	At       string      `json:"at"`
	Lines    []EventLine `json:"lines"`
}

// EventLine of one SKU; StockVersion is its stock record's after the deduction.
type EventLine struct {
	SKU          string `json:"sku"`
	Quantity     int64  `json:"quantity"`
	StockVersion int64  `json:"stockVersion"`
}

var (
	// ErrClosed is a warehouse that does not answer now.
	ErrClosed = errors.New("warehouse does not answer")
	// ErrBadPick is a pick order that makes no sense.
	ErrBadPick = errors.New("bad pick order")
	// ErrUnknown is a reference without a pick order.
	ErrUnknown = errors.New("no such pick order")
	// ErrDispatched is a cancellation that comes too late.
	ErrDispatched = errors.New("dispatched already")
)

// Pick is the order system's door inside one process. It fails like the HTTP
// route while the warehouse is out.
func (s *Sim) Pick(_ context.Context, ref string, lines []Line) error {
	if f := s.Knobs().CommonFaults(); f.Outage || f.Hang {
		return ErrClosed
	}
	_, err := s.accept(ref, lines)
	return err
}

// accept takes a pick order once per reference; false is a repeat.
func (s *Sim) accept(ref string, lines []Line) (bool, error) {
	merged, err := mergeLines(ref, lines)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.picks[ref] != nil {
		return false, nil
	}
	if len(s.picks) >= maxPickOrders && !s.evictOldest() {
		return false, sim.ErrFull
	}
	delay := sim.Millis(s.Knobs().DispatchDelayMs)
	s.pickSeq++
	p := &pick{
		PickOrder: PickOrder{Seq: s.pickSeq, OrderRef: ref, Status: Waiting, Lines: merged},
		due:       s.Now().Add(delay),
	}
	if err := s.After(delay, func() { s.dispatchDue(p) }); err != nil {
		return false, err
	}
	s.picks[ref] = p
	s.order = append(s.order, p)
	return true, nil
}

// evictOldest makes room if the oldest pick order is finished.
func (s *Sim) evictOldest() bool {
	oldest := s.order[0]
	if oldest.Status != Delivered && oldest.Status != Cancelled {
		return false
	}
	delete(s.picks, oldest.OrderRef)
	s.order[0] = nil
	s.order = s.order[1:]
	s.evicted++
	return true
}

func mergeLines(ref string, lines []Line) ([]Line, error) {
	if ref == "" || len(lines) == 0 || len(lines) > maxPickLines {
		return nil, fmt.Errorf("%w: it needs an orderRef and 1..%d lines", ErrBadPick, maxPickLines)
	}
	at := map[string]int{}
	var merged []Line
	for _, line := range lines {
		if line.SKU == "" || line.Quantity <= 0 {
			return nil, fmt.Errorf("%w: line %q with quantity %d", ErrBadPick, line.SKU, line.Quantity)
		}
		i, seen := at[line.SKU]
		if !seen {
			i = len(merged)
			at[line.SKU] = i
			merged = append(merged, Line{SKU: line.SKU})
		}
		merged[i].Quantity += line.Quantity
	}
	return merged, nil
}

// Cancel withdraws a pick order that is not dispatched yet. A repeat is fine.
func (s *Sim) Cancel(ref string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.picks[ref]
	switch {
	case p == nil:
		return ErrUnknown
	case p.Status == Dispatched || p.Status == Delivered:
		return ErrDispatched
	}
	p.Status = Cancelled
	delete(s.waits, p)
	return nil
}

func (s *Sim) dispatchDue(p *pick) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Status != Waiting {
		return
	}
	if !s.dispatch(p) {
		s.waits[p] = struct{}{}
		s.lookAgain()
	}
}

// lookAgain keeps at most one recheck on the timeline.
func (s *Sim) lookAgain() {
	if s.looking {
		return
	}
	s.looking = s.After(recheck, s.recheckWaiting) == nil
}

func (s *Sim) recheckWaiting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looking = false
	due := make([]*pick, 0, len(s.waits))
	for p := range s.waits {
		due = append(due, p)
	}
	slices.SortFunc(due, func(a, b *pick) int { return int(a.Seq - b.Seq) })
	for _, p := range due {
		if s.dispatch(p) {
			delete(s.waits, p)
		}
	}
	if len(s.waits) > 0 {
		s.lookAgain()
	}
}

// dispatch does all of the order or nothing.
func (s *Sim) dispatch(p *pick) bool {
	k := s.Knobs()
	if k.HoldDispatch {
		return false
	}
	if !k.AllowNegative && !s.allThere(p.Lines) {
		if !p.short {
			p.short = true
			s.shortOnce++
		}
		return false
	}
	shipped := make([]EventLine, 0, len(p.Lines))
	for _, line := range p.Lines {
		row, err := s.change(line.SKU, func(l Level, _ bool) (Level, error) {
			return Level{SKU: line.SKU, OnHand: l.OnHand - line.Quantity}, nil
		})
		if err != nil {
			return false
		}
		shipped = append(shipped, EventLine{SKU: line.SKU, Quantity: line.Quantity, StockVersion: row.Version})
	}
	p.Status, p.shipped = Dispatched, shipped
	p.dispatches++
	s.report(p, DispatchStarted)
	s.deliverLater(p, sim.Millis(k.DeliveryDelayMs))
	return true
}

func (s *Sim) deliverLater(p *pick, delay time.Duration) {
	// A full timeline leaves the order dispatched; the counters show it.
	_ = s.After(delay, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.Status = Delivered
		p.deliveries++
		s.report(p, DeliveryConfirmed)
	})
}

// allThere needs no lock against other dispatches: they hold s.mu as well. A
// setter of the lab may come between, and then the level goes below zero by
// the lab's own hand.
func (s *Sim) allThere(lines []Line) bool {
	for _, line := range lines {
		if row, ok := s.stock.Get(line.SKU); !ok || row.Value.OnHand < line.Quantity {
			return false
		}
	}
	return true
}

// eventSpace makes event ids the same whenever the same thing is reported.
var eventSpace = uuid.NewSHA1(uuid.NameSpaceOID, []byte("andes lab wms"))

func (s *Sim) report(p *pick, kind string) {
	if len(s.events) >= maxEvents {
		s.events = slices.Delete(s.events, 0, maxEvents/10)
	}
	s.eventSeq++
	s.events = append(s.events, Event{
		Seq: s.eventSeq, ID: uuid.NewSHA1(eventSpace, []byte(kind+"|"+p.OrderRef)).String(),
		OrderRef: p.OrderRef, Type: kind, At: sim.Stamp(s.clock()), Lines: p.shipped,
	})
}
