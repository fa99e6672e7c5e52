package payment_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	adapter "andes/adapters/payment"
	"andes/commands/order"
	"andes/commands/payment"
	"andes/eventstore"
	"andes/test/lab/gateway"
	"andes/test/lab/labtest"
	"andes/test/legacytest"
)

type bench struct {
	*legacytest.Bench
	gateway *gateway.Sim
	handler http.Handler // may be replaced by a test
	log     *bytes.Buffer
	adapter *adapter.Adapter
}

func with(t *testing.T, knobs gateway.Knobs, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := gateway.New(gateway.Config{Knobs: &knobs})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b := &bench{Bench: legacytest.New(t), gateway: s, handler: s.Handler(), log: &bytes.Buffer{}}
		b.adapter, err = adapter.New(adapter.Config{
			URL:      "http://gateway",
			Caller:   b.Guard("payment", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.handler.ServeHTTP(w, r) })),
			Executor: b.Store, Reader: b.Store, Registry: b.Registry,
			Log: slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		if err != nil {
			t.Fatal(err)
		}
		test(t, b)
		if strings.Contains(b.log.String(), "tok") {
			t.Errorf("the token is in the log: %s", b.log)
		}
	})
}

func (b *bench) requested(orderID, token string) eventstore.Record {
	b.T.Helper()
	b.Place(orderID, "acme", "19.90", "USD", token)
	return b.RequestCharge(orderID, token)
}

func (b *bench) handle(record eventstore.Record) {
	b.T.Helper()
	if err := b.adapter.Handle(b.T.Context(), record); err != nil {
		b.T.Fatal(err)
	}
}

func (b *bench) inquire(orderID string) error {
	b.T.Helper()
	b.Do(func(u *eventstore.Unit) { payment.Inquire(u, orderID) })
	return b.adapter.Handle(b.T.Context(), b.Last("payment.inquiry_requested"))
}

func (b *bench) charges() []gateway.Charge {
	b.T.Helper()
	return labtest.Do[struct{ Items []gateway.Charge }](b.T, b.gateway.Handler(), "GET", "/_lab/charges?after=0&limit=1000", "", 200).Items
}

func (b *bench) refunds() []gateway.Refund {
	b.T.Helper()
	return labtest.Do[struct{ Items []gateway.Refund }](b.T, b.gateway.Handler(), "GET", "/_lab/refunds?after=0&limit=1000", "", 200).Items
}

func TestTheAmountSentHasItsCurrencysDecimals(t *testing.T) {
	for currency, amount := range map[string]string{"CLP": "1990", "JPY": "1234", "KWD": "1.234", "USD": "19.90"} {
		t.Run(currency, func(t *testing.T) {
			with(t, gateway.Knobs{}, func(t *testing.T, b *bench) {
				b.Place("o1", "acme", amount, currency, "tok_visa")
				b.handle(b.RequestCharge("o1", "tok_visa"))
				got := b.charges()
				if len(got) != 1 || got[0].Amount != amount || got[0].Currency != currency || got[0].Key != "charge:o1" {
					t.Errorf("charged %+v, want %s %s", got, amount, currency)
				}
			})
		})
	}
}

func TestARepeatedRequestChargesOnce(t *testing.T) {
	with(t, gateway.Knobs{}, func(t *testing.T, b *bench) {
		record := b.requested("o1", "tok_visa")
		labtest.Turn(t, b.gateway.Handler(), `{"responseLostRate":1}`)
		if err := b.adapter.Handle(t.Context(), record); eventstore.Classify(err) != eventstore.Transient || err == nil {
			t.Errorf("error %v", err)
		}
		labtest.Turn(t, b.gateway.Handler(), `{"responseLostRate":0}`)
		b.handle(record)
		b.handle(record)
		if got := b.charges(); len(got) != 1 {
			t.Errorf("charged %+v", got)
		}
	})
}

func TestAnInquiryFindsWhatTheWebhookDidNotTell(t *testing.T) {
	cases := map[string]payment.Status{"tok_silent_1": payment.Approved, "tok_reject_1": payment.Rejected, "tok_pending_1": payment.Requested}
	for token, want := range cases {
		t.Run(string(want), func(t *testing.T) {
			with(t, gateway.Knobs{}, func(t *testing.T, b *bench) {
				b.handle(b.requested("o1", token))
				time.Sleep(time.Minute)
				labtest.Turn(t, b.gateway.Handler(), `{"failureRate":1}`)
				if err := b.inquire("o1"); eventstore.Classify(err) != eventstore.Transient || err == nil {
					t.Errorf("error %v", err)
				}
				labtest.Turn(t, b.gateway.Handler(), `{"failureRate":0}`)
				for range 3 {
					if err := b.inquire("o1"); err != nil {
						t.Fatal(err)
					}
				}
				state := b.Payment("o1")
				if state.Status != want || state.Anomalies != 0 || want != payment.Requested && state.ChargeID != b.charges()[0].ChargeID {
					t.Errorf("the payment is %+v, want %s", state, want)
				}
			})
		})
	}
}

func TestAnInquirySendsAChargeThatNeverArrived(t *testing.T) {
	with(t, gateway.Knobs{}, func(t *testing.T, b *bench) {
		b.requested("o1", "tok_visa")
		if err := b.inquire("o1"); err != nil {
			t.Fatal(err)
		}
		if got := b.charges(); len(got) != 1 || got[0].Amount != "19.90" {
			t.Errorf("charged %+v", got)
		}
		time.Sleep(time.Minute)
		if err := b.inquire("o1"); err != nil {
			t.Fatal(err)
		}
		if state := b.Payment("o1"); state.Status != payment.Approved {
			t.Errorf("the payment is %+v", state)
		}
		if meta := b.Last("payment.approved").Meta; meta.CorrelationID != "corr-1" {
			t.Errorf("recorded with %+v", meta)
		}
	})
}

func TestACancelledOrderIsNotChargedLate(t *testing.T) {
	with(t, gateway.Knobs{}, func(t *testing.T, b *bench) {
		record := b.requested("o1", "tok_visa")
		b.Execute(order.Cancel{OrderID: "o1", Reason: order.PaymentExpired})
		b.handle(record)
		if state := b.Payment("o1"); state.Status != payment.Requested { // an earlier request may have reached the gateway
			t.Errorf("the payment is %+v", state)
		}
		for range 2 {
			if err := b.inquire("o1"); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.charges(); len(got) != 0 {
			t.Errorf("charged %+v", got)
		}
		if state := b.Payment("o1"); state.Status != payment.Rejected || state.Anomalies != 0 { // else its fulfilment never ends
			t.Errorf("the payment is %+v", state)
		}
	})
}

func TestACancelledOrderThatWasChargedIsAskedFor(t *testing.T) {
	with(t, gateway.Knobs{}, func(t *testing.T, b *bench) {
		b.handle(b.requested("o1", "tok_silent"))
		b.Execute(order.Cancel{OrderID: "o1", Reason: order.PaymentExpired})
		time.Sleep(time.Second)
		if err := b.inquire("o1"); err != nil {
			t.Fatal(err)
		}
		if state := b.Payment("o1"); state.Status != payment.Approved { // to be given back
			t.Errorf("the payment is %+v", state)
		}
	})
}

func TestACommandBackFromTheDLQGetsItsTokenFromTheStore(t *testing.T) {
	with(t, gateway.Knobs{}, func(t *testing.T, b *bench) {
		record := b.requested("o1", "tok_reject_this")
		declaration, _ := b.Registry.Declaration(record.Type)
		data, replaced, err := declaration.Redact(record.Data)
		if err != nil || len(replaced) != 1 {
			t.Fatal(err, replaced)
		}
		record.Data = data
		b.handle(record)
		time.Sleep(time.Second)
		if err := b.inquire("o1"); err != nil {
			t.Fatal(err)
		}
		if state := b.Payment("o1"); state.Status != payment.Rejected { // by its token
			t.Errorf("the payment is %+v", state)
		}
	})
}

func TestARefundIsMadeOnceAndFound(t *testing.T) {
	with(t, gateway.Knobs{}, func(t *testing.T, b *bench) {
		b.handle(b.requested("o1", "tok_silent"))
		time.Sleep(time.Second)
		if err := b.inquire("o1"); err != nil {
			t.Fatal(err)
		}
		b.Do(func(u *eventstore.Unit) { payment.RequestRefund(u, "o1") })
		record := b.Last("payment.refund_requested")
		if err := b.inquire("o1"); err != nil { // overtakes the command, which is still on its way
			t.Fatal(err)
		}
		b.handle(record)
		b.handle(record)
		time.Sleep(time.Second)
		for range 2 {
			if err := b.inquire("o1"); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.refunds(); len(got) != 1 || got[0].Amount != "19.90" || got[0].Key != "refund:o1" {
			t.Errorf("refunded %+v", got)
		}
		if state := b.Payment("o1"); state.Status != payment.Refunded || state.Anomalies != 0 || state.RefundID != b.refunds()[0].RefundID {
			t.Errorf("the payment is %+v", state)
		}
		b.handle(record)
	})
}

func (b *bench) answer(status int, body string) {
	b.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
}

func TestAnswersToACharge(t *testing.T) {
	cases := map[string]struct {
		status    int
		body      string
		want      payment.Status
		anomalies int
		class     eventstore.Class // where it fails
		fails     bool
	}{
		"pending":                             {status: 202, body: `{"chargeId":"c","status":"pending"}`, want: payment.Requested},
		"approved at once":                    {status: 200, body: `{"chargeId":"c","status":"approved"}`, want: payment.Approved},
		"approved with its amount":            {status: 200, body: `{"chargeId":"c","status":"approved","orderId":"o1","amount":"19.90","currency":"USD"}`, want: payment.Approved},
		"the same amount in fewer digits":     {status: 200, body: `{"chargeId":"c","status":"approved","amount":"19.9","currency":"USD"}`, want: payment.Approved},
		"rejected at once":                    {status: 200, body: `{"chargeId":"c","status":"rejected","reason":"card_declined"}`, want: payment.Rejected},
		"another amount is an anomaly":        {status: 200, body: `{"chargeId":"c","status":"approved","amount":"19.91","currency":"USD"}`, want: payment.Requested, anomalies: 1},
		"another currency is an anomaly":      {status: 200, body: `{"chargeId":"c","status":"approved","amount":"19.90","currency":"CAD"}`, want: payment.Requested, anomalies: 1},
		"an unreadable amount is one too":     {status: 200, body: `{"chargeId":"c","status":"approved","amount":"1,990","currency":"USD"}`, want: payment.Requested, anomalies: 1},
		"another order's charge":              {status: 200, body: `{"chargeId":"c","status":"approved","orderId":"o2"}`, want: payment.Requested, class: eventstore.Permanent, fails: true},
		"a status without a meaning":          {status: 200, body: `{"chargeId":"c","status":"shrug"}`, want: payment.Requested, class: eventstore.Permanent, fails: true},
		"a refused request":                   {status: 400, body: `{"error":"tok_visa is no token"}`, want: payment.Requested, class: eventstore.Permanent, fails: true},
		"a key that was used with other data": {status: 422, body: `{}`, want: payment.Requested, class: eventstore.Permanent, fails: true},
		"a charge at work":                    {status: 409, body: `{}`, want: payment.Requested, class: eventstore.Transient, fails: true},
		"missing access":                      {status: 401, body: `{}`, want: payment.Requested, class: eventstore.Transient, fails: true},
		"the gateway is down":                 {status: 503, body: `{}`, want: payment.Requested, class: eventstore.Transient, fails: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			with(t, gateway.Knobs{}, func(t *testing.T, b *bench) {
				record := b.requested("o1", "tok_visa")
				b.answer(c.status, c.body)
				err := b.adapter.Handle(t.Context(), record)
				if (err != nil) != c.fails || c.fails && eventstore.Classify(err) != c.class {
					t.Errorf("error %v is %s", err, eventstore.Classify(err))
				}
				if err != nil && strings.Contains(err.Error(), "tok_visa") {
					t.Errorf("the token is in the error: %v", err)
				}
				if state := b.Payment("o1"); state.Status != c.want || state.Anomalies != c.anomalies {
					t.Errorf("the payment is %+v, want %s", state, c.want)
				}
			})
		})
	}
}

func TestTheWebhookMayBeFasterThanTheAnswer(t *testing.T) {
	with(t, gateway.Knobs{}, func(t *testing.T, b *bench) {
		record := b.requested("o1", "tok_visa")
		b.handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			b.Execute(payment.Report{OrderID: "o1", Kind: payment.ChargeApproved, ChargeID: "c", Amount: b.Payment("o1").Amount})
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"chargeId":"c","status":"approved"}`)
		})
		b.handle(record)
		b.handle(record)
		if n := len(b.Events("payment.approved")); n != 1 || b.Payment("o1").Anomalies != 0 {
			t.Errorf("approved %d times, payment %+v", n, b.Payment("o1"))
		}
	})
}

func TestAForeignCommandIsPermanentlyRefused(t *testing.T) {
	with(t, gateway.Knobs{}, func(t *testing.T, b *bench) {
		b.requested("o1", "tok_visa")
		for _, eventType := range []string{"order.placed", "payment.requested"} {
			record := b.Last(eventType)
			if eventType == "payment.requested" {
				record.Data = json.RawMessage(`{`)
			}
			if err := b.adapter.Handle(t.Context(), record); eventstore.Classify(err) != eventstore.Permanent {
				t.Errorf("%s: error %v", eventType, err)
			}
		}
	})
}

func TestAStopIsNoFailure(t *testing.T) {
	with(t, gateway.Knobs{}, func(t *testing.T, b *bench) {
		record := b.requested("o1", "tok_visa")
		labtest.Turn(t, b.gateway.Handler(), `{"hang":true}`)
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		err := b.adapter.Handle(ctx, record)
		if eventstore.Classify(err) != eventstore.Shutdown {
			t.Errorf("error %v is %s", err, eventstore.Classify(err))
		}
		if fault := errors.Unwrap(err); fault == nil {
			t.Errorf("error %v hides its cause", err)
		}
	})
}
