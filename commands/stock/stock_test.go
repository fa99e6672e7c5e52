package stock_test

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"andes/commands/order"
	"andes/commands/sku"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/test/memtest"
)

func report(onHand, version int64) stock.Report {
	return stock.Report{SKU: "A", OnHand: onHand, SourceVersion: version, At: memtest.Start}
}

func level(t memtest.T, s *memtest.Store) stock.State {
	got, _ := memtest.State(t, s, stock.Aggregate, "A")
	return got
}

func TestOnlyANewerLevelCounts(t *testing.T) {
	s := memtest.Open(t)
	for _, c := range []struct{ onHand, version, want int64 }{
		{3, 7, 3}, {9, 5, 3}, {8, 7, 3}, {9, 0, 3}, {9, -1, 3}, {2, 8, 2}, {-4, 9, -4}, {10, 10, 10},
	} {
		s.Do(t, report(c.onHand, c.version))
		if got := level(t, s).OnHand; got != c.want {
			t.Errorf("after %d at version %d: %d, want %d", c.onHand, c.version, got, c.want)
		}
	}
	if got := s.Events(t, stock.Aggregate.Stream("A")); len(got) != 4 {
		t.Errorf("events %v", got)
	}
}

func TestLevelsThatAreNoneAreRefused(t *testing.T) {
	s := memtest.Open(t)
	s.Refused(t, report(math.MaxInt64, 1), stock.CodeInvalid)
	s.Refused(t, report(math.MinInt64, 1), stock.CodeInvalid)
	s.Refused(t, stock.Report{SKU: "SKU123 ", OnHand: 1, SourceVersion: 1}, sku.CodeInvalid)
}

// The WMS lowers a level below what is reserved: nothing more is sold, nothing is repaired by hand, and
// the next level makes it right.
// Field case STOCK-09.
func TestAnOversoldSKURecoversByItself(t *testing.T) {
	s := memtest.OpenShop(t, map[string]int64{"A": 5})
	s.Do(t, memtest.Order("o-1", memtest.Line("A", 5)))
	for version, onHand := range []int64{3, -2} {
		s.Do(t, report(onHand, int64(version+2)))
		if got := level(t, s).Net(); got != onHand-5 {
			t.Errorf("net %d with %d on hand", got, onHand)
		}
		s.Refused(t, memtest.Order("o-2", memtest.Line("A", 1)), "INSUFFICIENT_STOCK")
	}
	s.Do(t, report(10, 4))
	if got := level(t, s).Net(); got != 5 {
		t.Errorf("net %d after the recovery", got)
	}
	s.Do(t, memtest.Order("o-2", memtest.Line("A", 5)))
}

// confirm pays an order.
type confirm string

func (c confirm) Needs() []eventstore.Stream { return nil }
func (c confirm) Decide(u *eventstore.Unit) (any, error) {
	return order.Confirm(u, string(c)), nil
}

// warehouse is a history of one SKU as the WMS lived it: each change has a version and a level.
type warehouse struct {
	levels    []stock.Report
	shipments []order.Ship
	open      int64 // reserved units that never left
}

func anyWarehouse(t *rapid.T, s *memtest.Store) warehouse {
	const first = 50
	w := warehouse{levels: []stock.Report{report(first, 1)}}
	onHand := int64(first)
	for i := range rapid.IntRange(0, 5).Draw(t, "orders") {
		id := fmt.Sprint("o-", i)
		quantity := rapid.Int64Range(1, 5).Draw(t, "quantity")
		s.Do(t, memtest.Order(id, memtest.Line("A", quantity)))
		s.Do(t, confirm(id))
		if rapid.Bool().Draw(t, "restocked before") {
			onHand += rapid.Int64Range(1, 9).Draw(t, "units")
			w.levels = append(w.levels, report(onHand, int64(len(w.levels)+1)))
		}
		if !rapid.Bool().Draw(t, "dispatched") {
			w.open += quantity
			continue
		}
		onHand -= quantity
		w.levels = append(w.levels, report(onHand, int64(len(w.levels)+1)))
		w.shipments = append(w.shipments, order.Ship{OrderID: id, StockVersions: map[string]int64{"A": int64(len(w.levels))}})
	}
	return w
}

// Levels and shipments come by two feeds that know nothing of each other, some of them twice and some
// levels never. In the end no unit was subtracted twice or forgotten, and on the way none was promised
// that is not there.
func TestLevelsAndShipmentsMayCrossInAnyWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := memtest.OpenShop(t, map[string]int64{"A": 50})
		w := anyWarehouse(t, s)
		newest := w.levels[len(w.levels)-1]
		var told []eventstore.Command
		for _, l := range append(rapid.SliceOf(rapid.SampledFrom(w.levels)).Draw(t, "levels"), newest) {
			told = append(told, l)
		}
		for _, shipment := range w.shipments {
			for range rapid.IntRange(1, 2).Draw(t, "times") {
				told = append(told, shipment)
			}
		}
		want := newest.OnHand - w.open
		for _, command := range rapid.Permutation(told).Draw(t, "order") {
			s.Do(t, command)
			if net := level(t, s).Net(); net > want {
				t.Fatalf("after %+v: net %d, but only %d units are free", command, net, want)
			}
		}
		if got := level(t, s); got.Net() != want || got.Reserved != w.open || len(got.Shipped) != 0 {
			t.Fatalf("level %+v, want %d net", got, want)
		}
		s.CheckFolds(t)
	})
}

func TestNetNeverWrapsAround(t *testing.T) {
	s := memtest.Open(t)
	s.Do(t, report(-1<<50, 1))
	if got := level(t, s).Net(); got != -1<<50 {
		t.Errorf("net %d", got)
	}
}
