package wms

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"andes/commands/order"
	"andes/eventstore"
	"andes/polling"
)

// Types of shipment events.
const (
	dispatchStarted   = "DispatchStarted"
	deliveryConfirmed = "DeliveryConfirmed"
)

type shipment struct {
	Seq      int64  `json:"seq"`
	ID       string `json:"id"`
	OrderRef string `json:"orderRef"`
	Type     string `json:"type"`
	Lines    []struct {
		SKU          string `json:"sku"`
		StockVersion int64  `json:"stockVersion"`
	} `json:"lines"`
}

func (cfg Config) fetchShipments(ctx context.Context, after int64) (polling.EventPage, error) {
	query := url.Values{"after": {strconv.FormatInt(after, 10)}, "limit": {strconv.Itoa(cfg.PageSize)}}
	var got page
	if err := cfg.get(ctx, "/shipment-events", query, &got); err != nil {
		return polling.EventPage{}, err
	}
	if err := got.check("/shipment-events"); err != nil {
		return polling.EventPage{}, err
	}
	shipments := make([]shipment, len(*got.Items))
	unreadable := make([]error, len(*got.Items))
	for i, raw := range *got.Items {
		unreadable[i] = json.Unmarshal(raw, &shipments[i])
	}
	correlations, err := cfg.correlations(ctx, shipments)
	if err != nil {
		return polling.EventPage{}, err
	}
	answer := polling.EventPage{More: *got.HasMore, Events: make([]polling.Event, len(shipments))}
	for i, s := range shipments {
		item := s.item(unreadable[i])
		item.Meta.CorrelationID = correlations[s.OrderRef]
		answer.Events[i] = polling.Event{Seq: s.Seq, Item: item}
	}
	return answer, nil
}

// correlations finds the conversations that the orders belong to, so that what the warehouse did can be
// followed from the partner's call on.
func (cfg Config) correlations(ctx context.Context, shipments []shipment) (map[string]string, error) {
	asked := map[string]bool{}
	var streams []eventstore.Stream
	for _, s := range shipments {
		if s.OrderRef != "" && !asked[s.OrderRef] {
			asked[s.OrderRef] = true
			streams = append(streams, order.Aggregate.Stream(s.OrderRef))
		}
	}
	if len(streams) == 0 {
		return nil, nil
	}
	states, err := cfg.Reader.States(ctx, streams)
	if err != nil {
		return nil, fmt.Errorf("orders of shipments: %w", err)
	}
	found := make(map[string]string, len(states))
	for stream, kept := range states {
		state, err := order.Aggregate.Decode(kept.State)
		if err != nil {
			return nil, fmt.Errorf("orders of shipments: %w", err)
		}
		found[stream.Key] = state.CorrelationID
	}
	return found, nil
}

func (s shipment) item(unreadable error) polling.Item {
	item := polling.Item{ID: s.ID, Version: s.Seq, Meta: eventstore.Metadata{Actor: "wms", CausationID: s.ID}}
	if item.ID == "" {
		item.ID = "seq " + strconv.FormatInt(s.Seq, 10)
	}
	switch {
	case unreadable != nil:
		item.Fault = eventstore.Refuse(CodeRecordInvalid, "%v", unreadable)
		return item
	case s.Seq < 1 || s.OrderRef == "":
		item.Fault = eventstore.Refuse(CodeRecordInvalid, "seq or orderRef is missing")
		return item
	case s.Type != dispatchStarted && s.Type != deliveryConfirmed:
		item.Fault = eventstore.Refuse(CodeRecordInvalid, "unknown type %.40q of shipment event", s.Type)
		return item
	}
	versions := make(map[string]int64, len(s.Lines))
	for _, line := range s.Lines {
		versions[line.SKU] = max(versions[line.SKU], line.StockVersion)
	}
	item.Command = order.Ship{OrderID: s.OrderRef, Delivered: s.Type == deliveryConfirmed, StockVersions: versions}
	return item
}

// mayPass tells whether a refused shipment may become right: its order may be on its way. Goods of a
// cancelled order stay a case for a person.
func mayPass(refusal *eventstore.Refusal) bool {
	return refusal.Code == order.CodeNotFound || refusal.Code == order.CodeOrderInvalid
}
