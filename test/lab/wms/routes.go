package wms

import (
	"errors"
	"net/http"
	"sort"

	"andes/test/lab/feed"
	"andes/test/lab/sim"
)

func joinChecks(faults ...error) error { return errors.Join(faults...) }

// Counters are the business part of the stats.
type Counters struct {
	SKUs            int   `json:"skus"`
	OnHandTotal     int64 `json:"onHandTotal"`
	NegativeSKUs    int   `json:"negativeSkus"`
	PickOrders      int   `json:"pickOrders"`
	Waiting         int   `json:"waiting"`
	WaitingForStock int64 `json:"everShortOfStock"`
	Dispatched      int   `json:"dispatched"`
	Delivered       int   `json:"delivered"`
	Cancelled       int   `json:"cancelled"`
	MaxDispatches   int   `json:"maxDispatchesPerRef"`
	MaxDeliveries   int   `json:"maxDeliveriesPerRef"`
	LastEventSeq    int64 `json:"lastEventSeq"`
	Evicted         int64 `json:"evictedPickOrders"`

	Pushed feed.Pushed `json:"pushed"`
}

func (s *Sim) counters() Counters {
	c := Counters{Pushed: s.pusher.Counts()}
	for _, row := range s.stock.All() {
		c.SKUs++
		c.OnHandTotal += row.Value.OnHand
		if row.Value.OnHand < 0 {
			c.NegativeSKUs++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.PickOrders, c.Evicted = len(s.order), s.evicted
	c.WaitingForStock, c.LastEventSeq = s.shortOnce, s.eventSeq
	for _, p := range s.order {
		switch p.Status {
		case Waiting:
			c.Waiting++
		case Dispatched:
			c.Dispatched++
		case Delivered:
			c.Delivered++
		case Cancelled:
			c.Cancelled++
		}
		c.MaxDispatches = max(c.MaxDispatches, p.dispatches)
		c.MaxDeliveries = max(c.MaxDeliveries, p.deliveries)
	}
	return c
}

func showLevel(row feed.Row[Level]) any {
	return struct {
		Level
		UpdatedAt string `json:"updatedAt"`
		Version   int64  `json:"version"`
	}{row.Value, sim.Stamp(row.UpdatedAt), row.Version}
}

func (s *Sim) routes() {
	s.Handle("GET /stock", feed.Serve(s.stock, s.clock, showLevel))
	s.Handle("GET /stock/{sku}", s.getStock)
	s.Handle("GET /shipment-events", sim.Paged(s.eventsAfter, s.clock))
	s.Handle("POST /pick-orders", s.postPick)
	s.Handle("POST /pick-orders/{ref}/cancel", s.postCancel)

	s.Lab("PUT /_lab/stock/{sku}", s.putStock)
	s.Lab("POST /_lab/stock/bulk", s.postStock)
	s.Lab("POST /_lab/stock/{sku}/adjust", s.postAdjust)
	s.Lab("GET /_lab/stock", feed.Serve(s.stock, s.clock, showLevel))
	s.Lab("GET /_lab/stock/{sku}", s.getStock)
	s.Lab("GET /_lab/pick-orders", sim.Paged(s.picksAfter, s.Now))
}

func (s *Sim) getStock(w http.ResponseWriter, r *http.Request) {
	row, ok := s.stock.Get(r.PathValue("sku"))
	if !ok {
		sim.Refuse(w, http.StatusNotFound, "no such SKU: %s", r.PathValue("sku"))
		return
	}
	sim.Answer(w, http.StatusOK, showLevel(row))
}

func (s *Sim) putStock(w http.ResponseWriter, r *http.Request) {
	var body struct {
		OnHand *int64 `json:"onHand"`
	}
	if !sim.Read(w, r, &body) {
		return
	}
	if body.OnHand == nil {
		sim.Refuse(w, http.StatusBadRequest, "onHand is missing")
		return
	}
	row, err := s.SetStock(r.PathValue("sku"), *body.OnHand)
	if err != nil {
		sim.Refuse(w, http.StatusInsufficientStorage, "%v", err)
		return
	}
	sim.Answer(w, http.StatusOK, showLevel(row))
}

// postAdjust books units in or out, whatever the level is at that moment.
func (s *Sim) postAdjust(w http.ResponseWriter, r *http.Request) {
	var body struct {
		By int64 `json:"by"`
	}
	if !sim.Read(w, r, &body) {
		return
	}
	sku := r.PathValue("sku")
	row, err := s.change(sku, func(l Level, _ bool) (Level, error) {
		return Level{SKU: sku, OnHand: l.OnHand + body.By}, nil
	})
	if err != nil {
		sim.Refuse(w, http.StatusInsufficientStorage, "%v", err)
		return
	}
	sim.Answer(w, http.StatusOK, showLevel(row))
}

func (s *Sim) postStock(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Items []Level `json:"items"`
	}
	if !sim.Read(w, r, &body) {
		return
	}
	for _, level := range body.Items {
		if _, err := s.SetStock(level.SKU, level.OnHand); err != nil {
			sim.Refuse(w, http.StatusInsufficientStorage, "%v", err)
			return
		}
	}
	sim.Answer(w, http.StatusOK, map[string]int{"changed": len(body.Items)})
}

func (s *Sim) postPick(w http.ResponseWriter, r *http.Request) {
	var body struct {
		OrderRef string `json:"orderRef"`
		Lines    []Line `json:"lines"`
	}
	if !sim.Read(w, r, &body) {
		return
	}
	created, err := s.accept(body.OrderRef, body.Lines)
	answer := map[string]string{"orderRef": body.OrderRef}
	switch {
	case errors.Is(err, ErrBadPick):
		sim.Refuse(w, http.StatusBadRequest, "%v", err)
	case err != nil:
		sim.Refuse(w, http.StatusServiceUnavailable, "%v", err)
	case created:
		sim.Answer(w, http.StatusCreated, answer)
	default:
		sim.Answer(w, http.StatusOK, answer)
	}
}

func (s *Sim) postCancel(w http.ResponseWriter, r *http.Request) {
	ref := r.PathValue("ref")
	err := s.Cancel(ref)
	switch {
	case errors.Is(err, ErrUnknown):
		sim.Refuse(w, http.StatusNotFound, "%v: %s", err, ref)
	case err != nil:
		sim.Refuse(w, http.StatusConflict, "%v: %s", err, ref)
	default:
		sim.Answer(w, http.StatusOK, map[string]string{"orderRef": ref, "status": string(Cancelled)})
	}
}

func (s *Sim) eventsAfter(after int64, limit int) ([]Event, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := sort.Search(len(s.events), func(i int) bool { return s.events[i].Seq > after })
	to := min(from+limit, len(s.events))
	return append([]Event(nil), s.events[from:to]...), to < len(s.events)
}

func (s *Sim) picksAfter(after int64, limit int) ([]PickOrder, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := sort.Search(len(s.order), func(i int) bool { return s.order[i].Seq > after })
	to := min(from+limit, len(s.order))
	page := make([]PickOrder, 0, to-from)
	for _, p := range s.order[from:to] {
		page = append(page, p.PickOrder)
	}
	return page, to < len(s.order)
}
