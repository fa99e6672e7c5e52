package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"andes/adapters/postgres"
	"andes/changes"
	"andes/commands/order"
	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/source"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/test/pgtest"
)

func carryOut(t *testing.T, store *postgres.Store, commands ...eventstore.Command) {
	t.Helper()
	for _, command := range commands {
		if _, err := store.Execute(t.Context(), eventstore.Request{Command: command}); err != nil {
			t.Fatalf("%#v: %v", command, err)
		}
	}
}

func TestTheChangeLogTellsWhatConcernsPartnersAndHowFarItLooked(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	log := postgres.ChangeLog{DB: store.DB}
	if end, published, err := log.End(t.Context()); end != 0 || published != 0 || err != nil {
		t.Errorf("an empty log: %d, %d, %v", end, published, err)
	}
	if part, err := log.Read(t.Context(), 0, math.MaxInt64, 10); len(part.Changes) > 0 || part.Reached != 0 || part.More || err != nil {
		t.Errorf("an empty log: %+v, %v", part, err)
	}
	now := time.Now()
	acme := partner.State{ID: "acme", Name: "Acme", Tier: "gold", Policy: partner.Policy{PriceList: "retail", Currency: "GBP"}}
	carryOut(t, store,
		partner.Configure{Partner: acme}, product.Report{SKU: "A/1", Name: "A", SourceVersion: 1, At: now},
		price.Report{List: "retail", SKU: "A/1", Amount: "2.55", Currency: "GBP", SourceVersion: 1, At: now},
		stock.Report{SKU: "A/1", OnHand: 7, SourceVersion: 1, At: now}, source.Advance{Feed: source.WMSStock, SyncedAt: now, Cursor: "1"},
		order.Place{OrderID: "o", Partner: "acme", PriceList: "retail", Currency: "GBP", Lines: []order.RequestedLine{{SKU: "A/1", Quantity: 1}}, PaymentToken: "tok_visa"},
	)
	records, err := store.ReadAll(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var want []changes.Change
	for _, record := range records {
		switch record.Stream.Category {
		case "stock", "price", "product":
			want = append(want, changes.Change{Position: record.Position, Stream: record.Stream})
		}
	}
	last := records[len(records)-1].Position
	for limit := 1; limit <= len(records)+1; limit++ { // every page size sees the same
		var got []changes.Change
		at := int64(0)
		for more := true; more; {
			part, err := log.Read(t.Context(), at, math.MaxInt64, limit)
			if err != nil {
				t.Fatal(err)
			}
			got, at, more = append(got, part.Changes...), part.Reached, part.More
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || at != last {
			t.Errorf("pages of %d: %v up to %d, want %v up to %d", limit, got, at, want, last)
		}
	}
	bound := want[0].Position
	if part, err := log.Read(t.Context(), 0, bound, 100); err != nil || len(part.Changes) != 1 || part.Reached != bound {
		t.Errorf("up to %d: %+v, %v", bound, part, err)
	}
	if _, err := sql(t, config).Exec(t.Context(), "INSERT INTO checkpoints (name, shard, position) VALUES ('relay', 0, 3), ('other', 0, 9)"); err != nil {
		t.Fatal(err)
	}
	if end, published, err := log.End(t.Context()); end != last || published != 3 || err != nil {
		t.Errorf("%d, %d, %v", end, published, err)
	}
	changed, err := log.Changed(t.Context(), partner.Aggregate.Stream("acme"))
	if err != nil || !changed.Equal(records[0].RecordedAt) {
		t.Errorf("%s, %v", changed, err)
	}
	if changed, err := log.Changed(t.Context(), partner.Aggregate.Stream("nobody")); err != nil || !changed.IsZero() {
		t.Errorf("%s, %v", changed, err)
	}
}

func TestTheChangeLogTellsWhereItWasAtATime(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	log := postgres.ChangeLog{DB: store.DB}
	if position, err := log.Before(t.Context(), time.Now()); position != 0 || err != nil {
		t.Errorf("an empty log: %d, %v", position, err)
	}
	for n := range 20 {
		carryOut(t, store, stock.Report{SKU: "A", OnHand: int64(n), SourceVersion: int64(n + 1), At: time.Now()})
	}
	records, err := store.ReadAll(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records {
		for _, at := range []time.Time{record.RecordedAt, record.RecordedAt.Add(time.Microsecond)} {
			want := int64(0)
			for _, other := range records {
				if other.RecordedAt.Before(at) {
					want = other.Position
				}
			}
			if got, err := log.Before(t.Context(), at); got != want || err != nil {
				t.Errorf("before %s it was at %d, want %d; %v", at, got, want, err)
			}
		}
	}
	last := records[len(records)-1].Position
	if got, err := log.Before(t.Context(), time.Now().Add(time.Hour)); got != last || err != nil {
		t.Errorf("%d, want %d; %v", got, last, err)
	}
}

func TestWhoeverListensIsToldOfCommits(t *testing.T) {
	t.Parallel()
	store := pgtest.Store(t, pgtest.Config(t), pgtest.Registry(t))
	ctx, stop := context.WithCancel(t.Context())
	woken, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() {
		ended <- postgres.ChangeLog{DB: store.DB}.Listen(ctx, func() { woken <- struct{}{} })
	}()
	<-woken // it listens
	carryOut(t, store, stock.Report{SKU: "A", OnHand: 7, SourceVersion: 1, At: time.Now()})
	<-woken
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
