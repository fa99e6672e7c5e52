package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"andes/test/lab/gateway"
	"andes/test/lab/receiver"
)

// story is what a partner is told of an order that goes well.
var story = []string{"order.placed", "payment.approved", "order.confirmed", "order.dispatched", "order.delivered"}

// webhookBody is what the partner reads.
type webhookBody struct {
	Type     string
	Time     string
	Sequence int64
}

// inOrder gives the types of an order's webhooks by the time in them, and checks that the sequence of the
// order's own stream rises with it.
func (s *scene) inOrder(orderID string) (types []string) {
	s.t.Helper()
	var bodies []webhookBody
	deliveries, _ := s.lab.Receiver.DeliveriesAfter(0, deliveriesPage)
	for _, delivery := range deliveries {
		var body webhookBody
		if err := json.Unmarshal(delivery.Body, &body); err != nil {
			s.t.Fatal(err)
		}
		if delivery.OrderID == orderID {
			bodies = append(bodies, body)
		}
	}
	slices.SortStableFunc(bodies, func(a, b webhookBody) int { return strings.Compare(a.Time, b.Time) })
	sequence := int64(0)
	for _, body := range bodies {
		types = append(types, body.Type)
		if !strings.HasPrefix(body.Type, "order.") {
			continue
		}
		if body.Sequence <= sequence {
			s.t.Errorf("%s has sequence %d after %d", body.Type, body.Sequence, sequence)
		}
		sequence = body.Sequence
	}
	return types
}

func TestAnOrderIsPaidRegisteredDispatchedAndDelivered(t *testing.T) {
	s := start(t, options{gateway: gateway.Knobs{DecideDelayMs: 50}})
	order := s.partner.order("tok_visa", line{"A", 2}, line{"C/1 x", 1}, line{"A", 3})
	if order.Status != "PENDING_PAYMENT" || order.Total.Amount != "15.30" {
		t.Errorf("placed as %+v", order)
	}
	delivered := s.partner.await(order.OrderID, "DELIVERED")
	if delivered.OMSSync != "registered" {
		t.Errorf("omsSync %s", delivered.OMSSync)
	}
	s.partner.awaitAvailable("A", 995) // deducted once, although the WMS took the units off too
	s.tells(order.OrderID, story...)
	if got := s.inOrder(order.OrderID); !slices.Equal(got, story) {
		t.Errorf("told in the order %v", got)
	}
	if registered := s.lab.OMS.Snapshot().Orders; len(registered) != 1 || len(registered[0].Lines) != 3 || registered[0].Total != "15.30" {
		t.Errorf("the OMS has %+v", registered)
	}
}

// Each role alone, as it is deployed at scale; an order's correlation id goes through all of them.
func TestRolesInProcessesOfTheirOwnFulfilAnOrder(t *testing.T) {
	s := start(t, options{
		apart:   []string{"query", "command", "relay,projector", "saga", "erp,wms", "oms", "payment", "webhook"},
		gateway: gateway.Knobs{DecideDelayMs: 50},
	})
	var order placed
	const correlation = "e2e-correlation-1"
	s.partner.must(http.StatusAccepted, http.MethodPost, "/v1/orders", orderBody("tok_visa", line{"A", 1}), &order,
		"Idempotency-Key", uuid.NewString(), "X-Correlation-Id", correlation)
	s.acknowledged(order.OrderID)
	s.partner.await(order.OrderID, "DELIVERED")
	s.tells(order.OrderID, story...)
	for role, wanted := range map[string]logLine{
		"command": {Message: "http request", Route: "POST /v1/orders"},
		"saga":    {Message: "fulfilment advanced"},
		"payment": {Message: "the gateway will tell later"},
		"oms":     {Message: "order registered"},
		"webhook": {Message: "webhook delivered"},
	} {
		s.expectLine(role, wanted, correlation)
	}
	s.expectLine("command", logLine{Message: "http request", Route: "POST /v1/payment-webhooks/generic"}, correlation)
	deliveries, _ := s.lab.Receiver.DeliveriesAfter(0, deliveriesPage)
	for _, delivery := range deliveries {
		if delivery.CorrelationID != correlation {
			t.Errorf("webhook %s has the correlation id %q", delivery.Type, delivery.CorrelationID)
		}
	}
}

// expectLine finds a line of the log of the process with a role.
func (s *scene) expectLine(role string, wanted logLine, correlation string) {
	s.t.Helper()
	wanted.Level, wanted.CorrelationID = "INFO", correlation
	for _, i := range s.running() {
		if i.has(role) && slices.Contains(i.lines(), wanted) {
			return
		}
	}
	s.t.Errorf("role %s: no line %+v", role, wanted)
}

func TestARejectedPaymentGivesTheUnitsBackAndTellsThePartner(t *testing.T) {
	s := start(t, options{stock: map[string]int64{"A": 1}})
	order := s.partner.order("tok_reject", line{"A", 1})
	if got := s.partner.await(order.OrderID, "CANCELLED"); got.Reason != "PAYMENT_REJECTED" {
		t.Errorf("reason %s", got.Reason)
	}
	s.partner.awaitAvailable("A", 1)
	s.tells(order.OrderID, "order.placed", "payment.rejected", "order.cancelled")
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
	s.turnGateway(func(k *gateway.Knobs) { k.WrongSignature = true })
	forged := s.partner.order("tok_visa", line{"A", 1})
	s.partner.await(forged.OrderID, "DELIVERED") // by asking: the forged webhooks were refused
	for _, order := range []placed{doubled, silent, forged} {
		s.tells(order.OrderID, story...)
	}
	if refused := s.lab.Payment.Webhooks().ByStatus["401"]; refused == 0 {
		t.Error("no forged webhook was refused")
	}
}

func TestAForgedWebhookLeavesNothingBehind(t *testing.T) {
	s := start(t, options{})
	order := s.partner.order("tok_pending", line{"A", 1})
	s.eventually("the charge is requested", func() error { return s.charged(order.OrderID) })
	quiet := "SELECT count(*) FROM events WHERE split_part(stream, '/', 1) NOT IN ('source')"
	before := s.count(quiet)
	report := reportOf("charge.approved", order.OrderID, "ch_1", "2.55")
	for name, send := range map[string]func() (answer, error){
		"another secret": func() (answer, error) {
			return s.report(report, "whsec_bm90IHRoZSBzZWNyZXQgdGhhdCB3YXMgYWdyZWVkIG9u", 0)
		},
		"an old one":   func() (answer, error) { return s.report(report, gatewaySecret, -6*60) },
		"no signature": func() (answer, error) { return s.partner.do(http.MethodPost, webhookPath, report) },
		"a changed body": func() (answer, error) {
			return s.reportAs(report, reportOf("charge.approved", order.OrderID, "ch_1", "0.01"))
		},
		"another's order": func() (answer, error) {
			return s.report(reportOf("charge.approved", uuid.NewString(), "ch_1", "2.55"), "whsec_MTIz", 0)
		},
	} {
		if got, err := send(); err != nil || got.status != http.StatusUnauthorized || got.code() != "SIGNATURE_INVALID" {
			t.Errorf("%s: %d %s %v", name, got.status, got.body, err)
		}
	}
	if got := s.count(quiet); got != before {
		t.Errorf("%d events became %d", before, got)
	}
	if got, err := s.report(reportOf("charge.rejected", order.OrderID, "ch_1", "2.55"), gatewaySecret, 0); err != nil || got.status != http.StatusNoContent {
		t.Errorf("the signed one: %d %s %v", got.status, got.body, err)
	}
	s.partner.await(order.OrderID, "CANCELLED")
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
	s.awaitRefund(order.OrderID)
	s.tells(order.OrderID, "order.placed", "order.cancelled", "payment.approved", "payment.refunded")
}

func TestCancellingIsIdempotentAndGivesMoneyAndUnitsBack(t *testing.T) {
	s := start(t, options{stock: map[string]int64{"A": 10}, gateway: gateway.Knobs{DecideDelayMs: 50}, wms: heldWarehouse()})
	early := s.partner.order("tok_pending", line{"A", 2}) // never decided
	confirmed := s.partner.order("tok_visa", line{"A", 3}, line{"A", 2})
	s.partner.await(confirmed.OrderID, "CONFIRMED")
	s.eventually("it is registered", func() error {
		if got, err := s.partner.get(confirmed.OrderID); err != nil || got.OMSSync != "registered" {
			return fmt.Errorf("%+v %w", got, err)
		}
		return nil
	})
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if got, err := s.partner.do(http.MethodPost, "/v1/orders/"+confirmed.OrderID+"/cancel", nil); err != nil || got.status/100 != 2 {
				t.Errorf("cancel: %d %s %v", got.status, got.body, err)
			}
		})
	}
	all.Wait()
	s.partner.await(confirmed.OrderID, "CANCELLED")
	s.partner.awaitAvailable("A", 8)
	s.awaitRefund(confirmed.OrderID)
	s.tells(confirmed.OrderID, "order.placed", "payment.approved", "order.confirmed", "order.cancelled", "payment.refunded")
	s.eventually("the OMS has cancelled it", func() error {
		if registered := s.lab.OMS.Snapshot().Orders; len(registered) != 1 || registered[0].Status != "cancelled" {
			return fmt.Errorf("%+v", registered)
		}
		return nil
	})
	// A charge that is never decided is asked for again and again: the fulfilment stays open, by design.
	s.partner.must(http.StatusOK, http.MethodPost, "/v1/orders/"+early.OrderID+"/cancel", nil, nil)
	s.partner.awaitAvailable("A", 10)
	s.stayOpen = append(s.stayOpen, early.OrderID)
}

func TestAPaymentThatFitsNoOrderIsKeptForAPerson(t *testing.T) {
	s := start(t, options{gateway: gateway.Knobs{DecideDelayMs: 50}, allow: allowed{anomalies: 3}})
	order := s.partner.order("tok_visa", line{"A", 1})
	s.partner.await(order.OrderID, "DELIVERED")
	for _, report := range []any{
		reportOf("charge.approved", uuid.NewString(), "ch_9", "2.55"),  // of an order that nobody knows
		reportOf("charge.approved", order.OrderID, "ch_9", "2.55"),     // a second payment
		reportOf("charge.rejected", order.OrderID, "ch_other", "2.55"), // of an order that is delivered
	} {
		if got, err := s.report(report, gatewaySecret, 0); err != nil || got.status != http.StatusNoContent {
			t.Errorf("%d %s %v", got.status, got.body, err)
		}
	}
	if got, err := s.partner.get(order.OrderID); err != nil || got.Status != "DELIVERED" {
		t.Errorf("%+v %v", got, err)
	}
}

func TestAWebhookReceiverThatFailsIsToldAgain(t *testing.T) {
	s := start(t, options{gateway: gateway.Knobs{DecideDelayMs: 50}, allow: allowed{repeats: true}})
	turn := func(status int) {
		if err := s.lab.Receiver.Turn(func(k *receiver.Knobs) { k.Status = status }); err != nil {
			t.Fatal(err)
		}
	}
	turn(http.StatusServiceUnavailable)
	order := s.partner.order("tok_visa", line{"A", 1})
	s.eventually("a webhook was refused", func() error {
		if counters := s.lab.Receiver.Counters(); counters.Deliveries == 0 {
			return fmt.Errorf("%+v", counters)
		}
		return nil
	})
	turn(0)
	s.partner.await(order.OrderID, "DELIVERED")
	s.tells(order.OrderID, story...)
}
