package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"andes/test/lab/gateway"
)

// Marks of a person, a card and a secret, as they may come in anywhere.
var marks = []string{"zz-mark@example.test", "+56 9 0000 0000", "Zz Mark", "Mark Street 1", "4111111111111111"}

func TestNothingPersonalIsLogged(t *testing.T) {
	var refused atomic.Bool
	s := start(t, options{
		gateway: gateway.Knobs{DecideDelayMs: 20}, allow: allowed{anomalies: 1},
		oms: func(registry http.Handler) http.Handler { // its errors repeat what they were told, and more
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if refused.CompareAndSwap(false, true) {
					http.Error(w, "customer "+strings.Join(marks, ", "), http.StatusInternalServerError)
					return
				}
				registry.ServeHTTP(w, r)
			})
		},
	})
	s.secrets = append(s.secrets, marks...)
	body := orderBody("tok_"+marks[4], line{"A", 1})
	body["customer"] = map[string]string{"name": marks[2], "email": marks[0], "phone": marks[1], "address": marks[3]}
	var order placed
	s.partner.must(http.StatusAccepted, http.MethodPost, "/v1/orders", body, &order, "Idempotency-Key", "key "+marks[0], "X-Buyer", marks[2])
	s.acknowledged(order.OrderID)
	s.partner.await(order.OrderID, "DELIVERED")

	body["lines"] = []line{{marks[2], -1}}
	s.partner.must(http.StatusUnprocessableEntity, http.MethodPost, "/v1/orders", body, nil, "Idempotency-Key", "bad "+marks[0])
	for _, request := range []struct {
		method, path string
		body         any
		headers      []string
	}{
		{http.MethodPost, "/v1/orders", raw(`{"customer":{"email":"` + marks[0] + `"`), []string{"Idempotency-Key", marks[0]}},
		{http.MethodPost, "/v1/orders", body, nil},
		{http.MethodPost, webhookPath, map[string]string{"email": marks[0], "card": marks[4]}, []string{"webhook-id", marks[0], "webhook-signature", "v1," + marks[2]}},
		{http.MethodGet, "/v1/stock?sku=" + url.QueryEscape(marks[0]) + "&email=" + url.QueryEscape(marks[0]), nil, nil},
		{http.MethodGet, "/v1/orders/" + url.PathEscape(marks[0]), nil, []string{"X-Correlation-Id", marks[0]}},
		{http.MethodGet, "/v1/" + url.PathEscape(marks[0]), nil, []string{"Authorization", "Bearer " + marks[4]}},
		{"MARK" + uuid.NewString()[:4], "/v1/orders", nil, []string{"Authorization", marks[0]}},
	} {
		if _, err := s.partner.do(request.method, request.path, request.body, request.headers...); err != nil {
			t.Error(err)
		}
	}
	broken := reportOf("charge.approved "+marks[0], order.OrderID, marks[4], marks[1])
	if _, err := s.report(broken, gatewaySecret, 0); err != nil {
		t.Error(err)
	}
	metrics := s.partner.must(http.StatusOK, http.MethodGet, "/metrics", nil, nil)
	for _, mark := range s.secrets {
		if strings.Contains(string(metrics.body), mark) {
			t.Errorf("%q is in the metrics", mark)
		}
	}
	if !refused.Load() {
		t.Error("the OMS was not asked")
	}
}
