package gateway

import (
	"errors"
	"net/http"

	"andes/test/lab/money"
	"andes/test/lab/sim"
)

type chargeRequest struct {
	OrderID  string `json:"orderId"`
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	Token    string `json:"token"`
}

type refundRequest struct {
	ChargeID string `json:"chargeId"`
	OrderID  string `json:"orderId"`
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
}

var (
	errKeyReused = errors.New("the Idempotency-Key was used with another body")
	errNoCharge  = errors.New("no such charge")
	errNotPaid   = errors.New("the charge is not approved")
	errTooMuch   = errors.New("refunds would exceed the charge")
)

// requestKey reads the Idempotency-Key, or answers 400.
func requestKey(w http.ResponseWriter, r *http.Request) (string, bool) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" || len(key) > maxKey {
		sim.Refuse(w, http.StatusBadRequest, "Idempotency-Key must have 1..%d characters", maxKey)
		return "", false
	}
	return key, true
}

func (s *Sim) postCharge(w http.ResponseWriter, r *http.Request) {
	key, ok := requestKey(w, r)
	if !ok {
		return
	}
	var req chargeRequest
	if !sim.Read(w, r, &req) {
		return
	}
	amount, err := money.Parse(req.Amount)
	if err != nil || amount <= 0 || req.OrderID == "" || req.Currency == "" || req.Token == "" {
		sim.Refuse(w, http.StatusBadRequest, "a charge needs orderId, a positive amount, currency and token")
		return
	}
	c, err := s.charge(key, req, amount)
	switch {
	case errors.Is(err, errKeyReused):
		sim.Refuse(w, http.StatusUnprocessableEntity, "%v", err)
	case err != nil:
		sim.Refuse(w, http.StatusServiceUnavailable, "%v", err)
	default:
		sim.Answer(w, http.StatusAccepted, map[string]string{"chargeId": c.ChargeID, "status": Pending})
	}
}

func (s *Sim) charge(key string, req chargeRequest, amount money.Amount) (*charge, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.byKey[key]; c != nil {
		if c.OrderID != req.OrderID || c.amount != amount || c.Currency != req.Currency {
			s.counts.KeysReused++
			return nil, errKeyReused
		}
		s.counts.RepeatedCharges++
		return c, nil
	}
	if len(s.charges) >= maxCharges {
		return nil, sim.ErrFull
	}
	c := &charge{Charge: Charge{
		Seq: int64(len(s.charges)) + 1, Key: key, ChargeID: idOf("ch_", key), OrderID: req.OrderID,
		Amount: req.Amount, Currency: req.Currency, Status: Pending, At: sim.Stamp(s.Now()),
	}, amount: amount, fate: fateOf(req.Token)}
	if err := s.decideLater(c); err != nil {
		return nil, err
	}
	s.keepCharge(c)
	return c, nil
}

func (s *Sim) keepCharge(c *charge) {
	s.charges = append(s.charges, c)
	s.byKey[c.Key], s.byID[c.ChargeID] = c, c
	s.byOrder[c.OrderID] = append(s.byOrder[c.OrderID], c)
}

func (s *Sim) decideLater(c *charge) error {
	if c.fate == fateNever {
		return nil
	}
	return s.After(sim.Millis(s.Knobs().DecideDelayMs), func() { s.decide(c) })
}

func (s *Sim) decide(c *charge) {
	s.mu.Lock()
	c.Status = Approved
	if c.fate == fateReject || (c.fate == fateByRate && s.Chance(s.Knobs().RejectRate)) {
		c.Status, c.Reason = Rejected, "card_declined"
	}
	told := c.Charge
	s.mu.Unlock()
	if c.fate == fateSilent {
		return
	}
	s.hooks.tell("charge."+told.Status, told.ChargeID, hookData{
		ChargeID: told.ChargeID, OrderID: told.OrderID, Amount: told.Amount, Currency: told.Currency, Reason: told.Reason,
	})
}

func (s *Sim) getCharge(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byKey[r.PathValue("key")]
	if c == nil {
		sim.Refuse(w, http.StatusNotFound, "%v", errNoCharge)
		return
	}
	sim.Answer(w, http.StatusOK, map[string]string{
		"chargeId": c.ChargeID, "orderId": c.OrderID, "amount": c.Amount, "currency": c.Currency,
		"status": c.Status, "reason": c.Reason,
	})
}

func (s *Sim) postRefund(w http.ResponseWriter, r *http.Request) {
	key, ok := requestKey(w, r)
	if !ok {
		return
	}
	var req refundRequest
	if !sim.Read(w, r, &req) {
		return
	}
	amount, err := money.Parse(req.Amount)
	if err != nil || amount <= 0 || req.ChargeID == "" {
		sim.Refuse(w, http.StatusBadRequest, "a refund needs chargeId and a positive amount")
		return
	}
	refund, err := s.refund(key, req, amount)
	switch {
	case errors.Is(err, errNoCharge):
		sim.Refuse(w, http.StatusNotFound, "%v: %s", err, req.ChargeID)
	case errors.Is(err, sim.ErrFull):
		sim.Refuse(w, http.StatusServiceUnavailable, "%v", err)
	case err != nil:
		sim.Refuse(w, http.StatusUnprocessableEntity, "%v", err)
	default:
		sim.Answer(w, http.StatusAccepted, map[string]string{"refundId": refund.RefundID, "status": Pending})
	}
}

func (s *Sim) refund(key string, req refundRequest, amount money.Amount) (*Refund, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.refundKey[key]; known != nil {
		if known.ChargeID != req.ChargeID || known.Amount != req.Amount {
			s.counts.KeysReused++
			return nil, errKeyReused
		}
		s.counts.RepeatedRefunds++
		return known, nil
	}
	c := s.byID[req.ChargeID]
	switch {
	case c == nil:
		return nil, errNoCharge
	case c.OrderID != req.OrderID || c.Currency != req.Currency:
		return nil, errNoCharge
	case c.Status != Approved:
		s.counts.RefusedRefunds++
		return nil, errNotPaid
	case c.refunded+amount > c.amount:
		s.counts.RefusedRefunds++
		return nil, errTooMuch
	case len(s.refunds) >= maxRefunds:
		return nil, sim.ErrFull
	}
	refund := &Refund{
		Seq: int64(len(s.refunds)) + 1, Key: key, RefundID: idOf("re_", key), ChargeID: c.ChargeID,
		OrderID: c.OrderID, Amount: req.Amount, Currency: c.Currency, Status: Pending, At: sim.Stamp(s.Now()),
	}
	if err := s.completeLater(refund); err != nil {
		return nil, err
	}
	c.refunded += amount
	s.refunds = append(s.refunds, refund)
	s.refundKey[key] = refund
	return refund, nil
}

func (s *Sim) completeLater(refund *Refund) error {
	return s.After(sim.Millis(s.Knobs().DecideDelayMs), func() {
		s.mu.Lock()
		refund.Status = Completed
		told := *refund
		s.mu.Unlock()
		s.hooks.tell("refund.completed", told.RefundID, hookData{
			ChargeID: told.ChargeID, OrderID: told.OrderID, Amount: told.Amount, Currency: told.Currency, RefundID: told.RefundID,
		})
	})
}

func (s *Sim) getRefund(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refund := s.refundKey[r.PathValue("key")]
	if refund == nil {
		sim.Refuse(w, http.StatusNotFound, "no such refund")
		return
	}
	sim.Answer(w, http.StatusOK, map[string]string{
		"refundId": refund.RefundID, "chargeId": refund.ChargeID, "orderId": refund.OrderID,
		"amount": refund.Amount, "currency": refund.Currency, "status": refund.Status,
	})
}
