package order_test

import (
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"andes/commands/order"
	"andes/commands/reservation"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/test/memtest"
)

// machine drives a shop with three SKUs through anything that may happen to it.
type machine struct {
	*memtest.Store
	orders  []string
	wms     map[string]*wmsLevel
	lowered bool // the WMS took units away that were promised
}

// wmsLevel is a SKU as the WMS has it.
type wmsLevel struct{ onHand, version int64 }

var skus = []string{"A", "B", "C"}

// try runs a command that may be refused, but must not fail.
func (m *machine) try(t *rapid.T, command eventstore.Command) error {
	_, err := m.Execute(context.Background(), eventstore.Request{Command: command})
	if err != nil && eventstore.CodeOf(err) == "" {
		t.Fatalf("%#v: %v", command, err)
	}
	return err
}

func (m *machine) anOrder(t *rapid.T) string {
	if len(m.orders) == 0 {
		return "none"
	}
	return rapid.SampledFrom(m.orders).Draw(t, "order")
}

func (m *machine) Place(t *rapid.T) {
	id := fmt.Sprint("o-", len(m.orders))
	lines := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) order.RequestedLine {
		return memtest.Line(rapid.SampledFrom(skus).Draw(t, "sku"), rapid.Int64Range(1, 6).Draw(t, "quantity"))
	}), 1, 4).Draw(t, "lines")
	if m.try(t, memtest.Order(id, lines...)) == nil {
		m.orders = append(m.orders, id)
	}
}

func (m *machine) Confirm(t *rapid.T) { m.Do(t, confirm(m.anOrder(t))) }

func (m *machine) Cancel(t *rapid.T) {
	reason := rapid.SampledFrom([]order.Reason{order.PaymentExpired, order.PaymentRejected, order.CancelledByPartner}).Draw(t, "reason")
	_ = m.try(t, order.Cancel{OrderID: m.anOrder(t), Reason: reason})
}

// Settle lets the OMS answer a cancellation.
func (m *machine) Settle(t *rapid.T) {
	_ = m.try(t, order.SettleCancellation{OrderID: m.anOrder(t), Withdrawn: rapid.Bool().Draw(t, "withdrawn")})
}

// Ship lets the WMS take the units of a confirmed order off and tell so, once or twice.
func (m *machine) Ship(t *rapid.T) { m.ship(t, m.anOrder(t), rapid.Bool().Draw(t, "delivered")) }

func (m *machine) ship(t *rapid.T, id string, delivered bool) {
	state, _ := memtest.State(t, m.Store, order.Aggregate, id)
	ship := order.Ship{OrderID: id, Delivered: delivered, StockVersions: map[string]int64{}}
	if state.Status == order.Confirmed {
		for _, line := range state.Lines {
			level := m.wms[line.SKU]
			level.onHand -= line.Quantity
			level.version++
			ship.StockVersions[line.SKU] = level.version
		}
	}
	_ = m.try(t, ship)
}

func (m *machine) Report(t *rapid.T) {
	name := rapid.SampledFrom(skus).Draw(t, "sku")
	level := m.wms[name]
	m.Do(t, stock.Report{SKU: name, OnHand: level.onHand, SourceVersion: level.version})
}

func (m *machine) Restock(t *rapid.T) {
	level := m.wms[rapid.SampledFrom(skus).Draw(t, "sku")]
	level.onHand += rapid.Int64Range(1, 5).Draw(t, "units")
	level.version++
}

// Lose lets the WMS find units missing.
func (m *machine) Lose(t *rapid.T) {
	level := m.wms[rapid.SampledFrom(skus).Draw(t, "sku")]
	level.onHand -= rapid.Int64Range(1, 3).Draw(t, "units")
	level.version++
	m.lowered = true
}

// Check holds after every step: what is reserved of a SKU is what the held reservations say, and nothing
// is promised twice unless the WMS took units away.
func (m *machine) Check(t *rapid.T) {
	reserved := map[string]int64{}
	for _, id := range m.orders {
		held, _ := memtest.State(t, m.Store, reservation.Aggregate, id)
		placed, _ := memtest.State(t, m.Store, order.Aggregate, id)
		if want := reservationOf[placed.Status]; held.Status != want && !(want == reservation.Released && held.Status == reservation.Expired) {
			t.Fatalf("order %s is %s, its reservation %s", id, placed.Status, held.Status)
		}
		for _, line := range held.Lines {
			if held.Status == reservation.Held {
				reserved[line.SKU] += line.Quantity
			}
		}
	}
	for _, name := range skus {
		level, _ := memtest.State(t, m.Store, stock.Aggregate, name)
		if level.Reserved != reserved[name] {
			t.Fatalf("%d of %s are reserved, the reservations hold %d", level.Reserved, name, reserved[name])
		}
		if level.Net() < 0 && !m.lowered {
			t.Fatalf("%s was oversold: %+v", name, level)
		}
	}
}

var reservationOf = map[order.Status]reservation.Status{
	order.PendingPayment: reservation.Held,
	order.Confirmed:      reservation.Held,
	order.Dispatched:     reservation.Consumed,
	order.Delivered:      reservation.Consumed,
	order.Cancelled:      reservation.Released,
}

func TestNoUnitIsLostOrPromisedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{Store: memtest.OpenShop(t, map[string]int64{"A": 10, "B": 5, "C": 0}), wms: map[string]*wmsLevel{
			"A": {10, 1}, "B": {5, 1}, "C": {0, 1},
		}}
		t.Repeat(map[string]func(*rapid.T){
			"place": m.Place, "confirm": m.Confirm, "cancel": m.Cancel, "settle": m.Settle, "ship": m.Ship,
			"report": m.Report, "restock": m.Restock, "lose": m.Lose, "": m.Check,
		})
		for _, id := range m.orders {
			_ = m.try(t, order.Cancel{OrderID: id, Reason: order.CancelledByOps})
			m.Do(t, order.SettleCancellation{OrderID: id, Withdrawn: true})
			if state, _ := memtest.State(t, m.Store, order.Aggregate, id); state.Cancellation == order.CancellationRefused {
				m.ship(t, id, true) // what the warehouse was shipping arrives
			}
		}
		for _, name := range skus {
			want := m.wms[name]
			m.Do(t, stock.Report{SKU: name, OnHand: want.onHand, SourceVersion: want.version})
			if level, _ := memtest.State(t, m.Store, stock.Aggregate, name); level.Net() != want.onHand || level.Reserved != 0 {
				t.Fatalf("all is cancelled, but of %d units of %s %d are free", want.onHand, name, level.Net())
			}
		}
		m.CheckFolds(t)
	})
}
