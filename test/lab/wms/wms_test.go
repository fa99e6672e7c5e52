package wms_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"andes/test/lab/feed"
	"andes/test/lab/labtest"
	"andes/test/lab/sim"
	"andes/test/lab/wms"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newWMS(t *testing.T, levels ...wms.Level) *wms.Sim {
	t.Helper()
	var rows []feed.Row[wms.Level]
	for _, l := range levels {
		rows = append(rows, wms.LevelRow(l, time.Now()))
	}
	s, err := wms.New(wms.Config{Stock: rows})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// inBubble runs on a clock that only moves while everybody waits.
func inBubble(t *testing.T, test func(t *testing.T, s *wms.Sim), levels ...wms.Level) {
	synctest.Test(t, func(t *testing.T) { test(t, newWMS(t, levels...)) })
}

func pick(t *testing.T, s *wms.Sim, ref string, lines string, status int) {
	t.Helper()
	labtest.Do[map[string]string](t, s.Handler(), http.MethodPost, "/pick-orders",
		fmt.Sprintf(`{"orderRef":%q,"lines":[%s]}`, ref, lines), status)
}

func events(t *testing.T, s *wms.Sim, query string) []wms.Event {
	t.Helper()
	return labtest.Do[sim.Page[wms.Event]](t, s.Handler(), http.MethodGet, "/shipment-events"+query, "", http.StatusOK).Items
}

func after(d time.Duration) {
	time.Sleep(d) // of the bubble's clock
	synctest.Wait()
}

func counters(t *testing.T, s *wms.Sim) wms.Counters {
	t.Helper()
	return labtest.Do[struct{ Business wms.Counters }](t, s.Handler(), http.MethodGet, "/_lab/stats", "", http.StatusOK).Business
}

func TestAPickOrderIsDispatchedAndThenDelivered(t *testing.T) {
	inBubble(t, func(t *testing.T, s *wms.Sim) {
		pick(t, s, "o-1", `{"sku":"A","quantity":2},{"sku":"B","quantity":1},{"sku":"A","quantity":1}`, http.StatusCreated)
		after(1499 * time.Millisecond)
		if got := events(t, s, ""); len(got) != 0 {
			t.Fatalf("too early: %+v", got)
		}
		after(time.Millisecond)
		got := events(t, s, "")
		if len(got) != 1 || got[0].Seq != 1 || got[0].Type != wms.DispatchStarted || got[0].OrderRef != "o-1" ||
			len(got[0].Lines) != 2 || got[0].Lines[0] != (wms.EventLine{SKU: "A", Quantity: 3, StockVersion: 2}) {
			t.Fatalf("dispatch: %+v", got)
		}
		body := string(labtest.Call(t.Context(), s.Handler(), http.MethodGet, "/stock/A", "").Body)
		if want := `{"sku":"A","onHand":7,"updatedAt":"2000-01-01T00:00:01.500Z","version":2}`; body != want {
			t.Fatalf("stock %s", body)
		}
		after(3 * time.Second)
		if got = events(t, s, "?after=1"); len(got) != 1 || got[0].Type != wms.DeliveryConfirmed || got[0].Seq != 2 {
			t.Fatalf("delivery: %+v", got)
		}
		if c := counters(t, s); c.Delivered != 1 || c.MaxDispatches != 1 || c.OnHandTotal != 7+4 {
			t.Fatalf("counters %+v", c)
		}
	}, wms.Level{SKU: "A", OnHand: 10}, wms.Level{SKU: "B", OnHand: 5})
}

func TestARepeatedPickOrderIsDoneOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *wms.Sim) {
		pick(t, s, "o-1", `{"sku":"A","quantity":2}`, http.StatusCreated)
		pick(t, s, "o-1", `{"sku":"A","quantity":2}`, http.StatusOK)
		after(time.Minute)
		pick(t, s, "o-1", `{"sku":"A","quantity":2}`, http.StatusOK)
		after(time.Minute)
		if n, _ := s.OnHand("A"); n != 8 || len(events(t, s, "")) != 2 {
			t.Fatalf("on hand %d, events %+v", n, events(t, s, ""))
		}
	}, wms.Level{SKU: "A", OnHand: 10})
}

func TestTooLittleStockWaitsWholeUntilThereIsEnough(t *testing.T) {
	inBubble(t, func(t *testing.T, s *wms.Sim) {
		pick(t, s, "big", `{"sku":"B","quantity":1},{"sku":"A","quantity":5}`, http.StatusCreated)
		pick(t, s, "small", `{"sku":"A","quantity":1}`, http.StatusCreated)
		after(time.Minute)
		if a, _ := s.OnHand("A"); a != 1 {
			t.Fatalf("on hand %d", a)
		}
		if b, _ := s.OnHand("B"); b != 1 {
			t.Fatal("a part of the order left the house")
		}
		labtest.Do[any](t, s.Handler(), http.MethodPut, "/_lab/stock/A", `{"onHand":5}`, http.StatusOK)
		after(time.Minute)
		if c := counters(t, s); c.Delivered != 2 || c.WaitingForStock != 1 || c.OnHandTotal != 0 || c.NegativeSKUs != 0 {
			t.Fatalf("counters %+v", c)
		}
	}, wms.Level{SKU: "A", OnHand: 2}, wms.Level{SKU: "B", OnHand: 1})
}

func TestAllowNegativeDispatchesWhatIsNotThere(t *testing.T) {
	inBubble(t, func(t *testing.T, s *wms.Sim) {
		labtest.Turn(t, s.Handler(), `{"allowNegative":true}`)
		pick(t, s, "o", `{"sku":"A","quantity":5}`, http.StatusCreated)
		after(time.Minute)
		if n, _ := s.OnHand("A"); n != -3 {
			t.Fatalf("on hand %d", n)
		}
	}, wms.Level{SKU: "A", OnHand: 2})
}

func TestHoldDispatchHoldsUntilItIsReleased(t *testing.T) {
	inBubble(t, func(t *testing.T, s *wms.Sim) {
		labtest.Turn(t, s.Handler(), `{"holdDispatch":true}`)
		pick(t, s, "o", `{"sku":"A","quantity":1}`, http.StatusCreated)
		after(time.Hour)
		if c := counters(t, s); c.Waiting != 1 || c.WaitingForStock != 0 {
			t.Fatalf("held: %+v", c)
		}
		labtest.Turn(t, s.Handler(), `{"holdDispatch":false}`)
		after(250 * time.Millisecond)
		if c := counters(t, s); c.Dispatched != 1 {
			t.Fatalf("released: %+v", c)
		}
	}, wms.Level{SKU: "A", OnHand: 2})
}

func TestCancelWorksOnlyBeforeDispatch(t *testing.T) {
	inBubble(t, func(t *testing.T, s *wms.Sim) {
		cancel := func(ref string, status int) {
			t.Helper()
			labtest.Do[map[string]string](t, s.Handler(), http.MethodPost, "/pick-orders/"+ref+"/cancel", "", status)
		}
		pick(t, s, "early", `{"sku":"A","quantity":1}`, http.StatusCreated)
		cancel("early", http.StatusOK)
		cancel("early", http.StatusOK)
		pick(t, s, "late", `{"sku":"A","quantity":1}`, http.StatusCreated)
		after(2 * time.Second)
		cancel("late", http.StatusConflict)
		cancel("none", http.StatusNotFound)
		if n, _ := s.OnHand("A"); n != 1 {
			t.Fatalf("on hand %d", n)
		}
	}, wms.Level{SKU: "A", OnHand: 2})
}

func TestShipmentEventsArePaged(t *testing.T) {
	inBubble(t, func(t *testing.T, s *wms.Sim) {
		for i := range 5 {
			pick(t, s, fmt.Sprint("o-", i), `{"sku":"A","quantity":1}`, http.StatusCreated)
		}
		after(time.Minute)
		page := labtest.Do[sim.Page[wms.Event]](t, s.Handler(), http.MethodGet, "/shipment-events?after=3&limit=4", "", http.StatusOK)
		if len(page.Items) != 4 || page.Items[0].Seq != 4 || !page.HasMore {
			t.Fatalf("page %+v", page)
		}
		for _, bad := range []string{"?after=x", "?after=-1", "?limit=0"} {
			labtest.Do[any](t, s.Handler(), http.MethodGet, "/shipment-events"+bad, "", http.StatusBadRequest)
		}
	}, wms.Level{SKU: "A", OnHand: 10})
}

func TestBadPickOrdersAreRefused(t *testing.T) {
	s := newWMS(t)
	pick(t, s, "", `{"sku":"A","quantity":1}`, http.StatusBadRequest)
	pick(t, s, "o", ``, http.StatusBadRequest)
	pick(t, s, "o", `{"sku":"A","quantity":0}`, http.StatusBadRequest)
	pick(t, s, "o", `{"sku":"","quantity":1}`, http.StatusBadRequest)
}

func TestAnOutageHoldsTheRegistrysDoorShutToo(t *testing.T) {
	s := newWMS(t)
	labtest.Turn(t, s.Handler(), `{"outage":true}`)
	if err := s.Pick(t.Context(), "o", []wms.Line{{SKU: "A", Quantity: 1}}); !errors.Is(err, wms.ErrClosed) {
		t.Fatalf("error %v", err)
	}
}

func TestBulkSetsManyLevels(t *testing.T) {
	s := newWMS(t, wms.Level{SKU: "A", OnHand: 1})
	labtest.Do[any](t, s.Handler(), http.MethodPost, "/_lab/stock/bulk", `{"items":[{"sku":"A","onHand":7},{"sku":"B","onHand":8}]}`, http.StatusOK)
	a, _ := s.OnHand("A")
	b, _ := s.OnHand("B")
	if a != 7 || b != 8 {
		t.Fatalf("levels %d %d", a, b)
	}
	labtest.Do[any](t, s.Handler(), http.MethodPost, "/_lab/stock/A/adjust", `{"by":-3}`, http.StatusOK)
	if n, _ := s.OnHand("A"); n != 4 {
		t.Fatalf("adjusted to %d", n)
	}
	labtest.Do[any](t, s.Handler(), http.MethodPut, "/_lab/stock/A", `{"onhand":null}`, http.StatusBadRequest)
}

func TestASnapshotTakesUpOpenPickOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newWMS(t, wms.Level{SKU: "A", OnHand: 10})
		pick(t, first, "done", `{"sku":"A","quantity":1}`, http.StatusCreated)
		after(2 * time.Second)
		pick(t, first, "open", `{"sku":"A","quantity":1}`, http.StatusCreated)
		first.Close()
		snap := first.Snapshot()
		second, err := wms.New(wms.Config{Snapshot: &snap})
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		after(time.Minute)
		c := counters(t, second)
		if c.Delivered != 2 || c.MaxDispatches != 1 || c.OnHandTotal != 8 || c.LastEventSeq != 4 {
			t.Fatalf("counters %+v", c)
		}
	})
}
