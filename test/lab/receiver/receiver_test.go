package receiver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"andes/test/lab/labtest"
	"andes/test/lab/receiver"
	"andes/test/lab/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	other  = "whsec_b3RoZXIgc2VjcmV0IG9mIHRoaXMgdGVzdA=="
)

func newReceiver(t *testing.T) *receiver.Sim {
	t.Helper()
	return newReceiverOf(t, receiver.Config{})
}

func newReceiverOf(t *testing.T, cfg receiver.Config) *receiver.Sim {
	t.Helper()
	cfg.Knobs.Secret = secret
	s, err := receiver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func deliver(t *testing.T, s *receiver.Sim, id, with string, status int) {
	t.Helper()
	deliverAt(t, s, id, with, time.Now(), status)
}

func deliverAt(t *testing.T, s *receiver.Sim, id, with string, at time.Time, status int) {
	t.Helper()
	body := fmt.Sprintf(`{"type":"order.placed","data":{"id":%q}}`, id)
	signer, err := standardwebhooks.NewWebhook(with)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := signer.Sign(id, at, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	labtest.Do[any](t, s.Handler(), http.MethodPost, "/webhooks", body, status,
		"webhook-id", id, "webhook-timestamp", fmt.Sprint(at.Unix()), "webhook-signature", signature, "X-Correlation-Id", "c-1")
}

func TestAVerifiedDeliveryIsKept(t *testing.T) {
	s := newReceiver(t)
	deliver(t, s, "m-1", secret, http.StatusNoContent)
	page := labtest.Do[sim.Page[receiver.Delivery]](t, s.Handler(), http.MethodGet, "/_lab/deliveries", "", http.StatusOK)
	d := page.Items[0]
	if d.Seq != 1 || d.ID != "m-1" || d.Type != "order.placed" || !d.Verified || d.Duplicate || d.CorrelationID != "c-1" ||
		string(d.Body) != `{"type":"order.placed","data":{"id":"m-1"}}` {
		t.Fatalf("delivery %+v", d)
	}
}

func TestAWrongOldOrMissingSignatureIs401(t *testing.T) {
	s := newReceiver(t)
	deliver(t, s, "m-1", other, http.StatusUnauthorized)
	deliverAt(t, s, "m-2", secret, time.Now().Add(-time.Hour), http.StatusUnauthorized)
	labtest.Do[any](t, s.Handler(), http.MethodPost, "/webhooks", `{"type":"x"}`, http.StatusUnauthorized)
	if c := s.Counters(); c.Unverified != 3 || c.Verified != 0 || c.Accepted != 0 || len(c.ByType) != 0 {
		t.Fatalf("counters %+v", c)
	}
}

func TestTwoSecretsAreGoodWhileOneIsRotated(t *testing.T) {
	s := newReceiver(t)
	labtest.Turn(t, s.Handler(), fmt.Sprintf(`{"secret":"%s %s"}`, secret, other))
	deliver(t, s, "m-1", secret, http.StatusNoContent)
	deliver(t, s, "m-2", other, http.StatusNoContent)
}

func TestARepeatedIdIsADuplicateOnlyIfItWasAccepted(t *testing.T) {
	s := newReceiver(t)
	labtest.Turn(t, s.Handler(), `{"status":503}`)
	deliver(t, s, "m-1", secret, http.StatusServiceUnavailable)
	labtest.Turn(t, s.Handler(), `{"status":0}`)
	deliver(t, s, "m-1", secret, http.StatusNoContent)
	if c := s.Counters(); c.Duplicates != 0 || c.ByType["order.placed"] != 1 {
		t.Fatalf("counters %+v", c)
	}
	deliver(t, s, "m-1", secret, http.StatusNoContent)
	if c := s.Counters(); c.Duplicates != 1 || c.ByType["order.placed"] != 1 || c.DistinctID != 1 || c.Deliveries != 3 {
		t.Fatalf("counters %+v", c)
	}
}

func TestTheOrderIsKnownEvenIfTheBodyIsTooLongToKeep(t *testing.T) {
	s := newReceiver(t)
	body := `{"type":"order.placed","sequence":7,"data":{"orderId":"o-1","lines":"` + strings.Repeat("x", 300_000) + `"}}`
	labtest.Do[any](t, s.Handler(), http.MethodPost, "/webhooks", body, http.StatusUnauthorized)
	got, _ := s.DeliveriesAfter(0, 1)
	if got[0].OrderID != "o-1" || got[0].Sequence != 7 || got[0].Body != nil {
		t.Fatalf("order %q, sequence %d, %d bytes", got[0].OrderID, got[0].Sequence, len(got[0].Body))
	}
}

func TestLongBodiesPushOutTheOldest(t *testing.T) {
	s := newReceiverOf(t, receiver.Config{KeepBytes: 1000})
	body := `{"type":"` + strings.Repeat("x", 290) + `"}`
	for range 10 {
		labtest.Call(t.Context(), s.Handler(), http.MethodPost, "/webhooks", body)
	}
	if kept, _ := s.DeliveriesAfter(0, 100); len(kept) != 3 || kept[0].Seq != 8 {
		t.Fatalf("%d kept", len(kept))
	}
}

func TestTheRingForgetsTheOldest(t *testing.T) {
	s := newReceiverOf(t, receiver.Config{Keep: 50})
	for i := range 60 {
		deliver(t, s, fmt.Sprint(i), secret, http.StatusNoContent)
	}
	first, more := s.DeliveriesAfter(0, 1)
	if c := s.Counters(); first[0].Seq != 11 || !more || c.Deliveries != 60 || c.DistinctID != 50 {
		t.Fatalf("first %+v, counters %+v", first, c)
	}
}

func TestResetForgetsTheDeliveries(t *testing.T) {
	s := newReceiver(t)
	deliver(t, s, "m-1", secret, http.StatusNoContent)
	labtest.Do[any](t, s.Handler(), http.MethodPost, "/_lab/reset", "", http.StatusNoContent)
	if c := s.Counters(); c.Deliveries != 0 || c.DistinctID != 0 || c.LastSeq != 1 {
		t.Fatalf("counters %+v", c)
	}
}

func TestBadKnobsAreRefused(t *testing.T) {
	s := newReceiver(t)
	for _, bad := range []string{`{"status":99}`, `{"status":600}`, `{"secret":"whsec_!"}`} {
		labtest.Do[any](t, s.Handler(), http.MethodPut, "/_lab/knobs", bad, http.StatusBadRequest)
	}
}
