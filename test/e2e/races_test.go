package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"andes/test/lab/gateway"
	"andes/test/lab/wms"
)

// Things that happen at the same moment. Each round may end one way or the other; the invariants tell
// whether it ended well: units are given back once, and what was taken is the total or was given back.

// endings counts how the orders ended.
func (s *scene) endings() map[string]int {
	s.t.Helper()
	counts := map[string]int{}
	for _, order := range s.texts("SELECT status || ' ' || coalesce(reason, '') FROM orders") {
		counts[order]++
	}
	return counts
}

func TestAnApprovalAtTheMomentOfExpiryIsEitherOrBoth(t *testing.T) {
	s := start(t, options{
		settings: map[string]string{"PAYMENT_INQUIRY": "1500ms", "PAYMENT_EXPIRY": "1200ms"},
		gateway:  gateway.Knobs{DecideDelayMs: 1400},
	})
	const rounds = 30
	var all sync.WaitGroup
	for n := range rounds {
		all.Go(func() {
			<-time.After(time.Duration(n) * 25 * time.Millisecond) // deadlines are looked for twice a second
			s.partner.order("tok_visa", line{"A", 1})
		})
	}
	all.Wait()
	s.settle()
	t.Logf("endings %v", s.endings())
}

// chargedOrClosed waits until the gateway knows of the order's charge or, on a slow machine, the order has
// ended before anybody asked for one, maybe not before an inquiry.
func (s *scene) chargedOrClosed(orderID string) (charged bool) {
	s.t.Helper()
	err := s.waitFor(func() error {
		err := s.charged(orderID)
		charged = err == nil
		if s.count(`SELECT count(*) FROM states WHERE category = 'fulfilment' AND key = $1 AND state ->> 'phase' = 'CLOSED'`, orderID) > 0 {
			return nil
		}
		return err
	})
	if err != nil {
		s.t.Errorf("order %s is neither charged nor closed: %v", orderID, err)
	}
	return charged
}

func TestUnitsAreGivenBackOnceWhateverEndsTheOrder(t *testing.T) {
	s := start(t, options{
		stock:    map[string]int64{"A": 20},
		settings: map[string]string{"PAYMENT_INQUIRY": "10s", "PAYMENT_EXPIRY": "1s"},
	})
	const rounds = 20
	var all sync.WaitGroup
	for n := range rounds {
		all.Go(func() {
			order := s.partner.order("tok_pending", line{"A", 1})
			if !s.chargedOrClosed(order.OrderID) {
				return // nobody rejects what nobody asked for
			}
			<-time.After(700*time.Millisecond + time.Duration(n)*40*time.Millisecond) // around its expiry
			for range 3 {
				all.Go(func() {
					if got, err := s.report(reportOf("charge.rejected", order.OrderID, "ch_1", "2.55"), gatewaySecret, 0); err != nil || got.status != http.StatusNoContent {
						t.Errorf("report: %d %s %v", got.status, got.body, err)
					}
				})
			}
			if got, err := s.partner.do(http.MethodPost, "/v1/orders/"+order.OrderID+"/cancel", nil); err != nil || got.status != http.StatusOK {
				t.Errorf("cancel: %d %s %v", got.status, got.body, err)
			}
		})
	}
	all.Wait()
	s.settle()
	s.partner.awaitAvailable("A", 20)
	t.Logf("endings %v", s.endings())
}

func TestACancellationCrossesTheDispatch(t *testing.T) {
	s := start(t, options{
		gateway: gateway.Knobs{DecideDelayMs: 10}, wms: &wms.Knobs{DispatchDelayMs: 300, DeliveryDelayMs: 200},
	})
	const rounds = 30
	var all sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]int{}
	for range rounds {
		all.Go(func() {
			order := s.partner.order("tok_visa", line{"A", 1})
			err := s.waitFor(func() error {
				if got, err := s.partner.get(order.OrderID); err != nil || got.Status == "PENDING_PAYMENT" {
					return fmt.Errorf("%+v %w", got, err)
				}
				return nil
			})
			<-time.After(rand.N(700 * time.Millisecond))
			got, failed := s.partner.do(http.MethodPost, "/v1/orders/"+order.OrderID+"/cancel", nil)
			if err != nil || failed != nil || got.status/100 != 2 && got.code() != "ORDER_NOT_CANCELLABLE" {
				t.Errorf("cancel: %d %s %v %v", got.status, got.body, err, failed)
			}
			mu.Lock()
			answers[fmt.Sprint(got.status)]++
			mu.Unlock()
		})
	}
	all.Wait()
	s.settle()
	t.Logf("answers %v, endings %v", answers, s.endings())
	// Either way it is the whole: the money of what left is kept, the money of what stayed is given back.
	orders := s.orders()
	for _, pick := range s.lab.WMS.Snapshot().Picks {
		if left := pick.Status == wms.Dispatched || pick.Status == wms.Delivered; left && orders[pick.OrderRef].Status == "CANCELLED" {
			t.Errorf("order %s was shipped although it is cancelled", pick.OrderRef)
		}
	}
}
