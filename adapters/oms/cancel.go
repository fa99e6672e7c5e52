package oms

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"andes/commands/order"
	"andes/eventstore"
)

// withdraw takes an order off the registry, if it is there, and records whether that came in time.
// Cancelling twice is harmless.
//
//	GET /orders/{ref} ──200──► POST /orders/{ref}/cancel ──2xx──► withdrawn
//	      │404                          └──409──► being shipped: the order goes on
//	      ▼
//	a POST from before the request may still be at work: withdrawn, but not before Settle is over
func (a *Adapter) withdraw(ctx context.Context, record eventstore.Record, wanted order.CancellationWasRequested) error {
	inTime, err := a.cancel(ctx, wanted)
	if err != nil {
		return fmt.Errorf("oms: cancel order %s: %w", wanted.OrderID, err)
	}
	if err := a.record(ctx, record, order.SettleCancellation{OrderID: wanted.OrderID, Withdrawn: inTime}); err != nil {
		return fmt.Errorf("oms: record the cancellation of order %s: %w", wanted.OrderID, err)
	}
	a.cfg.Log.InfoContext(ctx, "cancellation settled", "orderId", wanted.OrderID, "withdrawn", inTime, "correlationId", record.Meta.CorrelationID)
	return nil
}

func (a *Adapter) cancel(ctx context.Context, wanted order.CancellationWasRequested) (inTime bool, err error) {
	omsID, err := a.find(ctx, wanted.OrderID)
	switch {
	case err != nil:
		return false, err
	case omsID == "" && a.cfg.Now().Sub(wanted.At) < a.cfg.Settle:
		return false, ErrUnsettled
	case omsID == "":
		return true, nil // and it will not be registered: stillWanted
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.cfg.URL+"/orders/"+url.PathEscape(wanted.OrderID)+"/cancel", nil)
	if err != nil {
		return false, eventstore.MarkPermanent(err)
	}
	status, err := a.cfg.Caller.Call(request, nil)
	switch {
	case err != nil:
		return false, err
	case status == http.StatusConflict:
		return false, nil
	case status/100 != 2:
		return false, refusal("cancel", status)
	}
	return true, nil
}
