package wms

import (
	"fmt"
	"slices"

	"andes/test/lab/feed"
	"andes/test/lab/sim"
)

// Snapshot is everything that a warehouse knows, so that a restart of the lab
// loses neither stock nor shipments.
type Snapshot struct {
	Stock    []feed.Row[Level] `json:"stock"`
	Picks    []PickOrder       `json:"picks"`
	Shipped  [][]EventLine     `json:"shipped"` // beside Picks
	PickSeq  int64             `json:"pickSeq"`
	Events   []Event           `json:"events"`
	EventSeq int64             `json:"eventSeq"`
}

// Snapshot copies the state.
func (s *Sim) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := Snapshot{
		Stock: s.stock.All(), PickSeq: s.pickSeq,
		Events: slices.Clone(s.events), EventSeq: s.eventSeq,
	}
	for _, p := range s.order {
		snap.Picks = append(snap.Picks, p.PickOrder)
		snap.Shipped = append(snap.Shipped, p.shipped)
	}
	return snap
}

// restore takes up open pick orders where they were; their delays begin anew.
func (s *Sim) restore(snap Snapshot) error {
	if len(snap.Picks) != len(snap.Shipped) || len(snap.Picks) > maxPickOrders || len(snap.Events) > maxEvents {
		return fmt.Errorf("restore %d pick orders and %d events: not a snapshot of this lab", len(snap.Picks), len(snap.Events))
	}
	if err := s.stock.Load(snap.Stock); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pickSeq, s.eventSeq, s.events = snap.PickSeq, snap.EventSeq, snap.Events
	k := s.Knobs()
	for i, order := range snap.Picks {
		p := &pick{PickOrder: order, shipped: snap.Shipped[i]}
		s.picks[order.OrderRef] = p
		s.order = append(s.order, p)
		switch order.Status {
		case Waiting:
			if err := s.After(sim.Millis(k.DispatchDelayMs), func() { s.dispatchDue(p) }); err != nil {
				return err
			}
		case Dispatched:
			p.dispatches = 1
			s.deliverLater(p, sim.Millis(k.DeliveryDelayMs))
		case Delivered:
			p.dispatches, p.deliveries = 1, 1
		case Cancelled:
		}
	}
	return nil
}
