package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"andes/test/lab/gateway"
	"andes/test/lab/labtest"
	"andes/test/lab/receiver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// shop is a gateway that tells its webhooks to a receiver which verifies them.
type shop struct {
	t    *testing.T
	pay  *gateway.Sim
	recv *receiver.Sim
	h    http.Handler
}

func inBubble(t *testing.T, test func(s *shop)) {
	synctest.Test(t, func(t *testing.T) {
		recv, err := receiver.New(receiver.Config{Knobs: receiver.Knobs{Secret: secret}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(recv.Close)
		pay, err := gateway.New(gateway.Config{
			Knobs: &gateway.Knobs{
				DecideDelayMs: gateway.DefaultDecideDelayMs, WebhookSecret: secret, WebhookURL: "http://andes/webhooks",
			},
			Transport: labtest.Transport{Handler: recv.Handler()},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pay.Close)
		test(&shop{t: t, pay: pay, recv: recv, h: pay.Handler()})
	})
}

func (s *shop) charge(key, order, amount, token string, status int) map[string]string {
	s.t.Helper()
	body := fmt.Sprintf(`{"orderId":%q,"amount":%q,"currency":"GBP","token":%q}`, order, amount, token)
	return labtest.Do[map[string]string](s.t, s.h, http.MethodPost, "/charges", body, status, "Idempotency-Key", key)
}

func (s *shop) refund(key, chargeID, amount string, status int) map[string]string {
	s.t.Helper()
	body := fmt.Sprintf(`{"chargeId":%q,"orderId":"o-1","amount":%q,"currency":"GBP"}`, chargeID, amount)
	return labtest.Do[map[string]string](s.t, s.h, http.MethodPost, "/refunds", body, status, "Idempotency-Key", key)
}

func (s *shop) status(path string) map[string]string {
	s.t.Helper()
	return labtest.Do[map[string]string](s.t, s.h, http.MethodGet, path, "", http.StatusOK)
}

func (s *shop) after(d time.Duration) {
	time.Sleep(d) // of the bubble's clock
	synctest.Wait()
}

func (s *shop) counters() gateway.Counters {
	s.t.Helper()
	return labtest.Do[struct{ Business gateway.Counters }](s.t, s.h, http.MethodGet, "/_lab/stats", "", http.StatusOK).Business
}

func (s *shop) deliveries() []receiver.Delivery {
	all, _ := s.recv.DeliveriesAfter(0, 1000)
	return all
}

func TestAChargeIsApprovedAndToldBySignedWebhook(t *testing.T) {
	inBubble(t, func(s *shop) {
		made := s.charge("charge:o-1", "o-1", "12.30", "tok_visa", http.StatusAccepted)
		if made["status"] != "pending" || s.status("/charges/charge%3Ao-1")["status"] != "pending" {
			s.t.Fatalf("made %v", made)
		}
		s.after(300 * time.Millisecond)
		found := s.status("/charges/charge:o-1")
		if found["status"] != "approved" || found["chargeId"] != made["chargeId"] || found["orderId"] != "o-1" ||
			found["amount"] != "12.30" || found["currency"] != "GBP" {
			s.t.Fatalf("found %v", found)
		}
		got := s.deliveries()
		want := fmt.Sprintf(`{"data":{"chargeId":%q,"orderId":"o-1","amount":"12.30","currency":"GBP"},"timestamp":"2000-01-01T00:00:00.300Z","type":"charge.approved"}`, made["chargeId"])
		if len(got) != 1 || !got[0].Verified || got[0].Type != "charge.approved" || string(got[0].Body) != want {
			s.t.Fatalf("deliveries %+v", got)
		}
	})
}

func TestARepeatedKeyIsTheSameChargeAndAnotherBodyIsRefused(t *testing.T) {
	inBubble(t, func(s *shop) {
		a := s.charge("k", "o-1", "12.30", "tok_visa", http.StatusAccepted)
		s.after(time.Second)
		b := s.charge("k", "o-1", "12.30", "tok_visa", http.StatusAccepted)
		if a["chargeId"] != b["chargeId"] || a["status"] != b["status"] {
			s.t.Fatalf("%v and %v", a, b)
		}
		s.charge("k", "o-1", "12.31", "tok_visa", http.StatusUnprocessableEntity)
		s.charge("k", "o-2", "12.30", "tok_visa", http.StatusUnprocessableEntity)
		if c := s.counters(); c.Charges != 1 || c.MaxChargesPerOrder != 1 || c.RepeatedCharges != 1 || c.KeysReused != 2 {
			s.t.Fatalf("counters %+v", c)
		}
	})
}

func TestTwoKeysForOneOrderAreSeen(t *testing.T) {
	inBubble(t, func(s *shop) {
		s.charge("k1", "o-1", "12.30", "tok_visa", http.StatusAccepted)
		s.charge("k2", "o-1", "12.30", "tok_visa", http.StatusAccepted)
		s.after(time.Second)
		c := s.counters()
		sums, _ := s.pay.Order("o-1")
		if c.MaxChargesPerOrder != 2 || c.MaxApprovedPerOrder != 2 || c.OrdersChargedTwice[0] != "o-1" || sums.Approved != "24.60" {
			s.t.Fatalf("counters %+v, sums %+v", c, sums)
		}
	})
}

func TestTokensDecideTheFate(t *testing.T) {
	inBubble(t, func(s *shop) {
		s.charge("reject", "o-1", "1.00", "tok_reject_1", http.StatusAccepted)
		s.charge("silent", "o-2", "1.00", "tok_silent_1", http.StatusAccepted)
		s.charge("pending", "o-3", "1.00", "tok_pending_1", http.StatusAccepted)
		s.after(time.Hour)
		if got := s.status("/charges/reject"); got["status"] != "rejected" || got["reason"] != "card_declined" {
			s.t.Errorf("reject: %v", got)
		}
		if got := s.status("/charges/silent"); got["status"] != "approved" {
			s.t.Errorf("silent: %v", got)
		}
		if got := s.status("/charges/pending"); got["status"] != "pending" {
			s.t.Errorf("pending: %v", got)
		}
		got := s.deliveries()
		if len(got) != 1 || got[0].Type != "charge.rejected" || !strings.Contains(string(got[0].Body), `"reason":"card_declined"`) {
			s.t.Errorf("deliveries %+v", got)
		}
	})
}

func TestRejectRateRejectsThatShare(t *testing.T) {
	inBubble(t, func(s *shop) {
		labtest.Turn(s.t, s.h, `{"rejectRate":0.5,"decideDelayMs":0}`)
		for i := range 400 {
			s.charge(fmt.Sprint("k", i), fmt.Sprint("o", i), "1.00", "tok_visa", http.StatusAccepted)
		}
		s.after(time.Second)
		if c := s.counters(); c.ChargesByStatus["rejected"] < 150 || c.ChargesByStatus["rejected"] > 250 ||
			c.ChargesByStatus["approved"]+c.ChargesByStatus["rejected"] != 400 {
			s.t.Fatalf("counters %+v", c)
		}
	})
}

func TestRefundsReturnWhatWasTakenAndNoMore(t *testing.T) {
	inBubble(t, func(s *shop) {
		made := s.charge("k", "o-1", "12.30", "tok_visa", http.StatusAccepted)
		s.refund("r", made["chargeId"], "12.30", http.StatusUnprocessableEntity) // not approved yet
		s.after(time.Second)
		first := s.refund("r", made["chargeId"], "12.30", http.StatusAccepted)
		again := s.refund("r", made["chargeId"], "12.30", http.StatusAccepted)
		s.refund("r2", made["chargeId"], "0.01", http.StatusUnprocessableEntity)
		s.refund("r3", "ch_none", "0.01", http.StatusNotFound)
		if first["refundId"] != again["refundId"] || s.status("/refunds/r")["status"] != "pending" {
			s.t.Fatalf("%v %v", first, again)
		}
		s.after(time.Second)
		if got := s.status("/refunds/r"); got["status"] != "completed" || got["refundId"] != first["refundId"] {
			s.t.Fatalf("found %v", got)
		}
		sums, _ := s.pay.Order("o-1")
		if sums.Approved != "12.30" || sums.Refunded != "12.30" || sums.Refunds != 1 || sums.Charges != 1 {
			s.t.Fatalf("sums %+v", sums)
		}
		last := s.deliveries()[1]
		if last.Type != "refund.completed" || !strings.Contains(string(last.Body), first["refundId"]) {
			s.t.Fatalf("delivery %+v", last)
		}
		labtest.Do[any](s.t, s.h, http.MethodGet, "/refunds/none", "", http.StatusNotFound)
	})
}

func TestBadChargesAreRefused(t *testing.T) {
	inBubble(t, func(s *shop) {
		s.charge("", "o-1", "1.00", "tok", http.StatusBadRequest)
		s.charge(strings.Repeat("k", 257), "o-1", "1.00", "tok", http.StatusBadRequest)
		s.charge("k", "", "1.00", "tok", http.StatusBadRequest)
		s.charge("k", "o-1", "0.00", "tok", http.StatusBadRequest)
		s.charge("k", "o-1", "-1.00", "tok", http.StatusBadRequest)
		s.charge("k", "o-1", "1e3", "tok", http.StatusBadRequest)
		s.charge("k", "o-1", "1.00", "", http.StatusBadRequest)
		labtest.Do[any](s.t, s.h, http.MethodGet, "/charges/k", "", http.StatusNotFound)
	})
}

func TestDuplicateWebhooksCarryTheSameId(t *testing.T) {
	inBubble(t, func(s *shop) {
		labtest.Turn(s.t, s.h, `{"duplicateWebhooks":2}`)
		s.charge("k", "o-1", "1.00", "tok", http.StatusAccepted)
		s.after(time.Minute)
		c := s.recv.Counters()
		if c.Deliveries != 3 || c.Duplicates != 2 || c.DistinctID != 1 || c.ByType["charge.approved"] != 1 {
			s.t.Fatalf("receiver %+v", c)
		}
	})
}

func TestLostWebhooksAreNeverSent(t *testing.T) {
	inBubble(t, func(s *shop) {
		labtest.Turn(s.t, s.h, `{"lostWebhookRate":1}`)
		s.charge("k", "o-1", "1.00", "tok", http.StatusAccepted)
		s.after(time.Hour)
		if c := s.counters(); len(s.deliveries()) != 0 || c.Webhooks.Lost != 1 || c.ChargesByStatus["approved"] != 1 {
			s.t.Fatalf("counters %+v", c)
		}
	})
}

func TestLateWebhooksComeLate(t *testing.T) {
	inBubble(t, func(s *shop) {
		labtest.Turn(s.t, s.h, `{"lateWebhookMs":60000}`)
		s.charge("k", "o-1", "1.00", "tok", http.StatusAccepted)
		s.after(60 * time.Second)
		if len(s.deliveries()) != 0 {
			s.t.Fatal("too early")
		}
		s.after(300 * time.Millisecond)
		if len(s.deliveries()) != 1 {
			s.t.Fatal("not delivered")
		}
	})
}

func TestAWrongSignatureIsRefusedRepeatedFiveTimesAndGivenUp(t *testing.T) {
	inBubble(t, func(s *shop) {
		labtest.Turn(s.t, s.h, `{"wrongSignature":true}`)
		s.charge("k", "o-1", "1.00", "tok", http.StatusAccepted)
		s.after(time.Hour)
		c, r := s.counters(), s.recv.Counters()
		if r.Unverified != 6 || r.Verified != 0 || c.Webhooks.Attempts != 6 || c.Webhooks.GivenUp != 1 || c.Webhooks.ByStatus["401"] != 6 {
			s.t.Fatalf("receiver %+v, webhooks %+v", r, c.Webhooks)
		}
	})
}

func TestARefusedWebhookIsRepeatedWithBackoffUntilItIsTaken(t *testing.T) {
	inBubble(t, func(s *shop) {
		labtest.Turn(s.t, s.recv.Handler(), `{"status":500}`)
		s.charge("k", "o-1", "1.00", "tok", http.StatusAccepted)
		// Decided at 0.3 s; sent then, and 0.5, 1 and 2 s after each other.
		s.after(3700 * time.Millisecond)
		labtest.Turn(s.t, s.recv.Handler(), `{"status":0}`)
		if n := len(s.deliveries()); n != 3 {
			s.t.Fatalf("%d deliveries", n)
		}
		s.after(100 * time.Millisecond)
		s.after(time.Hour)
		got := s.deliveries()
		if len(got) != 4 || got[3].Status != http.StatusNoContent || got[3].ReceivedAt != "2000-01-01T00:00:03.800Z" || got[3].Duplicate {
			s.t.Fatalf("deliveries %+v", got)
		}
	})
}

func TestALostResponseStillCharges(t *testing.T) {
	inBubble(t, func(s *shop) {
		labtest.Turn(s.t, s.h, `{"responseLostRate":1}`)
		body := `{"orderId":"o-1","amount":"1.00","currency":"GBP","token":"tok"}`
		got := labtest.Call(s.t.Context(), s.h, http.MethodPost, "/charges", body, "Idempotency-Key", "k")
		if got.Status != labtest.Cut || s.counters().Charges != 1 {
			s.t.Fatalf("status %d", got.Status)
		}
	})
}

func TestTheTokenIsNowhereToBeSeen(t *testing.T) {
	inBubble(t, func(s *shop) {
		s.charge("k", "o-1", "1.00", "tok_very_secret", http.StatusAccepted)
		s.after(time.Second)
		for _, path := range []string{"/_lab/charges", "/_lab/orders", "/_lab/orders/o-1", "/_lab/stats", "/charges/k"} {
			if got := labtest.Call(s.t.Context(), s.h, http.MethodGet, path, ""); strings.Contains(string(got.Body), "very_secret") {
				s.t.Errorf("%s shows the token", path)
			}
		}
	})
}

func TestBadKnobsAreRefused(t *testing.T) {
	inBubble(t, func(s *shop) {
		for _, bad := range []string{
			`{"rejectRate":2}`, `{"duplicateWebhooks":-1}`, `{"duplicateWebhooks":21}`, `{"webhookURL":"ftp://x"}`,
			`{"webhookSecret":"whsec_***"}`, `{"lateWebhookMs":-1}`,
		} {
			labtest.Do[any](s.t, s.h, http.MethodPut, "/_lab/knobs", bad, http.StatusBadRequest)
		}
	})
}

func TestASnapshotTakesUpPendingCharges(t *testing.T) {
	inBubble(t, func(s *shop) {
		made := s.charge("k", "o-1", "1.00", "tok", http.StatusAccepted)
		s.pay.Close()
		snap := s.pay.Snapshot()
		second, err := gateway.New(gateway.Config{Snapshot: &snap})
		if err != nil {
			s.t.Fatal(err)
		}
		defer second.Close()
		s.h = second.Handler()
		s.after(time.Second)
		again := s.charge("k", "o-1", "1.00", "tok", http.StatusAccepted)
		sums, _ := second.Order("o-1")
		if again["chargeId"] != made["chargeId"] || sums.Approved != "1.00" || sums.Charges != 1 {
			s.t.Fatalf("sums %+v", sums)
		}
	})
}
