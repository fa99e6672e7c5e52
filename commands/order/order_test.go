package order_test

import (
	"fmt"
	"slices"
	"testing"

	"andes/commands/order"
	"andes/commands/reservation"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/test/memtest"
)

// confirm is what the fulfilment does when an order is paid.
type confirm string

func (c confirm) Needs() []eventstore.Stream { return nil }
func (c confirm) Decide(u *eventstore.Unit) (any, error) {
	return order.Confirm(u, string(c)), nil
}

var (
	place    = memtest.Order("o-1", memtest.Line("A", 3))
	paid     = confirm("o-1")
	register = order.Register{OrderID: "o-1", OMSID: "oms-1"}
	dispatch = order.Ship{OrderID: "o-1", StockVersions: map[string]int64{"A": 2}}
	deliver  = order.Ship{OrderID: "o-1", Delivered: true, StockVersions: map[string]int64{"A": 2}}
	byShop   = order.Cancel{OrderID: "o-1", Partner: memtest.Partner, Reason: order.CancelledByPartner}
	expire   = order.Cancel{OrderID: "o-1", Reason: order.PaymentExpired}
	reject   = order.Cancel{OrderID: "o-1", Reason: order.PaymentRejected}

	withdrawn = order.SettleCancellation{OrderID: "o-1", Withdrawn: true}
	tooLate   = order.SettleCancellation{OrderID: "o-1"}
)

func state(t memtest.T, s *memtest.Store) order.State {
	got, _ := memtest.State(t, s, order.Aggregate, "o-1")
	return got
}

// free is what can still be sold of A, and what the order's reservation has become.
func free(t memtest.T, s *memtest.Store) (int64, reservation.Status) {
	level, _ := memtest.State(t, s, stock.Aggregate, "A")
	held, _ := memtest.State(t, s, reservation.Aggregate, "o-1")
	return level.Net(), held.Status
}

func TestCancellingIsAllowedUntilDispatch(t *testing.T) {
	for name, c := range map[string]struct {
		before []eventstore.Command
		cancel order.Cancel
		reason order.Reason
		units  reservation.Status
	}{
		"pending, by the partner":  {nil, byShop, order.CancelledByPartner, reservation.Released},
		"pending, expired":         {nil, expire, order.PaymentExpired, reservation.Expired},
		"pending, rejected":        {nil, reject, order.PaymentRejected, reservation.Released},
		"cancelled before":         {[]eventstore.Command{expire}, byShop, order.PaymentExpired, reservation.Expired},
		"cancelled by its partner": {[]eventstore.Command{byShop}, reject, order.CancelledByPartner, reservation.Released},
	} {
		t.Run(name, func(t *testing.T) {
			s := memtest.OpenShop(t, map[string]int64{"A": 10})
			for _, command := range append([]eventstore.Command{place}, c.before...) {
				s.Do(t, command)
			}
			for range 3 {
				if got := s.Do(t, c.cancel).(order.State); got.Status != order.Cancelled || got.Reason != c.reason {
					t.Errorf("order %+v", got)
				}
			}
			if net, units := free(t, s); net != 10 || units != c.units {
				t.Errorf("%d units free, reservation %s", net, units)
			}
			if s.Do(t, paid) != false {
				t.Error("a cancelled order was confirmed")
			}
			cancelled := slices.DeleteFunc(s.Events(t, order.Aggregate.Stream("o-1")), func(name string) bool { return name != "order.cancelled" })
			if len(cancelled) != 1 {
				t.Errorf("it was cancelled %d times", len(cancelled))
			}
			s.CheckFolds(t)
		})
	}
}

// A confirmed order may be shipped until the OMS has withdrawn it: nothing of it is given back before.
func TestAConfirmedOrderIsCancelledWhenTheOMSHasWithdrawnIt(t *testing.T) {
	for name, before := range map[string][]eventstore.Command{"confirmed": {place, paid}, "registered": {place, paid, register}} {
		t.Run(name, func(t *testing.T) {
			s := memtest.OpenShop(t, map[string]int64{"A": 10})
			for _, command := range before {
				s.Do(t, command)
			}
			for range 3 {
				if got := s.Do(t, byShop).(order.State); got.Status != order.Confirmed || got.Cancellation != order.CancellationRequested {
					t.Errorf("order %+v", got)
				}
			}
			if net, units := free(t, s); net != 7 || units != reservation.Held {
				t.Errorf("%d units free, reservation %s", net, units)
			}
			for range 3 {
				if got := s.Do(t, withdrawn).(order.State); got.Status != order.Cancelled || got.Reason != order.CancelledByPartner || got.Cancellation != "" {
					t.Errorf("order %+v", got)
				}
			}
			if net, units := free(t, s); net != 10 || units != reservation.Released {
				t.Errorf("%d units free, reservation %s", net, units)
			}
			events := s.Events(t, order.Aggregate.Stream("o-1"))
			if got := events[len(events)-2:]; !slices.Equal(got, []string{"order.cancellation_requested", "order.cancelled"}) {
				t.Errorf("events %v", events)
			}
			s.CheckFolds(t)
		})
	}
}

func TestAnOrderWhoseCancellationComesTooLateGoesOn(t *testing.T) {
	for name, steps := range map[string][]eventstore.Command{
		"the OMS says so":                      {tooLate, dispatch},
		"the warehouse is heard first":         {dispatch, tooLate},
		"the OMS withdrew what was dispatched": {dispatch, withdrawn},
	} {
		t.Run(name, func(t *testing.T) {
			s := memtest.OpenShop(t, map[string]int64{"A": 10})
			for _, command := range slices.Concat([]eventstore.Command{place, paid, register, byShop}, steps) {
				s.Do(t, command)
			}
			if got := state(t, s); got.Status != order.Dispatched || got.Cancellation != order.CancellationRefused || got.Reason != "" {
				t.Errorf("order %+v", got)
			}
			if net, units := free(t, s); net != 7 || units != reservation.Consumed {
				t.Errorf("%d units free, reservation %s", net, units)
			}
			s.Refused(t, byShop, order.CodeNotCancellable)
			s.CheckFolds(t)
		})
	}
}

func TestARefusedCancellationIsNotAskedForAgain(t *testing.T) {
	s := memtest.OpenShop(t, map[string]int64{"A": 10})
	for _, command := range []eventstore.Command{place, paid, register, byShop, tooLate, tooLate} {
		s.Do(t, command)
	}
	s.Refused(t, byShop, order.CodeNotCancellable)
	if got := state(t, s); got.Status != order.Confirmed || got.Cancellation != order.CancellationRefused {
		t.Errorf("order %+v", got)
	}
}

func TestACancellationThatNobodyRequestedIsNotSettled(t *testing.T) {
	for name, before := range map[string][]eventstore.Command{"unknown": nil, "pending": {place}, "confirmed": {place, paid}} {
		t.Run(name, func(t *testing.T) {
			s := memtest.OpenShop(t, map[string]int64{"A": 10})
			for _, command := range slices.Concat(before, []eventstore.Command{withdrawn, tooLate}) {
				s.Do(t, command)
			}
			if got := state(t, s); got.Status == order.Cancelled || got.Cancellation != "" {
				t.Errorf("order %+v", got)
			}
		})
	}
}

func TestWhatLeftTheWarehouseCanNotBeCancelled(t *testing.T) {
	for name, shipped := range map[string]eventstore.Command{"dispatched": dispatch, "delivered": deliver} {
		t.Run(name, func(t *testing.T) {
			s := memtest.OpenShop(t, map[string]int64{"A": 10})
			for _, command := range []eventstore.Command{place, paid, shipped} {
				s.Do(t, command)
			}
			s.Refused(t, byShop, order.CodeNotCancellable)
			if net, units := free(t, s); net != 7 || units != reservation.Consumed {
				t.Errorf("%d units free, reservation %s", net, units)
			}
		})
	}
}

func TestAnotherPartnersOrderIsLikeAnUnknownOne(t *testing.T) {
	s := memtest.OpenShop(t, map[string]int64{"A": 10})
	s.Do(t, place)
	foreign := s.Refused(t, order.Cancel{OrderID: "o-1", Partner: "other"}, order.CodeNotFound)
	unknown := s.Refused(t, order.Cancel{OrderID: "o-2", Partner: "other"}, order.CodeNotFound)
	if foreign.Error() != unknown.Error() || foreign.Problems != nil || foreign.Extra != nil {
		t.Errorf("%+v and %+v can be told apart", foreign, unknown)
	}
}

// The warehouse's reports come twice, late and in the wrong order.
func TestReportsOfTheWarehouseConverge(t *testing.T) {
	for i, reports := range [][]eventstore.Command{
		{dispatch, deliver}, {deliver, dispatch}, {deliver}, {dispatch, dispatch, deliver, deliver}, {deliver, deliver, dispatch},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			s := memtest.OpenShop(t, map[string]int64{"A": 10})
			for _, command := range slices.Concat([]eventstore.Command{place, paid, register}, reports) {
				s.Do(t, command)
			}
			if got := state(t, s).Status; got != order.Delivered {
				t.Errorf("status %s", got)
			}
			events := s.Events(t, order.Aggregate.Stream("o-1"))
			if got := events[len(events)-2:]; !slices.Equal(got, []string{"order.dispatched", "order.delivered"}) || len(events) != 6 {
				t.Errorf("events %v", events)
			}
			if net, units := free(t, s); net != 7 || units != reservation.Consumed {
				t.Errorf("%d units free, reservation %s", net, units)
			}
		})
	}
}

func TestGoodsThatMustNotHaveLeftAreACaseForAPerson(t *testing.T) {
	for name, c := range map[string]struct {
		before []eventstore.Command
		code   eventstore.Code
	}{
		"of an unknown order":    {nil, order.CodeNotFound},
		"of an unpaid order":     {[]eventstore.Command{place}, order.CodeOrderInvalid},
		"of a cancelled order":   {[]eventstore.Command{place, byShop}, order.CodeShippedAfterCancel},
		"of an order given back": {[]eventstore.Command{place, paid, register, byShop, withdrawn}, order.CodeShippedAfterCancel},
	} {
		t.Run(name, func(t *testing.T) {
			s := memtest.OpenShop(t, map[string]int64{"A": 10})
			for _, command := range c.before {
				s.Do(t, command)
			}
			s.Refused(t, dispatch, c.code)
			s.Refused(t, deliver, c.code)
		})
	}
}

func TestAnOrderIsConfirmedAndRegisteredOnce(t *testing.T) {
	s := memtest.OpenShop(t, map[string]int64{"A": 10})
	s.Refused(t, register, order.CodeNotFound)
	if s.Do(t, paid) != false {
		t.Error("an unknown order was confirmed")
	}
	s.Do(t, place)
	for range 2 {
		if s.Do(t, paid) != true {
			t.Error("the order was not confirmed")
		}
	}
	if got := state(t, s); got.Status != order.Confirmed || got.OMSSync != order.OMSPending {
		t.Errorf("order %+v", got)
	}
	for range 2 {
		s.Do(t, register)
	}
	s.Do(t, paid)
	if got := state(t, s); got.OMSSync != order.OMSRegistered || got.OMSID != "oms-1" {
		t.Errorf("order %+v", got)
	}
	want := []string{"order.placed", "order.confirmed", "order.registration_requested", "order.registered"}
	if got := s.Events(t, order.Aggregate.Stream("o-1")); !slices.Equal(got, want) {
		t.Errorf("events %v", got)
	}
}
