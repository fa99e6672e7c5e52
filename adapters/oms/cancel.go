package oms

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"andes/commands/order"
	"andes/eventstore"
)

// ErrShipping says that the warehouse was faster than the cancellation: the goods leave although the
// order is cancelled, and a person must look.
var ErrShipping = errors.New("the cancelled order is being shipped already")

// deregister takes a cancelled order off the registry, if it is there. Cancelling twice is harmless.
func (a *Adapter) deregister(ctx context.Context, record eventstore.Record, wanted order.DeregistrationRequested) error {
	omsID, err := a.find(ctx, wanted.OrderID)
	if err != nil {
		return fmt.Errorf("oms: cancel order %s: %w", wanted.OrderID, err)
	}
	if omsID == "" {
		if a.open.since(wanted.OrderID, a.cfg.Now(), a.cfg.Settle) {
			return fmt.Errorf("oms: cancel order %s: %w", wanted.OrderID, ErrUnsettled)
		}
		return nil // it was never registered, and a cancelled order will not be
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.cfg.URL+"/orders/"+url.PathEscape(wanted.OrderID)+"/cancel", nil)
	if err != nil {
		return eventstore.MarkPermanent(err)
	}
	status, err := a.cfg.Caller.Call(request, nil)
	switch {
	case err != nil:
		return fmt.Errorf("oms: cancel order %s: %w", wanted.OrderID, err)
	case status == http.StatusConflict:
		return eventstore.MarkPermanent(fmt.Errorf("oms: cancel order %s: %w", wanted.OrderID, ErrShipping))
	case status/100 != 2:
		return fmt.Errorf("oms: cancel order %s: %w", wanted.OrderID, refusal("cancel", status))
	}
	a.cfg.Log.InfoContext(ctx, "order taken off the registry", "orderId", wanted.OrderID, "correlationId", record.Meta.CorrelationID)
	return nil
}
