package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"andes/adapters/postgres"
	"andes/commands/order"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/test/pgtest"
)

// oversold lists all SKUs that are, and checks that as many are counted.
func oversold(t *testing.T, db *postgres.DB) []stock.Oversold {
	t.Helper()
	list, err := db.Oversold(t.Context(), "", 100)
	if err != nil {
		t.Fatal(err)
	}
	if count, err := db.CountOversold(t.Context()); err != nil || count != int64(len(list)) {
		t.Errorf("%d are counted, %v, and %d listed", count, err, len(list))
	}
	return list
}

// The WMS lowers a level below what orders hold, then below zero, then sends none at all: operators see by how much and
// which orders it is about, until a level comes that suffices.
// Field case STOCK-09.
func TestAnOversoldSKUIsListedWithItsOrdersUntilItRecovers(t *testing.T) {
	t.Parallel()
	store := pgtest.Store(t, pgtest.Config(t), pgtest.Registry(t))
	shop(t, store, 5, "A", "B")
	execute(t, store, place("o-1", 5, "A"))
	execute(t, store, place("o-2", 5, "B"))
	at := time.Now().UTC().Truncate(time.Millisecond).Add(-time.Minute)
	if list := oversold(t, store.DB); len(list) != 0 {
		t.Errorf("before anything is: %+v", list)
	}
	for _, step := range []struct {
		told             eventstore.Command
		onHand, oversold int64 // 0: it is not
		doubted          bool
	}{
		{stock.Report{SKU: "A", OnHand: 3, SourceVersion: 2, At: at}, 3, 2, false},
		{stock.Report{SKU: "A", OnHand: -2, SourceVersion: 3, At: at}, -2, 7, false},
		{stock.Doubt{SKU: "A", SourceVersion: 4, Code: "RECORD_INVALID", At: at.Add(time.Second)}, -2, 7, true},
		{stock.Report{SKU: "A", OnHand: 10, SourceVersion: 5, At: at.Add(2 * time.Second)}, 10, 0, false},
	} {
		execute(t, store, step.told)
		list := oversold(t, store.DB)
		if step.oversold == 0 {
			if len(list) != 0 {
				t.Errorf("after %+v: %+v", step.told, list)
			}
			continue
		}
		if len(list) != 1 {
			t.Fatalf("after %+v: %+v", step.told, list)
		}
		got := list[0]
		if got.SKU != "A" || got.OnHand != step.onHand || got.Reserved != 5 || got.Shipped != 0 || got.Oversold != step.oversold || !got.LevelAt.Equal(at) || got.DoubtedAt.IsZero() == step.doubted {
			t.Errorf("after %+v: %+v", step.told, got)
		}
		if len(got.Orders) != 1 || got.Orders[0].OrderID != "o-1" || got.Orders[0].Quantity != 5 || got.Orders[0].HeldAt.IsZero() || got.More {
			t.Errorf("after %+v, the orders are %+v, more %t", step.told, got.Orders, got.More)
		}
	}
	execute(t, store, place("o-3", 5, "A")) // what came is sold
}

// Only orders that still hold units are told, the newest first and no more than a bound.
// Field case STOCK-09.
func TestTheOrdersOfAnOversoldSKUAreThoseThatStillHoldIt(t *testing.T) {
	t.Parallel()
	const orders, shown = 60, 50
	store := pgtest.Store(t, pgtest.Config(t), pgtest.Registry(t))
	shop(t, store, orders, "A", "B/1", "C")
	execute(t, store, place("b", 1, "B/1"))
	for i := range orders {
		execute(t, store, place(fmt.Sprintf("o-%02d", i), 1, "A"))
	}
	execute(t, store, order.Cancel{OrderID: "o-59", Reason: order.CancelledByPartner})
	for _, sku := range []string{"A", "B/1", "C"} { // nothing is held of C
		execute(t, store, stock.Report{SKU: sku, OnHand: -1, SourceVersion: 2, At: time.Now()})
	}
	list := oversold(t, store.DB)
	if len(list) != 2 || list[0].SKU != "A" || list[0].Oversold != orders || len(list[0].Orders) != shown || !list[0].More {
		t.Fatalf("%+v", list)
	}
	for i, holder := range list[0].Orders {
		if want := fmt.Sprintf("o-%02d", orders-2-i); holder.OrderID != want {
			t.Fatalf("order %d is %s, want %s", i, holder.OrderID, want)
		}
	}
	if b := list[1]; b.SKU != "B/1" || len(b.Orders) != 1 || b.Orders[0].OrderID != "b" || b.More {
		t.Errorf("%+v", b)
	}
	for after, want := range map[string]string{"": "A", "A": "B/1", "B/1": ""} {
		page, err := store.Oversold(t.Context(), after, 1)
		if err != nil || (want == "") != (len(page) == 0) || want != "" && page[0].SKU != want {
			t.Errorf("after %q: %+v, %v", after, page, err)
		}
	}
}
