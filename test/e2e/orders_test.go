package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"andes/test/lab/gateway"
	"andes/test/lab/oms"
)

func TestAnOrderIsPaidRegisteredDispatchedAndDelivered(t *testing.T) {
	s := start(t, options{gateway: gateway.Knobs{DecideDelayMs: 50}})
	order := s.partner.order("tok_visa", line{"A", 2}, line{"C/1 x", 1}, line{"A", 3})
	if order.Status != "PENDING_PAYMENT" {
		t.Errorf("status %s", order.Status)
	}
	delivered := s.partner.await(order.OrderID, "DELIVERED")
	if delivered.OMSSync != "registered" {
		t.Errorf("omsSync %s", delivered.OMSSync)
	}
	s.partner.awaitAvailable("A", 995) // deducted once, although the WMS took the units off too
	s.awaitWebhooks(order.OrderID, "order.placed", "payment.approved", "order.confirmed", "order.dispatched", "order.delivered")
	s.traced(order.OrderID)
}

func TestARejectedPaymentGivesTheUnitsBackAndTellsThePartner(t *testing.T) {
	s := start(t, options{stock: map[string]int64{"A": 1}})
	order := s.partner.order("tok_reject", line{"A", 1})
	if got := s.partner.await(order.OrderID, "CANCELLED"); got.Reason != "PAYMENT_REJECTED" {
		t.Errorf("reason %s", got.Reason)
	}
	s.partner.awaitAvailable("A", 1)
	s.awaitWebhooks(order.OrderID, "order.placed", "payment.rejected", "order.cancelled")
	s.partner.await(s.partner.order("tok_visa", line{"A", 1}).OrderID, "DELIVERED") // the unit can be sold
}

func TestWebhooksOfTheGatewayMayBeLostDoubledOrForged(t *testing.T) {
	s := start(t, options{
		settings: map[string]string{"PAYMENT_INQUIRY": "1s"},
		gateway:  gateway.Knobs{DecideDelayMs: 50, DuplicateWebhooks: 5},
	})
	doubled := s.partner.order("tok_visa", line{"A", 1})
	s.partner.await(doubled.OrderID, "DELIVERED")
	silent := s.partner.order("tok_silent", line{"A", 1}) // no webhook comes; the gateway is asked
	s.partner.await(silent.OrderID, "DELIVERED")
	if err := s.lab.Payment.Turn(func(k *gateway.Knobs) { k.WrongSignature = true }); err != nil {
		t.Fatal(err)
	}
	forged := s.partner.order("tok_visa", line{"A", 1})
	s.partner.await(forged.OrderID, "DELIVERED") // by asking: the forged webhooks were refused
	for _, order := range []placed{doubled, silent, forged} {
		s.awaitWebhooks(order.OrderID, "order.placed", "payment.approved", "order.confirmed", "order.dispatched", "order.delivered")
	}
}

func TestWithoutAnyResultTheOrderExpiresAndALateApprovalIsRefunded(t *testing.T) {
	s := start(t, options{
		stock:    map[string]int64{"A": 1},
		settings: map[string]string{"PAYMENT_INQUIRY": "700ms", "PAYMENT_EXPIRY": "1500ms"},
		gateway:  gateway.Knobs{DecideDelayMs: 4000},
	})
	order := s.partner.order("tok_visa", line{"A", 1})
	if got := s.partner.await(order.OrderID, "CANCELLED"); got.Reason != "PAYMENT_EXPIRED" {
		t.Errorf("reason %s", got.Reason)
	}
	s.partner.awaitAvailable("A", 1)
	s.eventually("the late approval is refunded", func() error {
		if sums, _ := s.lab.Payment.Order(order.OrderID); sums.Approved != "2.55" || sums.Refunded != "2.55" {
			return fmt.Errorf("%+v", sums)
		}
		return nil
	})
	s.awaitWebhooks(order.OrderID, "order.placed", "order.cancelled", "payment.approved", "payment.refunded")
}

func TestCancellingIsIdempotentAndGivesMoneyAndUnitsBack(t *testing.T) {
	s := start(t, options{stock: map[string]int64{"A": 5}, gateway: gateway.Knobs{DecideDelayMs: 50}, wms: heldWarehouse()})
	early := s.partner.order("tok_pending", line{"A", 2}) // never decided
	confirmed := s.partner.order("tok_visa", line{"A", 3})
	s.partner.await(confirmed.OrderID, "CONFIRMED")
	if err := s.lab.Payment.Turn(func(k *gateway.Knobs) { k.DecideDelayMs = 0 }); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if got, err := s.partner.do(http.MethodPost, "/v1/orders/"+confirmed.OrderID+"/cancel", nil); err != nil || got.status != http.StatusOK {
				t.Errorf("cancel: %d %s %v", got.status, got.body, err)
			}
		})
	}
	all.Wait()
	s.partner.awaitAvailable("A", 3)
	s.eventually("the money is given back", func() error {
		if sums, _ := s.lab.Payment.Order(confirmed.OrderID); sums.Refunded != sums.Approved || sums.Refunds != 1 {
			return fmt.Errorf("%+v", sums)
		}
		return nil
	})
	// A charge that is never decided is asked for again and again: the fulfilment stays open, by design.
	s.partner.must(http.StatusOK, http.MethodPost, "/v1/orders/"+early.OrderID+"/cancel", nil, nil)
	s.partner.awaitAvailable("A", 5)
	s.stayOpen = append(s.stayOpen, early.OrderID)
}

func TestTheSameOrderSentInParallelHasOneEffect(t *testing.T) {
	s := start(t, options{instances: 2})
	key := uuid.NewString()
	body := orderBody("tok_visa", line{"A", 1})
	var all sync.WaitGroup
	var mu sync.Mutex
	ids, statuses := map[string]bool{}, map[int]int{}
	gate := make(chan struct{})
	for n := range 20 {
		all.Go(func() {
			<-gate
			got, err := s.partner.on(s.instances[n%2]).do(http.MethodPost, "/v1/orders", body, "Idempotency-Key", key)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			statuses[got.status]++
			if got.status == http.StatusAccepted {
				ids[string(got.body)] = true
			} else if got.code() != "REQUEST_IN_PROGRESS" || got.header.Get("Retry-After") == "" {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
	close(gate)
	all.Wait()
	again := s.partner.must(http.StatusAccepted, http.MethodPost, "/v1/orders", body, nil, "Idempotency-Key", key)
	ids[string(again.body)] = true
	if len(ids) != 1 || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("answers %v, statuses %v, replayed %q", ids, statuses, again.header.Get("Idempotent-Replayed"))
	}
	s.partner.awaitAvailable("A", 999)
}

func TestOneOfAHundredBuyersGetsTheLastUnit(t *testing.T) {
	s := start(t, options{instances: 2, stock: map[string]int64{"LAST": 1}})
	var all sync.WaitGroup
	var mu sync.Mutex
	counts := map[string]int{}
	for n := range 100 {
		all.Go(func() {
			got, err := s.partner.on(s.instances[n%2]).do(http.MethodPost, "/v1/orders", orderBody("tok_visa", line{"LAST", 1}), "Idempotency-Key", uuid.NewString())
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			counts[fmt.Sprint(got.status, got.code())]++
		})
	}
	all.Wait()
	if counts["202"] != 1 || counts["409INSUFFICIENT_STOCK"] != 99 {
		t.Errorf("answers %v", counts)
	}
}

func TestAnotherPartnersOrderIsLikeAnUnknownOne(t *testing.T) {
	s := start(t, options{})
	order := s.partner.order("tok_visa", line{"A", 1})
	stranger := s.newPartner("stranger")
	for _, request := range []struct{ method, suffix string }{{http.MethodGet, ""}, {http.MethodPost, "/cancel"}} {
		theirs := stranger.must(http.StatusNotFound, request.method, "/v1/orders/"+order.OrderID+request.suffix, nil, nil, "X-Correlation-Id", "c")
		unknown := stranger.must(http.StatusNotFound, request.method, "/v1/orders/"+uuid.NewString()+request.suffix, nil, nil, "X-Correlation-Id", "c")
		if !bytes.Equal(theirs.body, unknown.body) {
			t.Errorf("%s\n%s", theirs.body, unknown.body)
		}
	}
	s.partner.await(order.OrderID, "DELIVERED")
}

func TestTheOMSIsOutlastedAndRegistersOnce(t *testing.T) {
	s := start(t, options{gateway: gateway.Knobs{DecideDelayMs: 20}})
	if err := s.lab.OMS.Turn(func(k *oms.Knobs) { k.Outage = true }); err != nil {
		t.Fatal(err)
	}
	order := s.partner.order("tok_visa", line{"A", 1})
	if got := s.partner.await(order.OrderID, "CONFIRMED"); got.OMSSync != "pending" {
		t.Errorf("omsSync %s", got.OMSSync)
	}
	if err := s.lab.OMS.Turn(func(k *oms.Knobs) { k.Outage = false }); err != nil {
		t.Fatal(err)
	}
	s.partner.await(order.OrderID, "DELIVERED")
}

func TestNothingPersonalIsLogged(t *testing.T) {
	s := start(t, options{})
	marks := []string{"zz-mark@example.test", "4111111111111111", "Zz Mark", "+56 9 0000 0000"}
	body := orderBody("tok_"+marks[1], line{"A", 1})
	body["customer"] = map[string]string{"name": marks[2], "email": marks[0], "phone": marks[3]}
	var order placed
	s.partner.must(http.StatusAccepted, http.MethodPost, "/v1/orders", body, &order, "Idempotency-Key", "key-"+marks[0])
	s.acknowledged(order.OrderID)
	body["lines"] = []line{{marks[2], -1}}
	s.partner.must(http.StatusUnprocessableEntity, http.MethodPost, "/v1/orders", body, nil, "Idempotency-Key", "bad-"+marks[0])
	s.partner.await(order.OrderID, "DELIVERED")
	for _, mark := range append(marks, s.partner.token, gatewaySecret) {
		if strings.Contains(s.instances[0].logged(), mark) {
			t.Errorf("%q is in the log", mark)
		}
	}
}
