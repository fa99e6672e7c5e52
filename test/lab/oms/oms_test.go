package oms_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"andes/test/lab/labtest"
	"andes/test/lab/oms"
	"andes/test/lab/sim"
	"andes/test/lab/wms"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// warehouse remembers what it was handed; it may be shut.
type warehouse struct {
	mu    sync.Mutex
	shut  bool
	late  bool
	picks []string
}

func (w *warehouse) Pick(_ context.Context, ref string, lines []wms.Line) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shut {
		return errors.New("shut")
	}
	w.picks = append(w.picks, fmt.Sprint(ref, lines))
	return nil
}

func (w *warehouse) Cancel(string) error {
	if w.late {
		return wms.ErrDispatched
	}
	return nil
}

func inBubble(t *testing.T, test func(t *testing.T, s *oms.Sim, w *warehouse)) {
	synctest.Test(t, func(t *testing.T) {
		w := &warehouse{}
		s, err := oms.New(oms.Config{Warehouse: w})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		test(t, s, w)
	})
}

const order = `{"ref":"o-1","partner":"demo","currency":"GBP","total":"12.30",
	"lines":[{"sku":"A","quantity":2,"unitPrice":"2.55"},{"sku":"B","quantity":4,"unitPrice":"1.80"}]}`

func post(t *testing.T, s *oms.Sim, body string, status int) map[string]string {
	t.Helper()
	return labtest.Do[map[string]string](t, s.Handler(), http.MethodPost, "/orders", body, status)
}

func counters(t *testing.T, s *oms.Sim) oms.Counters {
	t.Helper()
	return labtest.Do[struct{ Business oms.Counters }](t, s.Handler(), http.MethodGet, "/_lab/stats", "", http.StatusOK).Business
}

func TestARegisteredOrderIsFoundAndHandedToTheWarehouse(t *testing.T) {
	inBubble(t, func(t *testing.T, s *oms.Sim, w *warehouse) {
		labtest.Do[any](t, s.Handler(), http.MethodGet, "/orders/o-1", "", http.StatusNotFound)
		made := post(t, s, order, http.StatusCreated)
		found := labtest.Do[map[string]string](t, s.Handler(), http.MethodGet, "/orders/o-1", "", http.StatusOK)
		if made["omsId"] == "" || made["ref"] != "o-1" || found["omsId"] != made["omsId"] ||
			found["partner"] != "demo" || found["status"] != "registered" {
			t.Fatalf("made %v, found %v", made, found)
		}
		synctest.Wait()
		if len(w.picks) != 1 || w.picks[0] != "o-1[{A 2} {B 4}]" {
			t.Fatalf("picks %v", w.picks)
		}
	})
}

func TestEachPostMakesOneMoreAndTheCountersTell(t *testing.T) {
	inBubble(t, func(t *testing.T, s *oms.Sim, _ *warehouse) {
		a, b := post(t, s, order, http.StatusCreated), post(t, s, order, http.StatusCreated)
		c := counters(t, s)
		if a["omsId"] == b["omsId"] || c.Registrations != 2 || c.Refs != 1 || c.MaxRegistrations != 2 ||
			len(c.DoubleRefs) != 1 || c.DoubleRefs[0] != "o-1" || s.Registrations("o-1") != 2 {
			t.Fatalf("counters %+v", c)
		}
	})
}

func TestDedupeAnswers409(t *testing.T) {
	inBubble(t, func(t *testing.T, s *oms.Sim, _ *warehouse) {
		labtest.Turn(t, s.Handler(), `{"dedupe":true}`)
		post(t, s, order, http.StatusCreated)
		post(t, s, order, http.StatusConflict)
		if c := counters(t, s); c.Registrations != 1 {
			t.Fatalf("counters %+v", c)
		}
	})
}

func TestALostResponseStillRegisters(t *testing.T) {
	inBubble(t, func(t *testing.T, s *oms.Sim, _ *warehouse) {
		labtest.Turn(t, s.Handler(), `{"responseLostRate":1}`)
		if got := labtest.Call(t.Context(), s.Handler(), http.MethodPost, "/orders", order); got.Status != labtest.Cut {
			t.Fatalf("status %d", got.Status)
		}
		if s.Registrations("o-1") != 1 {
			t.Fatal("not registered")
		}
	})
}

func TestATotalThatIsNotTheSumOfItsLinesIsCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, s *oms.Sim, _ *warehouse) {
		post(t, s, `{"ref":"o-2","currency":"GBP","total":"5.11","lines":[{"sku":"A","quantity":2,"unitPrice":"2.55"}]}`, http.StatusCreated)
		post(t, s, `{"ref":"o-3","currency":"GBP","total":"5.1","lines":[{"sku":"A","quantity":2,"unitPrice":"2.55"}]}`, http.StatusCreated)
		if c := counters(t, s); c.TotalMismatches != 1 || c.TotalMismatchedRefs[0] != "o-2" {
			t.Fatalf("counters %+v", c)
		}
	})
}

func TestBadOrdersAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, s *oms.Sim, _ *warehouse) {
		for _, bad := range []string{
			`{}`, `{"ref":"r","currency":"GBP","total":"1.00","lines":[]}`, `[`,
			`{"ref":"r","currency":"GBP","total":"one","lines":[{"sku":"A","quantity":1,"unitPrice":"1.00"}]}`,
			`{"ref":"r","currency":"GBP","total":"1.00","lines":[{"sku":"A","quantity":0,"unitPrice":"1.00"}]}`,
			`{"ref":"r","currency":"GBP","total":"1.00","lines":[{"sku":"A","quantity":1,"unitPrice":1}]}`,
		} {
			post(t, s, bad, http.StatusBadRequest)
		}
	})
}

func TestAnOrderOfAnArticleThatTheOMSLacksIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, s *oms.Sim, w *warehouse) {
		labtest.Do[any](t, s.Handler(), http.MethodPut, "/_lab/knobs", `{"unknownSku":"B"}`, http.StatusOK)
		post(t, s, order, http.StatusUnprocessableEntity)
		labtest.Do[any](t, s.Handler(), http.MethodPut, "/_lab/knobs", `{"unknownSku":""}`, http.StatusOK)
		post(t, s, order, http.StatusCreated)
	})
}

func TestAWarehouseThatIsShutGetsTheOrderLater(t *testing.T) {
	inBubble(t, func(t *testing.T, s *oms.Sim, w *warehouse) {
		w.shut = true
		post(t, s, order, http.StatusCreated)
		time.Sleep(time.Minute) // of the bubble's clock
		synctest.Wait()
		w.mu.Lock()
		w.shut = false
		w.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		if c := counters(t, s); len(w.picks) != 1 || c.HandedOver != 1 {
			t.Fatalf("picks %v, counters %+v", w.picks, c)
		}
	})
}

func TestCancelIsRefusedOnceTheWarehouseDispatched(t *testing.T) {
	inBubble(t, func(t *testing.T, s *oms.Sim, w *warehouse) {
		cancel := func(status int) {
			t.Helper()
			labtest.Do[map[string]string](t, s.Handler(), http.MethodPost, "/orders/o-1/cancel", "", status)
		}
		cancel(http.StatusNotFound)
		post(t, s, order, http.StatusCreated)
		w.late = true
		cancel(http.StatusConflict)
		w.late = false
		cancel(http.StatusOK)
		if c := counters(t, s); c.Cancelled != 1 {
			t.Fatalf("counters %+v", c)
		}
	})
}

func TestOrdersArePagedForTheLab(t *testing.T) {
	inBubble(t, func(t *testing.T, s *oms.Sim, _ *warehouse) {
		for range 3 {
			post(t, s, order, http.StatusCreated)
		}
		page := labtest.Do[sim.Page[oms.Registration]](t, s.Handler(), http.MethodGet, "/_lab/orders?after=1&limit=1", "", http.StatusOK)
		if len(page.Items) != 1 || page.Items[0].Seq != 2 || !page.HasMore {
			t.Fatalf("page %+v", page)
		}
	})
}
