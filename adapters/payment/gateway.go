package payment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"andes/commands/money"
	"andes/commands/payment"
	"andes/eventstore"
)

// What the gateway says of a charge or a refund.
const (
	pending   = "pending"
	approved  = "approved"
	rejected  = "rejected"
	completed = "completed"
)

// answer of the gateway; an answer to a POST may leave out all but the id and the status.
type answer struct {
	ChargeID string `json:"chargeId"`
	RefundID string `json:"refundId"`
	OrderID  string `json:"orderId"`
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	Status   string `json:"status"`
	Reason   string `json:"reason"`
}

// amount is what the gateway says, or else what it was asked for. An amount that can't be read is none at
// all: the report is then kept as an anomaly.
func (a answer) amount(asked money.Money) money.Money {
	if a.Amount == "" && a.Currency == "" {
		return asked
	}
	amount, err := money.Parse(a.Amount, a.Currency)
	if err != nil {
		return money.Money{}
	}
	return amount
}

// charge asks for the money. It is safe to repeat.
func (j job) charge(ctx context.Context, command payment.ChargeRequested) error {
	cancelled, err := j.cancelled(ctx)
	if err != nil || cancelled {
		return err
	}
	if command.Token == eventstore.Redacted {
		// The command came back from a DLQ, where it had to leave the token behind.
		if command, err = j.request(ctx); err != nil {
			return err
		}
	}
	got, err := j.post(ctx, "/charges", payment.ChargeKey(j.orderID), struct {
		OrderID  string `json:"orderId"`
		Amount   string `json:"amount"`
		Currency string `json:"currency"`
		Token    string `json:"token"`
	}{j.orderID, command.Amount.Amount(), command.Amount.Currency, command.Token})
	if err != nil {
		return fmt.Errorf("charge: %w", err)
	}
	return j.chargeAnswered(ctx, got, command.Amount)
}

func (j job) inquireCharge(ctx context.Context) error {
	got, found, err := j.get(ctx, "/charges/", payment.ChargeKey(j.orderID))
	if err != nil {
		return fmt.Errorf("ask for the charge: %w", err)
	}
	command, err := j.request(ctx)
	if err != nil {
		return err
	}
	if found {
		return j.chargeAnswered(ctx, got, command.Amount)
	}
	cancelled, err := j.cancelled(ctx)
	if err != nil {
		return err
	}
	if cancelled {
		// Nobody asks for this charge any more. Should a request be on its way yet, its approval counts after a
		// rejection, too, and is given back.
		return j.report(ctx, payment.Report{Kind: payment.ChargeRejected, Reason: neverCharged})
	}
	return j.charge(ctx, command)
}

// neverCharged is why the payment of an order is rejected that was cancelled before the gateway heard of it.
const neverCharged = "the order was cancelled before it was charged"

func (j job) chargeAnswered(ctx context.Context, got answer, asked money.Money) error {
	if got.OrderID != "" && got.OrderID != j.orderID || got.ChargeID == "" {
		return eventstore.MarkPermanent(fmt.Errorf("the gateway answered with charge %.80q of order %.80q", got.ChargeID, got.OrderID))
	}
	report := payment.Report{ChargeID: got.ChargeID, Amount: got.amount(asked), Reason: got.Reason}
	switch got.Status {
	case pending:
		return j.undecided(ctx, "chargeId", got.ChargeID)
	case approved:
		report.Kind = payment.ChargeApproved
	case rejected:
		report.Kind = payment.ChargeRejected
	default:
		return eventstore.MarkPermanent(fmt.Errorf("the gateway says that charge %.80q is %.40q", got.ChargeID, got.Status))
	}
	return j.report(ctx, report)
}

// refund asks for the money to be given back. It is safe to repeat.
func (j job) refund(ctx context.Context, state payment.State) error {
	got, err := j.post(ctx, "/refunds", payment.RefundKey(j.orderID), struct {
		ChargeID string `json:"chargeId"`
		OrderID  string `json:"orderId"`
		Amount   string `json:"amount"`
		Currency string `json:"currency"`
	}{state.ChargeID, j.orderID, state.Amount.Amount(), state.Amount.Currency})
	if err != nil {
		return fmt.Errorf("refund: %w", err)
	}
	return j.refundAnswered(ctx, got, state)
}

func (j job) inquireRefund(ctx context.Context, state payment.State) error {
	got, found, err := j.get(ctx, "/refunds/", payment.RefundKey(j.orderID))
	if err != nil {
		return fmt.Errorf("ask for the refund: %w", err)
	}
	if !found {
		return j.refund(ctx, state)
	}
	return j.refundAnswered(ctx, got, state)
}

func (j job) refundAnswered(ctx context.Context, got answer, state payment.State) error {
	if got.OrderID != "" && got.OrderID != j.orderID || got.RefundID == "" {
		return eventstore.MarkPermanent(fmt.Errorf("the gateway answered with refund %.80q of order %.80q", got.RefundID, got.OrderID))
	}
	switch got.Status {
	case pending:
		return j.undecided(ctx, "refundId", got.RefundID)
	case completed:
		return j.report(ctx, payment.Report{
			Kind: payment.RefundCompleted, ChargeID: state.ChargeID, RefundID: got.RefundID, Amount: got.amount(state.Amount),
		})
	}
	return eventstore.MarkPermanent(fmt.Errorf("the gateway says that refund %.80q is %.40q", got.RefundID, got.Status))
}

// post sends an effect under its key. The body holds a token: it must not get into an error.
func (j job) post(ctx context.Context, path, key string, body any) (answer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return answer{}, eventstore.MarkPermanent(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, j.cfg.URL+path, bytes.NewReader(text))
	if err != nil {
		return answer{}, eventstore.MarkPermanent(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", key)
	var got answer
	status, err := j.cfg.Caller.Call(request, &got)
	if err != nil {
		return answer{}, err
	}
	if status/100 != 2 {
		return answer{}, refusal(status)
	}
	return got, nil
}

// get asks what became of a key.
func (j job) get(ctx context.Context, path, key string) (got answer, found bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, j.cfg.URL+path+url.PathEscape(key), nil)
	if err != nil {
		return got, false, eventstore.MarkPermanent(err)
	}
	status, err := j.cfg.Caller.Call(request, &got)
	switch {
	case err != nil:
		return got, false, err
	case status == http.StatusNotFound:
		return got, false, nil
	case status != http.StatusOK:
		return got, false, refusal(status)
	}
	return got, true, nil
}

// refusal sorts an answer that is no success. What is wrong with this order stays wrong; what is wrong
// with our access concerns every order and is put right by a person. 409 is a charge at work.
func refusal(status int) error {
	err := fmt.Errorf("the gateway answered with status %d", status)
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired, http.StatusConflict:
		return err
	}
	if status/100 == 4 {
		return eventstore.MarkPermanent(err)
	}
	return err
}
