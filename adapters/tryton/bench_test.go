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
	"andes/adapters/oms"
	"andes/adapters/tryton"
	"andes/adapters/wms"
	"andes/commands/order"
	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/stock"
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
	wms     *wms.Adapter
	oms     *oms.Adapter
	sales   *tryton.Sales
	rejects map[string]eventstore.Code
	now     time.Time // zero: the real one

	transport http.RoundTripper // nil: one of its own
}

// Two cores are shared with Tryton and with other tests.
const patience = time.Minute

// open is for one test at a time: Tryton's server fails now and then while it loads the modules for a new
// database and works on another one.
func open(t *testing.T) *bench {
	t.Helper()
	b := &bench{Bench: legacytest.New(t), tryton: trytontest.Open(t), rejects: map[string]eventstore.Code{}}
	b.client = b.clientOf(trytontest.Password)
	b.openERP()
	b.openWMS()
	b.openOMS()
	return b
}

func (b *bench) clock() time.Time {
	if b.now.IsZero() {
		return time.Now()
	}
	return b.now
}

func (b *bench) clientOf(password string) *tryton.Client {
	b.T.Helper()
	settings := guard.Defaults(10)
	settings.Rate, settings.Timeout, settings.QueueWait = 40, patience, patience
	settings.Breaker.ProbeWait = patience
	if b.transport == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		b.T.Cleanup(own.CloseIdleConnections)
		b.transport = own
	}
	var err error
	b.guard, err = guard.New(guard.Config{
		System: "tryton", Settings: settings, Transport: tryton.Transport{Base: b.transport}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.T.Fatal(err)
	}
	client, err := tryton.New(tryton.Config{
		URL: b.tryton.URL, Database: b.tryton.Database, User: trytontest.User, Password: password, Caller: b.guard, Now: b.clock,
	})
	if err != nil {
		b.T.Fatal(err)
	}
	return client
}

func (b *bench) rejected(_ context.Context, r polling.Reject) { b.rejects[r.ID] = r.Code }

func (b *bench) openERP() {
	b.T.Helper()
	catalogue := &tryton.Catalogue{
		Client: b.client, Reader: b.Store, States: states{b.Store}, Now: b.clock, PriceList: "retail", PageSize: 5, CompareEvery: time.Hour,
	}
	if err := catalogue.Check(); err != nil {
		b.T.Fatal(err)
	}
	var err error
	b.erp, err = erp.New(erp.Config{
		Products: catalogue.Products(), Prices: catalogue.Prices(), Now: b.clock,
		Executor: b.Store, Reader: b.Store, Lease: legacytest.Alone{}, Log: slog.New(slog.DiscardHandler), Rejects: b.rejected,
	})
	if err != nil {
		b.T.Fatal(err)
	}
}

func (b *bench) openWMS(codes ...string) {
	b.T.Helper()
	warehouse := &tryton.Warehouse{
		Client: b.client, Reader: b.Store, States: states{b.Store}, Now: b.clock, Codes: codes, PageSize: 5, CompareEvery: time.Hour,
	}
	if err := warehouse.Check(); err != nil {
		b.T.Fatal(err)
	}
	var err error
	b.wms, err = wms.New(wms.Config{
		Stock: warehouse.Stock(), Shipments: warehouse.Shipments(), Now: b.clock,
		Executor: b.Store, Reader: b.Store, Lease: legacytest.Alone{}, Log: slog.New(slog.DiscardHandler), Rejects: b.rejected,
	})
	if err != nil {
		b.T.Fatal(err)
	}
}

func (b *bench) openOMS() {
	b.T.Helper()
	b.sales = &tryton.Sales{Client: b.client, Now: b.clock}
	var err error
	b.oms, err = oms.New(oms.Config{
		System: b.sales, Executor: b.Store, Reader: b.Store, Registry: b.Registry, Log: slog.New(slog.DiscardHandler), Now: b.clock,
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

func (b *bench) poll(pollers ...*polling.Poller) {
	b.T.Helper()
	for _, p := range pollers {
		if _, err := p.Poll(b.T.Context()); err != nil {
			b.T.Fatal(err)
		}
	}
}

// compareAll has the rounds of the feeds go to their end.
func (b *bench) compareAll(pollers ...*polling.Poller) {
	b.T.Helper()
	b.now = b.clock().Add(2 * time.Hour)
	for range 5 { // pages of five, of which the template fills three, and the end
		b.poll(pollers...)
	}
	b.now = time.Time{}
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

func (b *bench) level(sku string) stock.State {
	b.T.Helper()
	return legacytest.StateOf(b.Bench, stock.Aggregate, sku)
}

func (b *bench) template(sku string) int64 {
	b.T.Helper()
	return b.tryton.Find("product.template", "code", sku)
}

func (b *bench) variant(sku string) int64 {
	b.T.Helper()
	return b.tryton.Find("product.product", "code", sku)
}

// want fails where two texts differ.
func (b *bench) want(what, got, want string) {
	b.T.Helper()
	if got != want {
		b.T.Errorf("%s is %q, not %q", what, got, want)
	}
}

// order places and confirms an order of the partner that the template knows, and gives the command to the OMS.
func (b *bench) order(id, sku string, quantity int64) eventstore.Record {
	b.T.Helper()
	b.Execute(partner.Configure{Partner: partner.State{ID: "demo", Name: "demo", Tier: "gold", Policy: partner.Policy{PriceList: "retail", Currency: "GBP"}}})
	b.Execute(order.Place{
		OrderID: id, Partner: "demo", Currency: "GBP", PriceList: "retail", PaymentToken: "tok_test",
		Lines:    []order.RequestedLine{{SKU: sku, Quantity: quantity}},
		Customer: order.Customer{Name: "Ana Prueba", Email: "ana@example.com"},
	})
	return b.Confirm(id)
}
