package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"andes/catalogue"
	"andes/commands/order"
	"andes/commands/partner"
	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/source"
	"andes/commands/stock"
	"andes/commands/subscription"
	"andes/eventstore"
	"andes/queries"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testStart = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// edge is the API over a store in memory. Everything that it logs is kept.
type edge struct {
	*API
	t        *testing.T
	store    *eventstore.Memory
	executor *faultyExecutor
	shelf    *shelf
	log      *lockedBuffer
	metrics  *prometheus.Registry
	now      atomic.Int64 // after testStart
}

// faultyExecutor can be made to fail, before or after the work is done.
type faultyExecutor struct {
	eventstore.Executor
	mu     sync.Mutex
	before func(context.Context, eventstore.Request) error
	after  error
}

func (f *faultyExecutor) fail(before func(context.Context, eventstore.Request) error, after error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (f *faultyExecutor) Execute(ctx context.Context, request eventstore.Request) (eventstore.Outcome, error) {
	f.mu.Lock()
	before, after := f.before, f.after
	f.mu.Unlock()
	if before != nil {
		if err := before(ctx, request); err != nil {
			return eventstore.Outcome{}, err
		}
	}
	outcome, err := f.Executor.Execute(ctx, request)
	if after != nil {
		return eventstore.Outcome{}, after
	}
	return outcome, err
}

func failing(err error) func(context.Context, eventstore.Request) error {
	return func(context.Context, eventstore.Request) error { return err }
}

// shelf reads the store's states as the read model would.
type shelf struct {
	store *eventstore.Memory
	mu    sync.Mutex
	fault error
}

func (s *shelf) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = err
}

func (s *shelf) broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

func stateOf[S any](s *shelf, aggregate *eventstore.Aggregate[S], key string) (S, bool, error) {
	stream := aggregate.Stream(key)
	states, err := s.store.States(context.Background(), []eventstore.Stream{stream})
	if err != nil || states[stream].State == nil {
		var none S
		return none, false, err
	}
	state, err := aggregate.Decode(states[stream].State)
	return state, true, err
}

func viewsOf[S, V any](s *shelf, aggregate *eventstore.Aggregate[S], skus []string, key func(string) string, view func(S) (V, bool)) (map[string]V, error) {
	found := map[string]V{}
	for _, sku := range skus {
		state, known, err := stateOf(s, aggregate, key(sku))
		if err != nil {
			return nil, err
		}
		if v, visible := view(state); known && visible {
			found[sku] = v
		}
	}
	return found, s.broken()
}

func same(sku string) string { return sku }

func (s *shelf) Stock(_ context.Context, skus []string) (map[string]queries.StockView, error) {
	return viewsOf(s, stock.Aggregate, skus, same, queries.ViewOfStock)
}

func (s *shelf) Prices(_ context.Context, list string, skus []string) (map[string]queries.PriceView, error) {
	return viewsOf(s, price.Aggregate, skus, func(sku string) string { return price.Key(list, sku) }, queries.ViewOfPrice)
}

func (s *shelf) Products(_ context.Context, skus []string) (map[string]queries.ProductView, error) {
	return viewsOf(s, product.Aggregate, skus, same, queries.ViewOfProduct)
}

func (s *shelf) Watermark(_ context.Context, feed string) (time.Time, error) {
	state, _, err := stateOf(s, source.Aggregate, feed)
	return state.SyncedAt, err
}

func (s *shelf) Partner(_ context.Context, id string) (partner.State, bool, error) {
	if err := s.broken(); err != nil {
		return partner.State{}, false, err
	}
	return stateOf(s, partner.Aggregate, id)
}

func (s *shelf) Order(_ context.Context, id string) (order.State, bool, error) {
	if err := s.broken(); err != nil {
		return order.State{}, false, err
	}
	return stateOf(s, order.Aggregate, id)
}

func (s *shelf) OrdersOf(ctx context.Context, partnerID string, after int64, limit int) ([]queries.OrderAt, error) {
	states, err := s.store.StatesOf(ctx, order.Aggregate.Name, partnerID, after, limit)
	list := make([]queries.OrderAt, len(states))
	for i, stored := range states {
		state, fault := order.Aggregate.Decode(stored.State)
		list[i], err = queries.OrderAt{State: state, Position: stored.Position}, errors.Join(err, fault)
	}
	return list, err
}

func (s *shelf) Subscriptions(ctx context.Context, partnerID string) ([]subscription.State, error) {
	states, err := s.store.StatesOf(ctx, subscription.Aggregate.Name, partnerID, 0, 1000)
	var list []subscription.State
	for _, stored := range states {
		state, fault := subscription.Aggregate.Decode(stored.State)
		if err = errors.Join(err, fault); !state.Removed {
			list = append(list, state)
		}
	}
	return list, err
}

// lockedBuffer collects the log.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(data)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

const testSecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// verifyTest takes a token for what it names: partner, or ops:role.
func verifyTest(_ context.Context, token string) (Principal, error) {
	switch name, role, isOps := strings.Cut(token, ":"); {
	case token == "outage":
		return Principal{}, testOutage{errors.New("no keys at 10.1.2.3")}
	case strings.HasPrefix(token, "bad"):
		return Principal{}, errors.New("bad token " + token)
	case isOps:
		return Principal{Subject: "someone@example.test", Roles: []string{role}}, nil
	default:
		return Principal{Subject: "s-1", Partner: name}, nil
	}
}

type testOutage struct{ error }

func (testOutage) Outage() bool { return true }

// newEdge opens the edge over an empty store, then fills it: A and B sell, at 2.55 and 10.00 GBP.
func newEdge(t *testing.T, change ...func(*Config)) *edge {
	t.Helper()
	registry, err := catalogue.Registry()
	if err != nil {
		t.Fatal(err)
	}
	e := &edge{t: t, log: &lockedBuffer{}, metrics: prometheus.NewRegistry()}
	e.store = eventstore.NewMemory(registry, e.clock, newTestID)
	e.executor, e.shelf = &faultyExecutor{Executor: e.store}, &shelf{store: e.store}
	config := Config{
		Executor: e.executor, Reader: e.shelf, Orders: e.shelf, Partners: e.shelf, Subscriptions: e.shelf, DeadLetters: &desk{},
		Verify: verifyTest, PaymentWebhookSecrets: []string{testSecret}, Clock: e.clock, NewID: newTestID,
		Logger:     slog.New(slog.NewJSONHandler(e.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Registerer: e.metrics, Gatherer: e.metrics,
	}
	for _, apply := range change {
		apply(&config)
	}
	if e.API, err = New(config); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"acme", "other"} {
		e.do(partner.Configure{Partner: partner.State{ID: id, Name: id, Tier: "gold", Policy: partner.Policy{PriceList: "retail", Currency: "GBP"}}})
	}
	e.sell("A", "2.55", 10)
	e.sell("B", "10.00", 10)
	for _, feed := range []string{source.WMSStock, source.ERPPrices} {
		e.do(source.Advance{Feed: feed, SyncedAt: testStart, Cursor: "1"})
	}
	return e
}

func newTestID() string { return uuid.Must(uuid.NewV7()).String() }

func (e *edge) clock() time.Time     { return testStart.Add(time.Duration(e.now.Load())) }
func (e *edge) pass(d time.Duration) { e.now.Add(int64(d)) }

func (e *edge) do(command eventstore.Command) {
	e.t.Helper()
	if _, err := e.store.Execute(context.Background(), eventstore.Request{Command: command}); err != nil {
		e.t.Fatal(err)
	}
}

// sell puts a SKU into the catalogue.
func (e *edge) sell(sku, amount string, units int64) {
	e.t.Helper()
	e.do(product.Report{SKU: sku, Name: "Product " + sku, Segment: "toys", SourceVersion: 1, At: testStart})
	e.do(price.Report{List: "retail", SKU: sku, Amount: amount, Currency: "GBP", SourceVersion: 1, At: testStart})
	e.do(stock.Report{SKU: sku, OnHand: units, SourceVersion: 1, At: testStart})
}

// events gives how many events there are.
func (e *edge) events() int {
	e.t.Helper()
	records, err := e.store.ReadAll(context.Background(), 0, 1<<30)
	if err != nil {
		e.t.Fatal(err)
	}
	return len(records)
}

// reply is what came back.
type reply struct {
	status int
	header http.Header
	body   string
}

// problem reads a problem document.
func (r reply) problem(t *testing.T) problemBody {
	t.Helper()
	var read problemBody
	if err := json.Unmarshal([]byte(r.body), &read); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	return read
}

// ask sends a request as partner acme, if the headers don't say otherwise; a header "-Name" is not sent.
func (e *edge) ask(method, target, body string, headers ...string) reply {
	e.t.Helper()
	request := httptest.NewRequest(method, target, strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer acme")
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if name, drop := strings.CutPrefix(headers[i], "-"); drop {
			request.Header.Del(name)
		} else {
			request.Header.Set(headers[i], headers[i+1])
		}
	}
	return e.send(request)
}

func (e *edge) send(request *http.Request) reply {
	e.t.Helper()
	recorder := httptest.NewRecorder()
	e.ServeHTTP(recorder, request)
	result := recorder.Result()
	body, err := io.ReadAll(result.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	got := reply{status: result.StatusCode, header: result.Header, body: string(body)}
	e.isDocumented(request, got)
	return got
}

// isDocumented holds a refusal to the list of the endpoint's codes, which the API document shows.
func (e *edge) isDocumented(request *http.Request, got reply) {
	e.t.Helper()
	if got.status < 400 || got.header.Get("Content-Type") != problemMedia || e.executor.Executor != e.store {
		return // no refusal, or one that a test made up
	}
	code := got.problem(e.t).Code
	if code == CodeRouteUnknown || code == CodeMethodNotAllowed {
		return
	}
	for _, served := range e.endpoints() {
		served.method = strings.Replace(served.method, http.MethodGet, http.MethodGet+" "+http.MethodHead, 1)
		if strings.Contains(served.method, request.Method) && matches(served.path, request.URL.EscapedPath()) {
			if !slices.Contains(e.codes(served), code) {
				e.t.Errorf("%s %s is answered %s, which is not shown for it", served.method, served.path, code)
			}
			return
		}
	}
	e.t.Errorf("%s %s is answered %s by no endpoint", request.Method, request.URL.Path, code)
}

// matches tells whether a path is one of a pattern.
func matches(pattern, path string) bool {
	if strings.HasPrefix(pattern, productPrefix) {
		return strings.HasPrefix(path, productPrefix)
	}
	wanted, parts := strings.Split(pattern, "/"), strings.Split(path, "/")
	return slices.EqualFunc(wanted, parts, func(want, part string) bool { return want == part || strings.HasPrefix(want, "{") })
}

// order sends an order under a key.
func (e *edge) order(key, body string, headers ...string) reply {
	e.t.Helper()
	return e.ask(http.MethodPost, "/v1/orders", body, append([]string{keyHeader, key}, headers...)...)
}

// placed sends an order that has to be accepted and gives its id.
func (e *edge) placed(key, body string, headers ...string) string {
	e.t.Helper()
	got := e.order(key, body, headers...)
	if got.status != http.StatusAccepted {
		e.t.Fatalf("%d %s", got.status, got.body)
	}
	return orderIDIn([]byte(got.body))
}

const smallOrder = `{"currency":"GBP","lines":[{"sku":"A","quantity":1}],"payment":{"token":"tok_visa"}}`

func is(t *testing.T, got reply, status int, code eventstore.Code) {
	t.Helper()
	if got.status != status || got.problem(t).Code != code || got.header.Get("Content-Type") != problemMedia {
		t.Errorf("%d %s %s, want %d %s", got.status, got.header.Get("Content-Type"), got.body, status, code)
	}
}
