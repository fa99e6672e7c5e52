package oms

import (
	"context"
	"fmt"

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
	found, inTime, err := a.cfg.System.Cancel(ctx, wanted.OrderID)
	switch {
	case err != nil:
		return false, err
	case found:
		return inTime, nil
	case a.cfg.Now().Sub(wanted.At) < a.cfg.Settle:
		return false, ErrUnsettled
	}
	return true, nil // and it will not be registered: stillWanted
}
