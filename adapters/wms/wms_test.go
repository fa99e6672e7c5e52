package wms_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"andes/adapters/wms"
	"andes/commands/order"
	"andes/commands/reservation"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/polling"
	"andes/test/lab/feed"
	"andes/test/lab/labtest"
	sim "andes/test/lab/wms"
	"andes/test/legacytest"
)

type bench struct {
	*legacytest.Bench
	wms     *sim.Sim
	handler http.Handler // may be replaced by a test
	adapter *wms.Adapter
	rejects map[string]eventstore.Code
}

func with(t *testing.T, cfg sim.Config, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := sim.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b := &bench{Bench: legacytest.New(t), wms: s, handler: s.Handler(), rejects: map[string]eventstore.Code{}}
		b.restart()
		test(t, b)
	})
}

func (b *bench) restart() {
	b.T.Helper()
	adapter, err := wms.New(wms.Config{
		URL:      "http://wms",
		Caller:   b.Guard("wms", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.handler.ServeHTTP(w, r) })),
		Executor: b.Store, Reader: b.Store, Lease: legacytest.Alone{}, Log: slog.New(slog.DiscardHandler), PageSize: 10,
		Rejects: func(_ context.Context, r polling.Reject) { b.rejects[r.ID] = r.Code },
	})
	if err != nil {
		b.T.Fatal(err)
	}
	b.adapter = adapter
}

func (b *bench) poll(p *polling.Poller) {
	b.T.Helper()
	if _, err := p.Poll(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

func (b *bench) stock(sku string) stock.State {
	b.T.Helper()
	return legacytest.StateOf(b.Bench, stock.Aggregate, sku)
}

func (b *bench) answer(body string) {
	b.handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	})
}

func TestLevelsAreReadAndFollowed(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var levels []feed.Row[sim.Level]
	for i := range 55 {
		levels = append(levels, sim.LevelRow(sim.Level{SKU: fmt.Sprint("S", i), OnHand: int64(i)}, at))
	}
	with(t, sim.Config{Stock: levels}, func(t *testing.T, b *bench) {
		b.poll(b.adapter.Stock)
		for i := range 55 {
			if got := b.stock(fmt.Sprint("S", i)); got.OnHand != int64(i) || got.SourceVersion != 1 {
				t.Errorf("S%d is %+v", i, got)
			}
		}
		for _, level := range []int64{3, -2, 10} {
			if _, err := b.wms.SetStock("S5", level); err != nil {
				t.Fatal(err)
			}
			b.poll(b.adapter.Stock)
			if got := b.stock("S5").OnHand; got != level {
				t.Errorf("S5 is %d, want %d", got, level)
			}
		}
	})
}

func TestALevelIsAWholeNumberOrRejected(t *testing.T) {
	with(t, sim.Config{}, func(t *testing.T, b *bench) {
		b.answer(`{"hasMore":false,"items":[
			{"sku":"A","onHand":5,"updatedAt":"2026-01-02T03:04:05Z","version":1},
			{"sku":"B","onHand":5.5,"updatedAt":"2026-01-02T03:04:05Z","version":1},
			{"sku":"C","onHand":5.0,"updatedAt":"2026-01-02T03:04:05Z","version":1},
			{"sku":"D","onHand":null,"updatedAt":"2026-01-02T03:04:05Z","version":1},
			{"sku":"E","updatedAt":"2026-01-02T03:04:05Z","version":1},
			{"sku":"F","onHand":"5","updatedAt":"2026-01-02T03:04:05Z","version":1},
			{"sku":"G","onHand":99999999999999999999,"updatedAt":"2026-01-02T03:04:05Z","version":1},
			{"sku":"H","onHand":9000000000000000000,"updatedAt":"2026-01-02T03:04:05Z","version":1},
			{"sku":"I","onHand":5,"updatedAt":1767323045000,"version":1},
			{"sku":" J","onHand":5,"updatedAt":"2026-01-02T03:04:05Z","version":1},
			{"sku":"K","onHand":5,"updatedAt":"2026-01-02T03:04:05Z","version":2}]}`)
		b.poll(b.adapter.Stock)
		if b.stock("A").OnHand != 5 || b.stock("K").OnHand != 5 {
			t.Errorf("A is %+v, K is %+v", b.stock("A"), b.stock("K"))
		}
		want := map[string]eventstore.Code{
			"B": wms.CodeRecordInvalid, "C": wms.CodeRecordInvalid, "D": wms.CodeRecordInvalid, "E": wms.CodeRecordInvalid,
			"F": wms.CodeRecordInvalid, "G": wms.CodeRecordInvalid, "H": stock.CodeInvalid, "I": wms.CodeRecordInvalid, " J": "SKU_INVALID",
		}
		if !maps.Equal(b.rejects, want) {
			t.Errorf("rejected: %v, want %v", b.rejects, want)
		}
	})
}

func TestAShipmentEndsTheReservationAndNoUnitIsCountedTwice(t *testing.T) {
	with(t, sim.Config{Stock: []feed.Row[sim.Level]{sim.LevelRow(sim.Level{SKU: "USD", OnHand: 100_000}, time.Now())}}, func(t *testing.T, b *bench) {
		b.Place("o1", "acme", "5.00", "USD", "tok")
		b.poll(b.adapter.Stock)
		b.Confirm("o1")
		if err := b.wms.Pick(t.Context(), "o1", []sim.Line{{SKU: "USD", Quantity: 1}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // dispatched
		b.poll(b.adapter.Shipments)
		dispatched := b.stock("USD")
		if got := b.Order("o1").Status; got != order.Dispatched {
			t.Errorf("the order is %s", got)
		}
		b.poll(b.adapter.Stock)
		if now := b.stock("USD"); now.Net() != dispatched.Net() || len(now.Shipped) != 0 {
			t.Errorf("net was %d after the dispatch and %d after the level: %+v", dispatched.Net(), now.Net(), now)
		}
		time.Sleep(4 * time.Second) // delivered
		b.poll(b.adapter.Shipments)
		b.poll(b.adapter.Shipments)
		if got := b.Order("o1").Status; got != order.Delivered {
			t.Errorf("the order is %s", got)
		}
		if got := legacytest.StateOf(b.Bench, reservation.Aggregate, "o1").Status; got != reservation.Consumed {
			t.Errorf("the reservation is %s", got)
		}
		if n := len(b.Events("order.dispatched")); n != 1 {
			t.Errorf("dispatched %d times", n)
		}
		if meta := b.Last("order.delivered").Meta; meta.CorrelationID != "corr-1" || meta.Actor != "wms" || meta.CausationID == "" {
			t.Errorf("recorded with %+v", meta)
		}
		if len(b.rejects) != 0 {
			t.Errorf("rejected: %v", b.rejects)
		}
	})
}

const (
	shipment = `{"seq":%d,"id":"e%d","orderRef":%q,"type":"DispatchStarted","at":"2026-01-02T03:04:05Z","lines":[{"sku":"USD","quantity":1,"stockVersion":2}]}`
	events   = `{"hasMore":false,"items":[` + shipment + `,` + shipment + `]}`
)

func TestAShipmentOfAnOrderThatIsNotConfirmedYetIsWaitedFor(t *testing.T) {
	with(t, sim.Config{}, func(t *testing.T, b *bench) {
		b.Place("early", "acme", "5.00", "USD", "tok")
		b.Place("other", "acme", "5.00", "USD", "tok")
		b.Confirm("other")
		reads := map[string]int{}
		b.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reads[r.URL.Query().Get("after")]++
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, events, 7, 7, "early", 8, 8, "other")
		})
		b.poll(b.adapter.Shipments)
		if got := b.Order("other").Status; got != order.Dispatched {
			t.Errorf("the order behind is %s", got)
		}
		b.restart()
		b.poll(b.adapter.Shipments)
		b.Confirm("early")
		b.poll(b.adapter.Shipments)
		if got := b.Order("early").Status; got != order.Dispatched {
			t.Errorf("the early one is %s", got)
		}
		b.answer(`{"hasMore":false,"items":[]}`)
		b.poll(b.adapter.Shipments)
		if len(b.rejects) != 0 {
			t.Errorf("rejected: %v", b.rejects)
		}
		if want := map[string]int{"0": 1, "6": 2}; !maps.Equal(reads, want) {
			t.Errorf("read after %v, want %v", reads, want)
		}
	})
}

func TestAShipmentOfNoOrderIsRejectedInTheEndAndHoldsUpNobody(t *testing.T) {
	with(t, sim.Config{}, func(t *testing.T, b *bench) {
		b.Place("other", "acme", "5.00", "USD", "tok")
		b.Confirm("other")
		b.answer(fmt.Sprintf(events, 1, 1, "nobody's", 2, 2, "other"))
		for i := range wms.DefaultShipmentPolls {
			if len(b.rejects) != 0 {
				t.Errorf("rejected after %d polls: %v", i, b.rejects)
			}
			b.poll(b.adapter.Shipments)
		}
		if !maps.Equal(b.rejects, map[string]eventstore.Code{"e1": order.CodeNotFound}) {
			t.Errorf("rejected: %v", b.rejects)
		}
		if got := b.Order("other").Status; got != order.Dispatched {
			t.Errorf("the order behind is %s", got)
		}
	})
}

func TestGoodsOfACancelledOrderAreACaseForAPersonAtOnce(t *testing.T) {
	with(t, sim.Config{}, func(t *testing.T, b *bench) {
		b.Place("o1", "acme", "5.00", "USD", "tok")
		b.Confirm("o1")
		b.Execute(order.Cancel{OrderID: "o1", Reason: order.CancelledByPartner})
		b.Execute(order.SettleCancellation{OrderID: "o1", Withdrawn: true})
		b.answer(fmt.Sprintf(`{"hasMore":false,"items":[`+shipment+`]}`, 1, 1, "o1"))
		b.poll(b.adapter.Shipments)
		if !maps.Equal(b.rejects, map[string]eventstore.Code{"e1": order.CodeShippedAfterCancel}) {
			t.Errorf("rejected: %v", b.rejects)
		}
	})
}

func TestEventsThatBreakTheContract(t *testing.T) {
	with(t, sim.Config{}, func(t *testing.T, b *bench) {
		b.answer(`{"hasMore":false,"items":[{"seq":2,"id":"a","orderRef":"x","type":"DispatchStarted"},{"seq":1,"id":"b","orderRef":"y","type":"DispatchStarted"}]}`)
		if _, err := b.adapter.Shipments.Poll(t.Context()); err == nil {
			t.Error("numbers that fall were accepted")
		}
		b.answer(`{"hasMore":true,"items":[]}`)
		if _, err := b.adapter.Shipments.Poll(t.Context()); err == nil {
			t.Error("more without anything was accepted")
		}
		b.answer(`{"hasMore":false,"items":[{"seq":1,"id":"a","orderRef":"x","type":"Lost"},{"id":"b","orderRef":"y","type":"DispatchStarted"},"nonsense"]}`)
		b.poll(b.adapter.Shipments)
		want := map[string]eventstore.Code{"a": wms.CodeRecordInvalid, "b": wms.CodeRecordInvalid, "seq 0": wms.CodeRecordInvalid}
		if !maps.Equal(b.rejects, want) {
			t.Errorf("rejected: %v, want %v", b.rejects, want)
		}
	})
}

func TestItFollowsAWarehouseThroughFaults(t *testing.T) {
	with(t, sim.Config{Stock: []feed.Row[sim.Level]{sim.LevelRow(sim.Level{SKU: "USD", OnHand: 1000}, time.Now())}}, func(t *testing.T, b *bench) {
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- b.adapter.Run(ctx) }()
		labtest.Turn(t, b.wms.Handler(), `{"failureRate":0.3,"responseLostRate":0.2,"latencyMs":20}`)
		const orders = 60
		for i := range orders {
			id := fmt.Sprint("o", i)
			b.Place(id, "acme", "5.00", "USD", "tok")
			b.Confirm(id)
			for b.wms.Pick(t.Context(), id, []sim.Line{{SKU: "USD", Quantity: 1}}) != nil {
				time.Sleep(time.Second)
			}
			time.Sleep(700 * time.Millisecond)
			if i == 20 {
				labtest.Turn(t, b.wms.Handler(), `{"hang":true}`)
				time.AfterFunc(20*time.Second, func() { labtest.Turn(t, b.wms.Handler(), `{"hang":false}`) })
			}
		}
		labtest.Turn(t, b.wms.Handler(), `{"failureRate":0,"responseLostRate":0}`)
		time.Sleep(time.Minute)
		for i := range orders {
			if got := b.Order(fmt.Sprint("o", i)).Status; got != order.Delivered {
				t.Errorf("o%d is %s", i, got)
			}
		}
		left, _ := b.wms.OnHand("USD")
		if got := b.stock("USD"); got.OnHand != left || got.Reserved != 0 || len(got.Shipped) != 0 || left != 1000-orders {
			t.Errorf("the stock is %+v, the warehouse has %d", got, left)
		}
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}
