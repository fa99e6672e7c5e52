package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"andes/commands/money"
	"andes/commands/payment"
	"andes/eventstore"
)

// The payment gateway's webhook, signed as in Standard Webhooks.

const (
	webhookSecretPrefix = "whsec_"
	webhookTolerance    = 5 * time.Minute
	maxWebhookBytes     = 64 << 10
	maxWebhookText      = 200
	maxSignatures       = 16 // in one header
)

var errSignature = errors.New("no signature of this webhook is valid")

// gatewayReport is what the gateway sends. Further members are its own business.
type gatewayReport struct {
	_    struct{}    `additionalProperties:"true"`
	Type string      `json:"type" doc:"charge.approved, charge.rejected or refund.completed; others are kept for a person to look at"`
	Data gatewayData `json:"data"`
}

type gatewayData struct {
	_        struct{} `additionalProperties:"true"`
	ChargeID string   `json:"chargeId"`
	OrderID  string   `json:"orderId"`
	Amount   string   `json:"amount,omitempty" doc:"Not needed of a rejection"`
	Currency string   `json:"currency,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	RefundID string   `json:"refundId,omitempty" doc:"Of a refund"`
}

func (a *API) webhookEndpoints() []*endpoint {
	text := &huma.Schema{Type: huma.TypeString}
	header := func(name string) *huma.Param {
		return &huma.Param{Name: name, In: "header", Required: true, Schema: text}
	}
	return []*endpoint{{
		method: http.MethodPost, path: "/v1/payment-webhooks/generic", id: "paymentWebhook", tag: "webhooks",
		summary:     "What the payment gateway reports",
		description: "Signed as in Standard Webhooks over the exact bytes; five minutes tolerance. 2xx only after the report is recorded; after 5xx the gateway repeats it.",
		access:      anyone, body: reflect.TypeFor[gatewayReport](),
		parameters: []*huma.Param{header("webhook-id"), header("webhook-timestamp"), header("webhook-signature")},
		answers:    []answer{{status: 204, description: "Recorded, now or before"}},
		refusals:   slices.Concat(commandCodes, []eventstore.Code{CodeSignatureInvalid, CodeWebhookInvalid, CodeBodyTooLarge, CodeBodyUnreadable}),
		handle:     (*call).paymentWebhook,
	}}
}

func (c *call) paymentWebhook() error {
	body, err := c.readBytes(maxWebhookBytes)
	if err != nil {
		return err
	}
	if err := verifySignature(c.request.Header, body, c.api.webhookKeys, c.api.Clock()); err != nil {
		return eventstore.Refuse(CodeSignatureInvalid, "the signature, its time or its secret is wrong")
	}
	report, err := readReport(body)
	if err != nil {
		return err
	}
	if _, err := c.execute(report, c.reportMeta(report.OrderID)); err != nil {
		return err
	}
	c.send(http.StatusNoContent, "", nil)
	return nil
}

// reportMeta puts the report into the order's own conversation, so that its whole way has one id.
func (c *call) reportMeta(orderID string) eventstore.Metadata {
	meta := c.meta()
	meta.Actor = "payment-gateway"
	if id := c.request.Header.Get("webhook-id"); saneID(id) {
		meta.CausationID = id
	}
	if c.api.Orders == nil {
		return meta
	}
	ctx, cancel := c.timeout(c.api.Limits.ReadTimeout)
	defer cancel()
	// Without it the report counts just the same, under the id of this request.
	if state, known, err := c.api.Orders.Order(ctx, orderID); err == nil && known && state.CorrelationID != "" {
		meta.CorrelationID = state.CorrelationID
		c.correlation = state.CorrelationID
		c.Header().Set(correlationHeader, c.correlation)
	}
	return meta
}

// verifySignature accepts a body that one of the keys signed not long ago. The comparison takes as long
// for a wrong signature as for a right one.
func verifySignature(header http.Header, body []byte, keys [][]byte, now time.Time) error {
	id, stamp, signatures := header.Get("webhook-id"), header.Get("webhook-timestamp"), header.Get("webhook-signature")
	if id == "" || signatures == "" {
		return errSignature
	}
	unix, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return errSignature
	}
	if age := now.Sub(time.Unix(unix, 0)); age > webhookTolerance || age < -webhookTolerance {
		return errSignature
	}
	given := signaturesIn(signatures)
	for _, key := range keys {
		expected := sign(key, id, stamp, body)
		for _, signature := range given {
			if hmac.Equal(signature, expected) {
				return nil
			}
		}
	}
	return errSignature
}

// signaturesIn reads the signatures of the version that we know.
func signaturesIn(header string) [][]byte {
	var given [][]byte
	for candidate := range strings.FieldsSeq(header) {
		version, text, _ := strings.Cut(candidate, ",")
		signature, err := base64.StdEncoding.DecodeString(text)
		if version == "v1" && err == nil {
			given = append(given, signature)
		}
		if len(given) == maxSignatures {
			break
		}
	}
	return given
}

// sign gives the HMAC over id.timestamp.body.
func sign(key []byte, id, stamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%s.", id, stamp)
	_, _ = mac.Write(body)
	return mac.Sum(nil)
}

// minSecret is the least that Standard Webhooks allows.
const minSecret = 24

// webhookKeys decodes secrets.
func webhookKeys(of string, secrets []string) ([][]byte, error) {
	keys := make([][]byte, len(secrets))
	for i, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, webhookSecretPrefix))
		if err != nil || len(key) < minSecret {
			return nil, fmt.Errorf("http edge: %s secret %d is not %s and the base64 of at least %d bytes", of, i+1, webhookSecretPrefix, minSecret)
		}
		keys[i] = key
	}
	return keys, nil
}

// readReport makes the command of a signed body, or refuses it without repeating any of it.
func readReport(body []byte) (payment.Report, error) {
	var sent gatewayReport
	if err := json.Unmarshal(body, &sent); err != nil {
		return payment.Report{}, eventstore.Refuse(CodeWebhookInvalid, "the body is not a report")
	}
	var problems []eventstore.Problem
	complain := func(wrong bool, pointer, detail string) {
		if wrong {
			problems = append(problems, eventstore.Problem{Pointer: pointer, Code: CodeWebhookInvalid, Detail: detail})
		}
	}
	kind := payment.Kind(sent.Type)
	order, err := uuid.Parse(sent.Data.OrderID)
	complain(err != nil || order.String() != sent.Data.OrderID, "/data/orderId", "an order's id is expected")
	complain(!reportText(sent.Type, 1), "/type", "a type is expected")
	complain(!reportText(sent.Data.ChargeID, 1), "/data/chargeId", "a charge's id is expected")
	complain(!reportText(sent.Data.RefundID, refundDigits(kind)), "/data/refundId", "a refund's id is expected")
	var amount money.Money
	if kind == payment.ChargeApproved || kind == payment.RefundCompleted {
		amount, err = money.Parse(sent.Data.Amount, sent.Data.Currency)
		complain(err != nil, "/data/amount", "an amount in its currency is expected")
	}
	if len(problems) > 0 {
		return payment.Report{}, &eventstore.Refusal{Code: CodeWebhookInvalid, Detail: "the report is not complete", Problems: problems}
	}
	return payment.Report{
		OrderID: sent.Data.OrderID, Kind: kind, ChargeID: sent.Data.ChargeID, RefundID: sent.Data.RefundID,
		Amount: amount, Reason: printable(sent.Data.Reason),
	}, nil
}

// refundDigits is how long a refund's id is at least.
func refundDigits(kind payment.Kind) int {
	if kind == payment.RefundCompleted {
		return 1
	}
	return 0
}

func reportText(text string, least int) bool {
	return len(text) >= least && len(text) <= maxWebhookText && text == printable(text)
}

// printable drops control characters, which a text column may not take.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
}
