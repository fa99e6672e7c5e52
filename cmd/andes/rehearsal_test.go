package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"andes/commands/order"
	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
	"andes/commands/subscription"
	"andes/deadletters"
	"andes/eventstore"
	"andes/sagas"
	"andes/test/pgtest"
)

// placedOrder is a platform with one order that was placed, and asked to be paid.
func placedOrder(t *testing.T) (*platform, []eventstore.Record) {
	t.Helper()
	registry := pgtest.Registry(t)
	store := pgtest.Store(t, pgtest.Config(t), registry)
	s := defaultSettings()
	s.Env, s.OMSURL, s.PaymentURL = development, "http://oms.test", "http://gateway.test"
	p := &platform{settings: &s, logger: slog.New(slog.DiscardHandler), registry: registry, store: store}
	now := time.Now()
	for _, command := range []eventstore.Command{
		partner.Configure{Partner: partner.State{ID: "p", Name: "P", Tier: "gold", Policy: partner.Policy{PriceList: "retail", Currency: "GBP"}}},
		product.Report{SKU: "A", Name: "A", SourceVersion: 1, At: now},
		price.Report{List: "retail", SKU: "A", Amount: "2.55", Currency: "GBP", SourceVersion: 1, At: now},
		stock.Report{SKU: "A", OnHand: 5, SourceVersion: 1, At: now},
		subscription.Create{ID: "s", Partner: "p", URL: "http://shop.test/hooks/very-secret", Types: []string{"*"}, Secret: "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", AllowInsecure: true},
		order.Place{OrderID: newID(), Partner: "p", PriceList: "retail", Currency: "GBP", Lines: []order.RequestedLine{{SKU: "A", Quantity: 1}}, PaymentToken: "tok_visa"},
	} {
		if _, err := store.Execute(t.Context(), eventstore.Request{Command: command}); err != nil {
			t.Fatalf("%T: %v", command, err)
		}
	}
	manager := sagas.FulfilmentManager{Registry: registry, Executor: store, Times: sagas.DefaultFulfilmentTimes, Logger: p.logger}
	if err := manager.Handle(t.Context(), recordOf(t, store, "order.placed")); err != nil {
		t.Fatal(err)
	}
	records, err := store.ReadAll(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	return p, records
}

func recordOf(t *testing.T, from eventstore.Reader, kind string) eventstore.Record {
	t.Helper()
	records, err := from.ReadAll(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records {
		if record.Type == kind {
			return record
		}
	}
	t.Fatalf("no %s", kind)
	return eventstore.Record{}
}

func TestEveryConsumerIsRehearsedAsItWorks(t *testing.T) {
	p, before := placedOrder(t)
	for consumer, c := range map[string]struct {
		event string
		calls string // what is among them
	}{
		sagaName:    {"payment.requested", ""},
		paymentName: {"payment.requested", "POST http://gateway.test/"},
		webhookName: {"order.placed", "POST http://shop.test/…"},
	} {
		t.Run(consumer, func(t *testing.T) {
			rehearsal, err := p.rehearse(t.Context(), consumer)
			if err != nil {
				t.Fatal(err)
			}
			defer rehearsal.Close()
			effects, err := rehearsal.Handle(t.Context(), recordOf(t, p.store, c.event))
			if err != nil {
				t.Error(err)
			}
			var calls []string
			for _, call := range effects.Calls {
				calls = append(calls, call.Method+" "+call.URL)
			}
			if (c.calls == "") != (len(calls) == 0) || !strings.Contains(strings.Join(calls, "\n"), c.calls) || strings.Contains(strings.Join(calls, ""), "very-secret") {
				t.Errorf("calls %v, want %s", calls, c.calls)
			}
		})
	}
	after, err := p.store.ReadAll(context.Background(), 0, 100)
	if err != nil || len(after) != len(before) {
		t.Errorf("%d events became %d, %v", len(before), len(after), err)
	}
}

func TestARehearsedProcessManagerTellsItsReaction(t *testing.T) {
	p, _ := placedOrder(t)
	rehearsal, err := p.rehearse(t.Context(), sagaName)
	if err != nil {
		t.Fatal(err)
	}
	defer rehearsal.Close()
	placed := recordOf(t, p.store, "order.placed")
	cancelled := placed
	cancelled.ID, cancelled.Type, cancelled.Version = newID(), "order.cancelled", placed.Version+1
	if cancelled.Data, err = eventData(p.registry, "order.cancelled"); err != nil {
		t.Fatal(err)
	}
	effects, err := rehearsal.Handle(t.Context(), cancelled)
	if err != nil || len(effects.Events) == 0 || effects.Events[0].Stream.Category != "fulfilment" {
		t.Errorf("%+v, %v", effects, err)
	}
	if again, err := rehearsal.Handle(t.Context(), cancelled); err != nil || len(again.Events) != 0 {
		t.Errorf("the reaction is not seen by what comes after it: %+v, %v", again, err)
	}
}

// eventData gives the JSON of an event without content.
func eventData(registry *eventstore.Registry, kind string) ([]byte, error) {
	declaration, known := registry.Declaration(kind)
	if !known {
		return nil, errors.New(kind + " is not declared")
	}
	empty, err := declaration.Decode(declaration.Schema, []byte("{}"))
	if err != nil {
		return nil, err
	}
	return declaration.Encode(empty)
}

func TestAConsumerThatCantBeRehearsedSaysWhy(t *testing.T) {
	p, _ := placedOrder(t)
	p.settings.OMSURL = ""
	for _, consumer := range []string{projectorName, omsName} {
		if _, err := p.rehearse(t.Context(), consumer); eventstore.CodeOf(err) != deadletters.CodeNotRehearsable || !strings.Contains(err.Error(), consumer) {
			t.Errorf("%s: %v", consumer, err)
		}
	}
}
