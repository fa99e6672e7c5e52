package gateway

import (
	"fmt"
	"net/http"
	"slices"

	"andes/test/lab/money"
	"andes/test/lab/sim"
)

// Events counts what callers did.
type Events struct {
	RepeatedCharges int64 `json:"repeatedCharges"` // same key, same answer
	RepeatedRefunds int64 `json:"repeatedRefunds"`
	KeysReused      int64 `json:"keysReused"` // same key, other body: refused
	RefusedRefunds  int64 `json:"refusedRefunds"`
}

// Counters are the business part of the stats.
type Counters struct {
	Charges             int               `json:"charges"`
	ChargesByStatus     map[string]int    `json:"chargesByStatus"`
	OrdersCharged       int               `json:"ordersCharged"`
	MaxChargesPerOrder  int               `json:"maxChargesPerOrder"`
	MaxApprovedPerOrder int               `json:"maxApprovedPerOrder"`
	OrdersChargedTwice  []string          `json:"ordersChargedTwice"`
	Refunds             int               `json:"refunds"`
	MaxRefundsPerOrder  int               `json:"maxRefundsPerOrder"`
	ApprovedByCurrency  map[string]string `json:"approvedByCurrency"`
	RefundedByCurrency  map[string]string `json:"refundedByCurrency"`
	Events
	Webhooks Hooks `json:"webhooks"`
}

const maxListed = 100

func (s *Sim) counters() Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := Counters{
		Charges: len(s.charges), ChargesByStatus: map[string]int{}, OrdersCharged: len(s.byOrder),
		Refunds: len(s.refunds), Events: s.counts, OrdersChargedTwice: []string{}, Webhooks: s.hooks.snapshot(),
	}
	approved, refunded := map[string]money.Amount{}, map[string]money.Amount{}
	for order, charges := range s.byOrder {
		paid := 0
		for _, one := range charges {
			c.ChargesByStatus[one.Status]++
			if one.Status == Approved {
				paid++
				approved[one.Currency] += one.amount
			}
			refunded[one.Currency] += one.refunded
		}
		c.MaxChargesPerOrder = max(c.MaxChargesPerOrder, len(charges))
		c.MaxApprovedPerOrder = max(c.MaxApprovedPerOrder, paid)
		if len(charges) > 1 && len(c.OrdersChargedTwice) < maxListed {
			c.OrdersChargedTwice = append(c.OrdersChargedTwice, order)
		}
	}
	slices.Sort(c.OrdersChargedTwice)
	refundsOf := map[string]int{}
	for _, refund := range s.refunds {
		refundsOf[refund.OrderID]++
		c.MaxRefundsPerOrder = max(c.MaxRefundsPerOrder, refundsOf[refund.OrderID])
	}
	c.ApprovedByCurrency, c.RefundedByCurrency = inText(approved), inText(refunded)
	return c
}

func inText(sums map[string]money.Amount) map[string]string {
	text := make(map[string]string, len(sums))
	for currency, sum := range sums {
		text[currency] = sum.String()
	}
	return text
}

// Webhooks counts what was told.
func (s *Sim) Webhooks() Hooks { return s.hooks.snapshot() }

// OrderSums is what the gateway did with one order.
type OrderSums struct {
	Seq      int64  `json:"seq"` // of its first charge
	OrderID  string `json:"orderId"`
	Currency string `json:"currency"`
	Charges  int    `json:"charges"`
	Approved string `json:"approved"`
	Refunded string `json:"refunded"`
	Refunds  int    `json:"refunds"`
	Status   string `json:"status"` // of its last charge
}

// Order sums up one order; false if it was never charged.
func (s *Sim) Order(id string) (OrderSums, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sums(id, s.refundCounts())
}

func (s *Sim) refundCounts() map[string]int {
	counts := map[string]int{}
	for _, refund := range s.refunds {
		counts[refund.OrderID]++
	}
	return counts
}

func (s *Sim) sums(id string, refunds map[string]int) (OrderSums, bool) {
	charges := s.byOrder[id]
	if len(charges) == 0 {
		return OrderSums{}, false
	}
	var approved, refunded money.Amount
	for _, c := range charges {
		if c.Status == Approved {
			approved += c.amount
		}
		refunded += c.refunded
	}
	return OrderSums{
		Seq: charges[0].Seq, OrderID: id, Currency: charges[0].Currency, Charges: len(charges),
		Approved: approved.String(), Refunded: refunded.String(), Refunds: refunds[id],
		Status: charges[len(charges)-1].Status,
	}, true
}

func (s *Sim) labOrder(w http.ResponseWriter, r *http.Request) {
	sums, ok := s.Order(r.PathValue("id"))
	if !ok {
		sim.Refuse(w, http.StatusNotFound, "never charged: %s", r.PathValue("id"))
		return
	}
	sim.Answer(w, http.StatusOK, sums)
}

// ordersAfter lists orders by the sequence of their first charge.
func (s *Sim) ordersAfter(after int64, limit int) ([]OrderSums, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refunds := s.refundCounts()
	var page []OrderSums
	for _, c := range s.charges[min(int(min(after, maxCharges)), len(s.charges)):] {
		if s.byOrder[c.OrderID][0] != c {
			continue
		}
		if len(page) == limit {
			return page, true
		}
		sums, _ := s.sums(c.OrderID, refunds)
		page = append(page, sums)
	}
	return page, false
}

func (c *charge) show() Charge {
	out := c.Charge
	out.Refunded = c.refunded.String()
	return out
}

func (s *Sim) chargesAfter(after int64, limit int) ([]Charge, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := min(int(min(after, maxCharges)), len(s.charges)) // seq n is at index n-1
	to := min(from+limit, len(s.charges))
	page := make([]Charge, 0, to-from)
	for _, c := range s.charges[from:to] {
		page = append(page, c.show())
	}
	return page, to < len(s.charges)
}

func (s *Sim) refundsAfter(after int64, limit int) ([]Refund, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := min(int(min(after, maxRefunds)), len(s.refunds))
	to := min(from+limit, len(s.refunds))
	page := make([]Refund, 0, to-from)
	for _, refund := range s.refunds[from:to] {
		page = append(page, *refund)
	}
	return page, to < len(s.refunds)
}

// Snapshot is everything that the gateway knows.
type Snapshot struct {
	Charges []SavedCharge `json:"charges"`
	Refunds []Refund      `json:"refunds"`
}

// SavedCharge carries the fate that the token decided.
type SavedCharge struct {
	Charge
	Fate int `json:"fate"`
}

// Snapshot copies the state.
func (s *Sim) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	var snap Snapshot
	for _, c := range s.charges {
		snap.Charges = append(snap.Charges, SavedCharge{Charge: c.show(), Fate: int(c.fate)})
	}
	for _, refund := range s.refunds {
		snap.Refunds = append(snap.Refunds, *refund)
	}
	return snap
}

// restore takes up what is pending; webhooks that were not delivered are lost,
// as they are with a gateway that crashed.
func (s *Sim) restore(snap Snapshot) error {
	if len(snap.Charges) > maxCharges || len(snap.Refunds) > maxRefunds {
		return fmt.Errorf("restore %d charges: %w", len(snap.Charges), sim.ErrFull)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, saved := range snap.Charges {
		amount, err := money.Parse(saved.Amount)
		if err != nil {
			return fmt.Errorf("restore charge %s: %w", saved.ChargeID, err)
		}
		refunded, err := money.Parse(saved.Refunded)
		if err != nil {
			return fmt.Errorf("restore charge %s: %w", saved.ChargeID, err)
		}
		c := &charge{Charge: saved.Charge, amount: amount, refunded: refunded, fate: fate(saved.Fate)}
		s.keepCharge(c)
		if c.Status == Pending {
			if err := s.decideLater(c); err != nil {
				return err
			}
		}
	}
	for _, saved := range snap.Refunds {
		refund := &saved
		s.refunds = append(s.refunds, refund)
		s.refundKey[refund.Key] = refund
		if refund.Status == Pending {
			if err := s.completeLater(refund); err != nil {
				return err
			}
		}
	}
	return nil
}
