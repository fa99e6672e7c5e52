package httpapi

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"andes/commands/money"
	"andes/commands/order"
	"andes/commands/payment"
	"andes/eventstore"
)

const hookPath = "/v1/payment-webhooks/generic"

// requested asks for an order's payment, as the process manager does.
type requested struct{ id string }

func (r requested) Needs() []eventstore.Stream {
	return []eventstore.Stream{payment.Aggregate.Stream(r.id)}
}

func (r requested) Decide(u *eventstore.Unit) (any, error) {
	payment.Aggregate.Append(u, r.id, payment.ChargeRequested{OrderID: r.id, Partner: "acme", Amount: money.Money{Minor: 255, Currency: "GBP"}, Token: "t", At: u.Now()})
	return nil, nil
}

// paying places an order and asks for its payment.
func (e *edge) paying() string {
	e.t.Helper()
	id := e.placed(newTestID(), smallOrder, correlationHeader, "of-the-order")
	e.do(requested{id})
	return id
}

func approval(id string) string {
	return `{"type":"charge.approved","timestamp":"2026-11-27T12:00:00.000Z","data":{"chargeId":"ch_1","orderId":"` + id + `","amount":"2.55","currency":"GBP"}}`
}

// signed sends a webhook as an independent implementation signs it.
func (e *edge) signed(body string, headers ...string) reply {
	e.t.Helper()
	return e.signedAt(e.clock(), body, headers...)
}

func (e *edge) signedAt(at time.Time, body string, headers ...string) reply {
	e.t.Helper()
	signer, err := standardwebhooks.NewWebhook(testSecret)
	if err != nil {
		e.t.Fatal(err)
	}
	signature, err := signer.Sign("msg_1", at, []byte(body))
	if err != nil {
		e.t.Fatal(err)
	}
	all := append([]string{"-Authorization", "", "webhook-id", "msg_1", "webhook-timestamp", fmt.Sprint(at.Unix()), "webhook-signature", signature}, headers...)
	return e.ask(http.MethodPost, hookPath, body, all...)
}

func (e *edge) payment(id string) payment.State {
	e.t.Helper()
	state, _, err := stateOf(e.shelf, payment.Aggregate, id)
	if err != nil {
		e.t.Fatal(err)
	}
	return state
}

func TestASignedReportIsRecordedOnce(t *testing.T) {
	e := newEdge(t)
	id := e.paying()
	first := e.signed(approval(id))
	events := e.events()
	if first.status != http.StatusNoContent || first.body != "" || e.payment(id).Status != payment.Approved {
		t.Fatalf("%d %s: %+v", first.status, first.body, e.payment(id))
	}
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			if again := e.signed(approval(id)); again.status != http.StatusNoContent {
				t.Errorf("%d %s", again.status, again.body)
			}
		})
	}
	callers.Wait()
	if e.events() != events {
		t.Error("repetitions left events")
	}
	records, err := e.store.ReadStream(context.Background(), payment.Aggregate.Stream(id), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	meta := records[len(records)-1].Meta
	if meta.CorrelationID != "of-the-order" || meta.CausationID != "msg_1" || meta.Actor != "payment-gateway" {
		t.Errorf("the report is not part of the order's conversation: %+v", meta)
	}
}

func TestOnlyExactBytesAndFreshSignaturesCount(t *testing.T) {
	e := newEdge(t)
	id := e.paying()
	events := e.events()
	body := approval(id)
	at := e.clock()
	good := base64.StdEncoding.EncodeToString(sign(e.webhookKeys[0], "msg_1", fmt.Sprint(at.Unix()), []byte(body)))
	stamp := fmt.Sprint(at.Unix())
	for name, headers := range map[string][]string{
		"no signature":       {"-webhook-signature", ""},
		"no id":              {"-webhook-id", ""},
		"no time":            {"-webhook-timestamp", ""},
		"another id":         {"webhook-id", "MSG_1"},
		"another time":       {"webhook-timestamp", fmt.Sprint(at.Unix() + 1)},
		"milliseconds":       {"webhook-timestamp", fmt.Sprint(at.UnixMilli())},
		"time with a plus":   {"webhook-timestamp", "+" + stamp},
		"another version":    {"webhook-signature", "v2," + good},
		"no version":         {"webhook-signature", good},
		"hexadecimal":        {"webhook-signature", fmt.Sprintf("v1,%X", sign(e.webhookKeys[0], "msg_1", stamp, []byte(body)))},
		"cut off":            {"webhook-signature", "v1," + good[:20]},
		"empty":              {"webhook-signature", "v1,"},
		"many wrong ones":    {"webhook-signature", strings.Repeat("v1,AAAA ", 10_000)},
		"another's":          {"webhook-signature", "v1," + base64.StdEncoding.EncodeToString(sign([]byte("another"), "msg_1", stamp, []byte(body)))},
		"hidden behind many": {"webhook-signature", strings.Repeat("v1,AAAA ", maxSignatures) + "v1," + good},
	} {
		t.Run(name, func(t *testing.T) { is(t, e.signed(body, headers...), 401, CodeSignatureInvalid) })
	}
	for name, sent := range map[string]string{
		"spaces":  strings.Replace(body, `{"type"`, `{ "type"`, 1),
		"shorter": body[:len(body)-1],
		"longer":  body + "\n",
		"nothing": "",
	} {
		t.Run(name, func(t *testing.T) {
			got := e.ask(http.MethodPost, hookPath, sent, "webhook-id", "msg_1", "webhook-timestamp", stamp, "webhook-signature", "v1,"+good)
			is(t, got, 401, CodeSignatureInvalid)
		})
	}
	for _, age := range []time.Duration{5*time.Minute + time.Second, -5*time.Minute - time.Second, 24 * time.Hour} {
		is(t, e.signedAt(at.Add(-age), body), 401, CodeSignatureInvalid)
	}
	if e.events() != events || e.payment(id).Status != payment.Requested {
		t.Error("a webhook that nobody signed left something")
	}
	if strings.Contains(e.log.String(), "ch_1") || strings.Contains(e.log.String(), good) {
		t.Error("the log holds parts of a webhook")
	}
	// Several signatures, as during a rotation; five minutes are still fine.
	if got := e.signedAt(at.Add(-5*time.Minute), body); got.status != 204 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := e.signed(body, "webhook-signature", "v1a,x v1,AAAA v1,"+good); got.status != 204 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestBothSecretsCountDuringARotation(t *testing.T) {
	other := "whsec_" + base64.StdEncoding.EncodeToString([]byte("another secret that is long enough"))
	e := newEdge(t, func(c *Config) { c.PaymentWebhookSecrets = []string{other, testSecret} })
	if got := e.signed(approval(e.paying())); got.status != 204 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestAGatewayRepeatsWhatCouldNotBeRecorded(t *testing.T) {
	e := newEdge(t)
	id := e.paying()
	for _, fault := range []error{eventstore.ErrUnavailable, eventstore.ErrOverloaded, fmt.Errorf("broken")} {
		e.executor.fail(failing(fault), nil)
		if got := e.signed(approval(id)); got.status < 500 {
			t.Errorf("%v: %d", fault, got.status)
		}
	}
	e.executor.fail(nil, nil)
	e.shelf.fail(eventstore.ErrUnavailable) // the order can't be looked up: its report counts all the same
	if got := e.signed(approval(id)); got.status != 204 || e.payment(id).Status != payment.Approved {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestSignedReportsThatMeanNothingAreRefused(t *testing.T) {
	e := newEdge(t)
	id := e.paying()
	events := e.events()
	body := approval(id)
	for name, broken := range map[string]string{
		"no JSON":         "charge.approved",
		"nothing":         "{}",
		"duplicate":       strings.Replace(body, `{"type"`, `{"type":"x","type"`, 1),
		"no order":        strings.Replace(body, id, "", 1),
		"no order's id":   strings.Replace(body, id, "../../x", 1),
		"upper case":      strings.Replace(body, id, strings.ToUpper(id), 1),
		"no charge":       strings.Replace(body, "ch_1", "", 1),
		"a long charge":   strings.Replace(body, "ch_1", strings.Repeat("c", 201), 1),
		"NUL":             strings.Replace(body, "ch_1", `ch\u0000`, 1),
		"amount a number": strings.Replace(body, `"2.55"`, `2.55`, 1),
		"no amount":       strings.Replace(body, `"2.55"`, `""`, 1),
		"decimals":        strings.Replace(body, `2.55`, `2.555`, 1),
		"no currency":     strings.Replace(body, `GBP`, `gbp`, 1),
		"refund of none":  strings.Replace(body, `charge.approved`, `refund.completed`, 1),
		"a number":        "1",
		"null":            "null",
	} {
		t.Run(name, func(t *testing.T) {
			got := e.signed(broken)
			is(t, got, 422, CodeWebhookInvalid)
		})
	}
	is(t, e.signed(`{"x":"`+strings.Repeat("x", maxWebhookBytes)+`"}`), 413, CodeBodyTooLarge)
	if e.events() != events {
		t.Error("a broken report left events")
	}
}

func TestWhatDoesNotFitIsKeptForAPerson(t *testing.T) {
	e := newEdge(t)
	id := e.paying()
	unknown := "0190b0a0-0000-7000-8000-000000000000"
	for _, body := range []string{
		strings.Replace(approval(id), "2.55", "2.54", 1),
		approval(unknown),
		strings.Replace(approval(id), "charge.approved", "charge.disputed", 1),
	} {
		before := e.events()
		if got := e.signed(body); got.status != 204 || e.events() != before+1 {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	if state := e.payment(id); state.Status != payment.Requested || state.Anomalies != 2 {
		t.Errorf("%+v", state)
	}
}

func TestARejectionNeedsNoAmount(t *testing.T) {
	e := newEdge(t)
	id := e.paying()
	got := e.signed(`{"type":"charge.rejected","more":{"a":1},"data":{"chargeId":"ch_1","orderId":"` + id + `","reason":"no\u0000\n funds"}}`)
	if got.status != 204 || e.payment(id).Status != payment.Rejected {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestSubscriptionsAreThePartners(t *testing.T) {
	e := newEdge(t)
	first := e.ask(http.MethodPost, "/v1/subscriptions", `{"url":"https://example.test/a?b=c","types":["order.placed","order.placed"]}`)
	if first.status != 201 || !strings.Contains(first.body, `"types":["order.placed"]`) {
		t.Fatalf("%d %s", first.status, first.body)
	}
	secret := between(first.body, `"secret":"whsec_`, `"`)
	if key, err := base64.StdEncoding.DecodeString(secret); err != nil || len(key) != 32 {
		t.Errorf("secret %q", secret)
	}
	location := first.header.Get("Location")
	listed := e.ask(http.MethodGet, "/v1/subscriptions", "")
	if !strings.Contains(listed.body, strings.TrimPrefix(location, "/v1/subscriptions/")) || strings.Contains(listed.body, secret) || strings.Contains(e.log.String(), secret) {
		t.Errorf("%s", listed.body)
	}
	if other := e.ask(http.MethodGet, "/v1/subscriptions", "", "Authorization", "Bearer other"); other.body != `{"items":[]}` {
		t.Errorf("%s", other.body)
	}
	is(t, e.ask(http.MethodDelete, location, "", "Authorization", "Bearer other"), 404, order.CodeNotFound)
	is(t, e.ask(http.MethodDelete, "/v1/subscriptions/%20", ""), 404, order.CodeNotFound)
	for range 2 {
		if got := e.ask(http.MethodDelete, location, ""); got.status != 204 || got.body != "" {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
	for range maxSubscriptions {
		e.ask(http.MethodPost, "/v1/subscriptions", `{"url":"https://example.test","types":["*"]}`)
	}
	is(t, e.ask(http.MethodPost, "/v1/subscriptions", `{"url":"https://example.test","types":["*"]}`), 409, CodeSubscriptionLimit)
}

func TestWebhooksGoToSecureAddressesOnly(t *testing.T) {
	for _, development := range []bool{false, true} {
		e := newEdge(t, func(c *Config) { c.Development = development })
		events := e.events()
		for _, url := range []string{"file:///etc/passwd", "//host", "https://user:pw@host", "https://host#part", "host", "https://", "javascript:x", "https://h\\u0000"} {
			got := e.ask(http.MethodPost, "/v1/subscriptions", `{"url":"`+url+`","types":["*"]}`)
			if got.status != 422 || got.problem(t).Errors[0].Pointer != "/url" {
				t.Errorf("%s: %d %s", url, got.status, got.body)
			}
		}
		if e.events() != events {
			t.Error("a refused address left events")
		}
		if got := e.ask(http.MethodPost, "/v1/subscriptions", `{"url":"http://127.0.0.1:8080","types":["*"]}`); (got.status == 201) != development {
			t.Errorf("http, development %t: %d", development, got.status)
		}
	}
}

func between(text, from, to string) string {
	_, rest, _ := strings.Cut(text, from)
	found, _, _ := strings.Cut(rest, to)
	return found
}

func FuzzReports(f *testing.F) {
	f.Add(approval("0190b0a0-0000-7000-8000-000000000000"))
	f.Fuzz(func(t *testing.T, body string) {
		report, err := readReport([]byte(body))
		if err != nil && refused(err).Code != CodeWebhookInvalid {
			t.Errorf("%v", err)
		}
		if err == nil && (report.ChargeID == "" || strings.ContainsRune(report.Reason+report.ChargeID+report.RefundID, 0)) {
			t.Errorf("%+v", report)
		}
	})
}

func FuzzBodies(f *testing.F) {
	for _, each := range bodies {
		f.Add(each.body)
	}
	f.Add(`{"currency":"GBP","lines":[{"sku":"A","quantity":1e1}]}`)
	var e *edge
	f.Fuzz(func(t *testing.T, body string) {
		if e == nil {
			e = newEdge(t)
		}
		request := httptest.NewRequest(http.MethodPost, "/v1/orders", strings.NewReader(body))
		request.Header = http.Header{"Authorization": {"Bearer acme"}, "Content-Type": {"application/json"}, keyHeader: {newTestID()}}
		e.t = t
		if got := e.send(request); got.status >= 500 {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
}
