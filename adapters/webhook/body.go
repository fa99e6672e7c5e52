package webhook

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"andes/commands/money"
	"andes/commands/order"
	"andes/commands/payment"
	"andes/eventstore"
)

// body is what a partner gets.
type body struct {
	ID       string `json:"id"` // of the event
	Type     string `json:"type"`
	Time     string `json:"time"`
	Sequence int64  `json:"sequence"` // in the order's or the payment's own stream
	Data     data   `json:"data"`
}

// data is what the event says, as far as partners may know it.
type data struct {
	OrderID    string       `json:"orderId"`
	PartnerRef string       `json:"partnerOrderRef,omitempty"`
	Status     order.Status `json:"status,omitempty"` // of the order after the event
	Reason     string       `json:"reason,omitempty"`
	Lines      []order.Line `json:"lines,omitempty"`
	Total      *money.Money `json:"total,omitempty"`
	ChargeID   string       `json:"chargeId,omitempty"`
	RefundID   string       `json:"refundId,omitempty"`
	Amount     *money.Money `json:"amount,omitempty"` // of the payment

	partner string // whose it is, where the event says so
}

// views say what a partner is told of each event, by the event's Go type.
var views = table(
	told(func(e order.Placed) data {
		return data{
			partner: e.Partner, PartnerRef: e.PartnerRef, Status: order.PendingPayment, Lines: e.Lines, Total: &e.Total,
		}
	}),
	told(func(order.WasConfirmed) data { return data{Status: order.Confirmed} }),
	told(func(order.WasDispatched) data { return data{Status: order.Dispatched} }),
	told(func(order.WasDelivered) data { return data{Status: order.Delivered} }),
	told(func(e order.WasCancelled) data { return data{Status: order.Cancelled, Reason: string(e.Reason)} }),
	told(func(e payment.WasApproved) data {
		return data{partner: e.Partner, ChargeID: e.ChargeID, Amount: &e.Amount}
	}),
	told(func(e payment.WasRejected) data {
		return data{partner: e.Partner, ChargeID: e.ChargeID, Reason: e.Reason}
	}),
	told(func(e payment.WasRefunded) data {
		return data{partner: e.Partner, RefundID: e.RefundID, Amount: &e.Amount}
	}),
)

type view struct {
	event reflect.Type
	show  func(event any) data
}

// told declares what a partner is told of event E.
func told[E any](show func(E) data) view {
	return view{event: reflect.TypeFor[E](), show: func(event any) data { return show(event.(E)) }}
}

func table(list ...view) map[reflect.Type]func(any) data {
	byEvent := make(map[reflect.Type]func(any) data, len(list))
	for _, v := range list {
		byEvent[v.event] = v.show
	}
	return byEvent
}

// render makes the body. It is the same whenever it is made. partner is empty where the event does not say
// whose it is.
func render(record eventstore.Record, event any) (text []byte, partner string, err error) {
	show, known := views[reflect.TypeOf(event)]
	if !known {
		return nil, "", fmt.Errorf("nothing is declared that a partner may know of %s", record.Type)
	}
	shown := show(event)
	shown.OrderID = record.Stream.Key
	text, err = json.Marshal(body{
		ID: record.ID, Type: record.Type, Time: record.RecordedAt.UTC().Format(time.RFC3339Nano),
		Sequence: record.Version, Data: shown,
	})
	if err != nil {
		return nil, "", fmt.Errorf("body of %s: %w", record.Type, err)
	}
	return text, shown.partner, nil
}
