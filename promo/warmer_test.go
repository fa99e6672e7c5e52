package promo_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"andes/adapters/postgres"
	"andes/adapters/redis"
	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/source"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/promo"
	"andes/queries"
	"andes/test/pgtest"
	"andes/test/redistest"
)

// filledShelf is a read model that is empty beside states that are not: A and B sell in two price lists, C has no price.
func filledShelf(t *testing.T) (promo.Warmer, *postgres.Store, time.Time) {
	t.Helper()
	store := pgtest.Store(t, pgtest.Config(t), pgtest.Registry(t))
	client := redistest.New(t)
	config := redis.DefaultReadModelConfig()
	config.Logger = slog.New(slog.DiscardHandler)
	model, err := redis.NewReadModel(client, config)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	var commands []eventstore.Command
	for id, currency := range map[string]string{"retail": "GBP", "outlet": "EUR"} {
		commands = append(commands, partner.Configure{Partner: partner.State{ID: "p-" + id, Name: "P", Tier: "gold", Policy: partner.Policy{PriceList: id, Currency: currency}}})
		for _, sku := range []string{"A", "B"} {
			commands = append(commands, price.Report{List: id, SKU: sku, Amount: "2.55", Currency: currency, SourceVersion: 1, At: at})
		}
	}
	for _, sku := range []string{"A", "B", "C"} {
		commands = append(commands, product.Report{SKU: sku, Name: sku, SourceVersion: 1, At: at}, stock.Report{SKU: sku, OnHand: 5, SourceVersion: 1, At: at})
	}
	for _, feed := range []string{source.WMSStock, source.ERPPrices} {
		commands = append(commands, source.Advance{Feed: feed, SyncedAt: at, Cursor: "1"})
	}
	for _, command := range commands {
		if _, err := store.Execute(t.Context(), eventstore.Request{Command: command}); err != nil {
			t.Fatalf("%T: %v", command, err)
		}
	}
	marks := []eventstore.Stream{source.Aggregate.Stream(source.WMSStock), source.Aggregate.Stream(source.ERPPrices)}
	states, err := store.States(t.Context(), marks)
	if err != nil {
		t.Fatal(err)
	}
	if err := model.Project(t.Context(), []eventstore.StateRecord{states[marks[0]], states[marks[1]]}); err != nil {
		t.Fatal(err)
	}
	return promo.Warmer{
		Copy: redis.NewReader(client), States: store.DB, Put: model.Project, Thresholds: queries.DefaultThresholds, Now: func() time.Time { return at },
	}, store, at
}

func TestAnEmptyReadModelIsFilledWithThePromosProducts(t *testing.T) {
	shelf, _, _ := filledShelf(t)
	skus := []string{"A", "B"}
	look, err := shelf.Prepare(t.Context(), skus)
	if want := (promo.Look{Keys: 8, Lacked: 8}); err != nil || fmt.Sprint(look) != fmt.Sprint(want) {
		t.Errorf("%+v, want %+v; %v", look, want, err)
	}
	if copied, err := shelf.Copy.Stock(t.Context(), skus); err != nil || len(copied.Lacking) != 0 || copied.Found["A"].Net != 5 {
		t.Errorf("%+v, %v", copied, err)
	}
	if look, err := shelf.Prepare(t.Context(), skus); err != nil || look.Lacked != 0 || look.Missing != 0 {
		t.Errorf("%+v, %v", look, err)
	}
}

func TestProductsThatArePoorlyKnownAreTold(t *testing.T) {
	shelf, _, at := filledShelf(t)
	look, err := shelf.Prepare(t.Context(), []string{"A", "C", "X"})
	if err != nil || !slices.Equal(look.Unknown, []string{"X"}) || !slices.Equal(look.Unsold, []string{"C"}) || len(look.Stale) != 0 || look.Missing != 0 {
		t.Errorf("%+v, %v", look, err)
	}
	shelf.Now = func() time.Time { return at.Add(6 * time.Minute) }
	look, err = shelf.Prepare(t.Context(), []string{"A", "C"})
	if err != nil || len(look.Stale) != 2 || look.Stale[0] != (promo.Stale{SKU: "A", What: "stock", Age: promo.Span(6 * time.Minute)}) {
		t.Errorf("%+v, %v", look, err)
	}
	shelf.Now = func() time.Time { return at.Add(31 * time.Minute) }
	look, err = shelf.Prepare(t.Context(), []string{"A"})
	if err != nil || len(look.Stale) != 2 || look.Stale[1].What != "price" { // once, though two lists have it
		t.Errorf("%+v, %v", look, err)
	}
}

func TestAReadModelThatTakesNothingIsTold(t *testing.T) {
	shelf, _, _ := filledShelf(t)
	shelf.Put = func(context.Context, []eventstore.StateRecord) error { return nil }
	if look, err := shelf.Prepare(t.Context(), []string{"A"}); err != nil || look.Lacked != 4 || look.Missing != 4 {
		t.Errorf("%+v, %v", look, err)
	}
	shelf.Put = func(context.Context, []eventstore.StateRecord) error { return errors.New("no memory is left") }
	if _, err := shelf.Prepare(t.Context(), []string{"A"}); !errors.Is(err, eventstore.ErrUnavailable) || !strings.Contains(err.Error(), "no memory is left") || strings.Contains(err.Error(), "event store") {
		t.Error(err)
	}
}

// A read model or a store that does not answer is an outage, whichever question it is that waits.
func TestServicesThatDoNotAnswerAreAnOutage(t *testing.T) {
	shelf, _, _ := filledShelf(t)
	skus := []string{"A"}
	if _, err := shelf.Prepare(t.Context(), skus); err != nil {
		t.Fatal(err)
	}
	for question := range 2 {
		hanging := shelf
		hanging.Copy = &silentAfter{Copy: shelf.Copy, questions: question}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := hanging.Prepare(ctx, skus)
		cancel()
		if !errors.Is(err, eventstore.ErrUnavailable) || eventstore.CodeOf(err) != "" {
			t.Errorf("after %d questions: %v", question, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := shelf.Prepare(ctx, skus); !errors.Is(err, eventstore.ErrUnavailable) {
		t.Error(err)
	}
}

// silentAfter is a copy that does not answer any more after some questions about stock.
type silentAfter struct {
	queries.Copy
	questions int
}

func (s *silentAfter) Stock(ctx context.Context, skus []string) (queries.Copied[queries.StockView], error) {
	if s.questions--; s.questions < 0 {
		<-ctx.Done()
		return queries.Copied[queries.StockView]{}, ctx.Err()
	}
	return s.Copy.Stock(ctx, skus)
}
