package oms

import (
	"fmt"
	"net/http"
	"sort"

	"andes/test/lab/sim"
)

// Counters are the business part of the stats.
type Counters struct {
	Registrations       int      `json:"registrations"`
	Refs                int      `json:"refs"`
	MaxRegistrations    int      `json:"maxRegistrationsPerRef"`
	DoubleRefs          []string `json:"doubleRefs"`
	Cancelled           int      `json:"cancelled"`
	HandedOver          int64    `json:"handedOver"`
	TotalMismatches     int      `json:"totalMismatches"`
	TotalMismatchedRefs []string `json:"totalMismatchedRefs"`
}

func (s *Sim) counters() Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := Counters{
		Registrations: len(s.orders), Refs: len(s.byRef), HandedOver: s.handed,
		TotalMismatches:     len(s.mismatches),
		TotalMismatchedRefs: s.mismatches[:min(len(s.mismatches), maxDoubles)],
		DoubleRefs:          []string{},
	}
	for ref, regs := range s.byRef {
		c.MaxRegistrations = max(c.MaxRegistrations, len(regs))
		if len(regs) > 1 && len(c.DoubleRefs) < maxDoubles {
			c.DoubleRefs = append(c.DoubleRefs, ref)
		}
		if regs[0].Status == cancelled {
			c.Cancelled++
		}
	}
	sort.Strings(c.DoubleRefs)
	return c
}

// Registrations returns how often a reference was registered.
func (s *Sim) Registrations(ref string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byRef[ref])
}

func (s *Sim) ordersAfter(after int64, limit int) ([]Registration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := min(int(min(after, maxOrders)), len(s.orders)) // seq n is at index n-1
	to := min(from+limit, len(s.orders))
	page := make([]Registration, 0, to-from)
	for _, reg := range s.orders[from:to] {
		page = append(page, *reg)
	}
	return page, to < len(s.orders)
}

func (s *Sim) labOrder(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	regs := s.byRef[r.PathValue("ref")]
	if regs == nil {
		regs = []*Registration{}
	}
	sim.Answer(w, http.StatusOK, map[string]any{"ref": r.PathValue("ref"), "registrations": regs})
}

// Snapshot is everything that the registry knows.
type Snapshot struct {
	Orders []Registration `json:"orders"`
}

// Snapshot copies the state.
func (s *Sim) Snapshot() Snapshot {
	orders, _ := s.ordersAfter(0, maxOrders)
	return Snapshot{Orders: orders}
}

// restore hands every order over again; the warehouse knows the repeats.
func (s *Sim) restore(snap Snapshot) error {
	if len(snap.Orders) > maxOrders {
		return fmt.Errorf("restore %d orders: %w", len(snap.Orders), sim.ErrFull)
	}
	for _, order := range snap.Orders {
		reg := &order
		s.mu.Lock()
		s.orders = append(s.orders, reg)
		s.byRef[reg.Ref] = append(s.byRef[reg.Ref], reg)
		s.mu.Unlock()
		s.queue(reg)
	}
	return nil
}
