package oms

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"andes/commands/order"
	"andes/eventstore"
)

// Caller makes one guarded call: it gives the status of an answer that the system meant and decodes the
// JSON of a 2xx answer; everything else is an error. It repeats a GET by itself, and never a POST.
type Caller interface {
	Call(request *http.Request, answer any) (status int, err error)
}

// remote is a registry with an HTTP interface of this platform's own.
type remote struct {
	url    string
	caller Caller
}

type registration struct {
	OMSID string `json:"omsId"`
	Ref   string `json:"ref"`
}

func (r registration) check(ref string) error {
	if r.OMSID == "" || r.Ref != ref {
		return fmt.Errorf("the OMS answered with id %.80q of order %.80q", r.OMSID, r.Ref)
	}
	return nil
}

// Find implements System.
func (r remote) Find(ctx context.Context, orderID string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/orders/"+url.PathEscape(orderID), nil)
	if err != nil {
		return "", eventstore.MarkPermanent(err)
	}
	var found registration
	status, err := r.caller.Call(request, &found)
	switch {
	case err != nil:
		return "", fmt.Errorf("find: %w", err)
	case status == http.StatusNotFound:
		return "", nil
	case status != http.StatusOK:
		return "", fmt.Errorf("find: %w", refusal(status))
	}
	return found.OMSID, found.check(orderID)
}

type line struct {
	SKU       string `json:"sku"`
	Quantity  int64  `json:"quantity"`
	UnitPrice string `json:"unitPrice"`
}

// Post implements System.
func (r remote) Post(ctx context.Context, request order.RegistrationRequested) (string, error) {
	body := struct {
		Ref      string `json:"ref"`
		Partner  string `json:"partner"`
		Currency string `json:"currency"`
		Total    string `json:"total"`
		Lines    []line `json:"lines"`
	}{Ref: request.OrderID, Partner: request.Partner, Currency: request.Total.Currency, Total: request.Total.Amount()}
	for _, l := range request.Lines {
		body.Lines = append(body.Lines, line{SKU: l.SKU, Quantity: l.Quantity, UnitPrice: l.UnitPrice.Amount()})
	}
	text, err := json.Marshal(body)
	if err != nil {
		return "", eventstore.MarkPermanent(err)
	}
	posted, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/orders", bytes.NewReader(text))
	if err != nil {
		return "", eventstore.MarkPermanent(err)
	}
	posted.Header.Set("Content-Type", "application/json")
	var answer registration
	status, err := r.caller.Call(posted, &answer)
	switch {
	case err != nil:
		return "", err
	case status == http.StatusConflict:
		return "", ErrExists
	case status != http.StatusCreated && status != http.StatusOK:
		return "", refusal(status) // whose caller names the call
	}
	return answer.OMSID, answer.check(request.OrderID)
}

// Cancel implements System.
func (r remote) Cancel(ctx context.Context, orderID string) (found, inTime bool, err error) {
	omsID, err := r.Find(ctx, orderID)
	if err != nil || omsID == "" {
		return false, false, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/orders/"+url.PathEscape(orderID)+"/cancel", nil)
	if err != nil {
		return true, false, eventstore.MarkPermanent(err)
	}
	status, err := r.caller.Call(request, nil)
	switch {
	case err != nil:
		return true, false, err
	case status == http.StatusConflict:
		return true, false, nil
	case status/100 != 2:
		return true, false, fmt.Errorf("cancel: %w", refusal(status))
	}
	return true, true, nil
}

// refused is an answer that says that nothing was done.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

// MayHaveArrived is false: what was sent is not at work.
func (refused) MayHaveArrived() bool { return false }

// refusal sorts an answer that is no success. What is wrong with this order stays wrong; what is wrong
// with our access, or with the address, concerns every order and is put right by a person.
func refusal(status int) error {
	var err error = refused{fmt.Errorf("the OMS answered with status %d", status)}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired:
		return err
	}
	if status/100 == 4 {
		return eventstore.MarkPermanent(err)
	}
	return err
}
