package tryton_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"andes/adapters/erp"
	"andes/adapters/guard"
	"andes/adapters/tryton"
	"andes/commands/price"
	"andes/commands/product"
	"andes/eventstore"
	"andes/polling"
	"andes/test/legacytest"
	"andes/test/trytontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a Tryton of the test's own, and Andes with a store in memory.
type bench struct {
	*legacytest.Bench
	tryton  *trytontest.Server
	client  *tryton.Client
	guard   *guard.Guard
	erp     *erp.Adapter
	rejects map[string]eventstore.Code
	compare time.Duration
}

func open(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	b := &bench{Bench: legacytest.New(t), tryton: trytontest.Open(t), rejects: map[string]eventstore.Code{}}
	b.client = b.clientOf(trytontest.Password)
	b.compare = time.Hour
	b.openERP()
	return b
}

func (b *bench) clientOf(password string) *tryton.Client {
	b.T.Helper()
	settings := guard.Defaults(10)
	settings.Rate, settings.Timeout = 40, 20*time.Second
	settings.Breaker.ProbeWait = settings.Timeout
	transport := http.DefaultTransport.(*http.Transport).Clone()
	b.T.Cleanup(transport.CloseIdleConnections)
	var err error
	b.guard, err = guard.New(guard.Config{System: "erp", Settings: settings, Transport: tryton.Transport{Base: transport}})
	if err != nil {
		b.T.Fatal(err)
	}
	client, err := tryton.New(tryton.Config{
		URL: b.tryton.URL, Database: b.tryton.Database, User: trytontest.User, Password: password, Caller: b.guard,
	})
	if err != nil {
		b.T.Fatal(err)
	}
	return client
}

func (b *bench) openERP() {
	b.T.Helper()
	catalogue := &tryton.Catalogue{
		Client: b.client, Reader: b.Store, States: states{b.Store}, PriceList: "retail", PageSize: 5, CompareEvery: b.compare,
	}
	if err := catalogue.Check(); err != nil {
		b.T.Fatal(err)
	}
	var err error
	b.erp, err = erp.New(erp.Config{
		Products: catalogue.Products(), Prices: catalogue.Prices(),
		Executor: b.Store, Reader: b.Store, Lease: legacytest.Alone{}, Log: slog.New(slog.DiscardHandler),
		Rejects: func(_ context.Context, r polling.Reject) { b.rejects[r.ID] = r.Code },
	})
	if err != nil {
		b.T.Fatal(err)
	}
}

// states lists what a store in memory knows.
type states struct{ store *eventstore.Memory }

func (s states) EachState(ctx context.Context, category string, take func([]eventstore.StateRecord) error) error {
	const all = 1_000_000
	events, err := s.store.ReadAll(ctx, 0, all)
	if err != nil {
		return err
	}
	seen := map[eventstore.Stream]bool{}
	for _, event := range events {
		if event.Stream.Category == category {
			seen[event.Stream] = true
		}
	}
	var streams []eventstore.Stream
	for stream := range seen {
		streams = append(streams, stream)
	}
	found, err := s.store.States(ctx, streams)
	if err != nil {
		return err
	}
	for _, record := range found {
		if err := take([]eventstore.StateRecord{record}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) poll(p *polling.Poller) {
	b.T.Helper()
	if _, err := p.Poll(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

func (b *bench) product(sku string) product.State {
	b.T.Helper()
	return legacytest.StateOf(b.Bench, product.Aggregate, sku)
}

// price is what a SKU costs on a list; "" if it has no price there.
func (b *bench) price(list, sku string) string {
	b.T.Helper()
	state := legacytest.StateOf(b.Bench, price.Aggregate, price.Key(list, sku))
	if state.SourceVersion == 0 || state.Removed {
		return ""
	}
	return state.Price.String()
}

func (b *bench) template(sku string) int64 {
	b.T.Helper()
	return b.tryton.Find("product.template", "code", sku)
}

func TestACatalogueIsReadOnceAndThenFollowed(t *testing.T) {
	b := open(t)
	b.poll(b.erp.Products)
	b.poll(b.erp.Prices)
	if n := len(b.Events("product.described")); n != 12 {
		t.Errorf("%d of 12 products were described", n)
	}
	if got := b.product("MUG-RED"); got.Name != "Mug, red" || got.Attributes["unit"] != "u" {
		t.Errorf("the mug is %+v", got)
	}
	for _, want := range []struct{ list, sku, price string }{
		{"retail", "MUG-RED", "4.95 GBP"},
		{"trade", "MUG-RED", "4.46 GBP"},  // 4.455: half to even
		{"outlet", "MUG-RED", "3.71 GBP"}, // 3.7125
		{"retail", "LANTERN", "12.50 GBP"},
		{"trade", "LANTERN", "11.25 GBP"},
	} {
		if got := b.price(want.list, want.sku); got != want.price {
			t.Errorf("%s costs %q on %s, not %s", want.sku, got, want.list, want.price)
		}
	}
	before := len(b.Events("price.set")) + len(b.Events("product.described"))

	b.tryton.Write("product.template", b.template("MUG-RED"), map[string]any{"list_price": trytontest.Decimal("5.5000"), "name": "Mug, crimson"})
	b.poll(b.erp.Products)
	b.poll(b.erp.Prices)
	if got := b.product("MUG-RED").Name; got != "Mug, crimson" {
		t.Errorf("the mug is called %q", got)
	}
	if got := b.price("retail", "MUG-RED"); got != "5.50 GBP" {
		t.Errorf("the mug costs %s", got)
	}
	if got := b.price("trade", "MUG-RED"); got != "4.95 GBP" {
		t.Errorf("the mug costs %s on the price list", got)
	}
	if after := len(b.Events("price.set")) + len(b.Events("product.described")); after != before+4 {
		t.Errorf("%d events of one product with three prices", after-before)
	}
	if len(b.rejects) > 0 {
		t.Errorf("rejected: %v", b.rejects)
	}
}
