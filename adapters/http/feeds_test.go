package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"andes/commands/price"
	"andes/commands/product"
	"andes/commands/source"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/polling"
)

const (
	feedPath   = "/v1/feeds/wms/changes"
	feedSecret = "whsec_OTg3NjU0MzIxMDk4NzY1NDMyMTA5ODc2NTQzMjEwOTg="
)

// pushing is an edge to which a WMS may push levels.
func pushing(t *testing.T) *edge {
	t.Helper()
	e := newEdge(t, func(c *Config) {
		intake, err := polling.NewIntake(polling.IntakeConfig{
			Executor: c.Executor, Now: c.Clock, Log: slog.New(slog.DiscardHandler),
			Kinds: map[string]polling.Kind{"stock": {Feed: source.WMSStock, Read: readLevel}},
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Feeds = map[string]Feed{"wms": {Secrets: []string{feedSecret}, Take: intake.Take}}
	})
	return e
}

func readLevel(record json.RawMessage) polling.Item {
	var r struct {
		SKU     string
		OnHand  *int64
		Version int64
		At      time.Time
	}
	if err := json.Unmarshal(record, &r); err != nil || r.OnHand == nil {
		return polling.Item{ID: r.SKU, Version: r.Version, Fault: eventstore.Refuse("RECORD_INVALID", "no level"), Doubt: func(code eventstore.Code) eventstore.Command {
			return stock.Doubt{SKU: r.SKU, SourceVersion: r.Version, Code: code, At: r.At}
		}}
	}
	return polling.Item{ID: r.SKU, Version: r.Version, Command: stock.Report{SKU: r.SKU, OnHand: *r.OnHand, SourceVersion: r.Version, At: r.At}}
}

// push sends changes as an independent implementation signs them.
func (e *edge) push(secret, body string, headers ...string) reply {
	e.t.Helper()
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		e.t.Fatal(err)
	}
	signature, err := signer.Sign("msg_7", e.clock(), []byte(body))
	if err != nil {
		e.t.Fatal(err)
	}
	all := append([]string{"-Authorization", "", "webhook-id", "msg_7", "webhook-timestamp", fmt.Sprint(e.clock().Unix()), "webhook-signature", signature}, headers...)
	return e.ask(http.MethodPost, feedPath, body, all...)
}

func change(sku string, onHand, version int64, at time.Time) string {
	return fmt.Sprintf(`{"kind":"stock","sku":%q,"onHand":%d,"version":%d,"at":%q}`, sku, onHand, version, at.Format(time.RFC3339))
}

func pushed(list ...string) string { return `{"changes":[` + strings.Join(list, ",") + `]}` }

func (e *edge) level(sku string) stock.State {
	e.t.Helper()
	state, _, err := stateOf(e.shelf, stock.Aggregate, sku)
	if err != nil {
		e.t.Fatal(err)
	}
	return state
}

func TestALegacySystemTellsOfChanges(t *testing.T) {
	e := pushing(t)
	e.pass(time.Hour)
	body := pushed(change("A", 7, 3, e.clock()), change("B", 1, 1, e.clock()),
		`{"kind":"stock","sku":"B","onHand":null,"version":2,"at":"2026-11-27T12:30:00Z"}`, `{"kind":"price","sku":"B"}`, `"what"`)
	got := e.push(feedSecret, body, correlationHeader, "of-the-wms")
	e.holds(got, http.MethodPost, "/v1/feeds/{system}/changes")
	want := `{"applied":1,"known":1,"refused":3,"failed":0,"items":[{"index":0,"id":"A","outcome":"applied"},{"index":1,"id":"B","outcome":"known"},` +
		`{"index":2,"id":"B","outcome":"refused","code":"RECORD_INVALID","detail":"no level"},` +
		`{"index":3,"outcome":"refused","code":"KIND_UNKNOWN","detail":"the kinds here are: stock"},{"index":4,"outcome":"refused","code":"KIND_UNKNOWN","detail":"the kinds here are: stock"}]}`
	if got.status != http.StatusOK || got.body != want {
		t.Fatalf("%d %s, want %s", got.status, got.body, want)
	}
	if a := e.level("A"); a.OnHand != 7 || a.SourceVersion != 3 {
		t.Errorf("A is %+v", a)
	}
	events := e.events()
	again := e.push(feedSecret, body)
	older := e.push(feedSecret, pushed(change("A", 99, 2, e.clock())))
	if e.events() != events || !strings.Contains(again.body, `"applied":0,"known":2`) || !strings.Contains(older.body, `"known":1`) || e.level("A").OnHand != 7 {
		t.Errorf("repeated: %s, older: %s, the level is %d", again.body, older.body, e.level("A").OnHand)
	}
	// What was pushed is recent, what was not is as old as before, and what was replaced by nothing usable is
	// as old as that.
	stale := e.ask(http.MethodGet, "/v1/stock?sku=A,B", "")
	want = `{"items":[{"sku":"A","available":7,"asOf":"2026-11-27T13:00:00.000Z","stale":false},` +
		`{"sku":"B","available":10,"asOf":"2026-11-27T12:00:00.000Z","stale":true}],"notFound":[]}`
	if stale.body != want {
		t.Errorf("%s, want %s", stale.body, want)
	}
	e.do(source.Advance{Feed: source.WMSStock, SyncedAt: e.clock(), Cursor: "2"})
	if synced := e.ask(http.MethodGet, "/v1/stock?sku=B", ""); !strings.Contains(synced.body, `"asOf":"2026-11-27T12:30:00.000Z","stale":true`) {
		t.Errorf("after a sync the doubted level is %s", synced.body)
	}
}

func TestAPushThatIsNotSignedLeavesNothingBehind(t *testing.T) {
	e := pushing(t)
	body := pushed(change("A", 7, 3, e.clock()))
	events := e.events()
	is(t, e.push(testSecret, body), 401, CodeSignatureInvalid) // that of the gateway
	is(t, e.push(feedSecret, body, "webhook-timestamp", fmt.Sprint(e.clock().Add(-6*time.Minute).Unix())), 401, CodeSignatureInvalid)
	is(t, e.push(feedSecret, body, "-webhook-signature", ""), 401, CodeSignatureInvalid)
	is(t, e.ask(http.MethodPost, "/v1/feeds/nobody/changes", body), 404, CodeFeedUnknown)
	for _, bad := range []string{`{}`, `{"changes":[]}`, `[]`, `nonsense`, pushed(strings.Repeat("1,", maxChanges) + "1"), `{"changes":[` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `]}`} {
		is(t, e.push(feedSecret, bad), 422, CodeFeedInvalid)
	}
	is(t, e.push(feedSecret, pushed(`"`+strings.Repeat("x", 1<<20)+`"`)), 413, CodeBodyTooLarge)
	if e.events() != events {
		t.Error("something was recorded")
	}
}

func TestAPushThatCantBeRecordedNowMayBeSentAgain(t *testing.T) {
	e := pushing(t)
	body := pushed(change("A", 7, 3, e.clock()), change("B", 7, 3, e.clock()))
	e.executor.fail(failing(eventstore.ErrUnavailable), nil)
	is(t, e.push(feedSecret, body), 503, CodeUnavailable)
	e.executor.fail(nil, nil)
	if got := e.push(feedSecret, body); got.status != 200 || !strings.Contains(got.body, `"applied":2`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	e.executor.fail(func(_ context.Context, r eventstore.Request) error {
		if report, is := r.Command.(stock.Report); is && report.SKU == "B" {
			return fmt.Errorf("a fault of one record")
		}
		return nil
	}, nil)
	got := e.push(feedSecret, pushed(change("A", 8, 4, e.clock()), change("B", 8, 4, e.clock())))
	if got.status != 200 || !strings.Contains(got.body, `{"index":1,"id":"B","outcome":"failed","code":"RECORD_FAILED"`) || e.level("A").OnHand != 8 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestWithoutASystemThatTellsThereIsNoSuchRoute(t *testing.T) {
	is(t, newEdge(t).ask(http.MethodPost, feedPath, "{}"), 404, CodeRouteUnknown)
}

// A product that is sold no more is not found by any question, and can't be ordered.
func TestWhatIsSoldNoMoreIsNotFound(t *testing.T) {
	e := newEdge(t)
	e.do(product.Report{SKU: "A", Removed: true, SourceVersion: 2, At: testStart})
	e.do(stock.Report{SKU: "A", OnHand: 9, SourceVersion: 2, At: testStart})
	e.do(price.Report{List: "retail", SKU: "A", Amount: "3.00", Currency: "GBP", SourceVersion: 2, At: testStart})
	for _, path := range []string{"/v1/stock?sku=A,B", "/v1/prices?sku=A,B"} {
		if got := e.ask(http.MethodGet, path, ""); !strings.Contains(got.body, `"notFound":["A"]`) || !strings.Contains(got.body, `"sku":"B"`) {
			t.Errorf("%s: %s", path, got.body)
		}
	}
	is(t, e.ask(http.MethodGet, "/v1/products/A", ""), 404, "NOT_FOUND")
	is(t, e.ask(http.MethodPost, "/v1/orders", smallOrder, "Idempotency-Key", newTestID()), 422, "UNKNOWN_SKU")
	e.do(product.Report{SKU: "A", Name: "A", SourceVersion: 3, At: testStart})
	if got := e.ask(http.MethodGet, "/v1/prices?sku=A", ""); !strings.Contains(got.body, `"amount":"3.00"`) {
		t.Errorf("sold again: %s", got.body)
	}
}

// feedDesk has one record that can't be used.
type feedDesk struct{ reread, discarded []string }

func (d *feedDesk) Standings(context.Context) ([]polling.FeedStanding, error) {
	return []polling.FeedStanding{{Feed: source.ERPPrices, SyncedAt: testStart, Rejects: 1}, {Feed: source.WMSStock}}, nil
}

func (d *feedDesk) Rejects(_ context.Context, feed, after string, limit int) ([]polling.Rejected, error) {
	if feed != source.ERPPrices || after >= "retail|A" {
		return nil, nil
	}
	return []polling.Rejected{{ID: "retail|A", Version: 8, Code: "PRICE_NOT_POSITIVE", Detail: "price 0 is not above zero", Times: 2, First: testStart, Last: testStart}}[:min(1, limit)], nil
}

func (d *feedDesk) Reread(_ context.Context, feed string, ids []string, actor, reason string) (int, error) {
	d.reread = append([]string{feed, actor, reason}, ids...)
	return len(ids), nil
}

func (d *feedDesk) Discard(_ context.Context, feed string, ids []string, actor, reason string) (int, error) {
	d.discarded = append([]string{feed, actor, reason}, ids...)
	return len(ids), nil
}

func TestOperatorsStrikeRecordsOutThatTheirSourceNoLongerHas(t *testing.T) {
	desk := &feedDesk{}
	e := newEdge(t, func(c *Config) { c.FeedDesk = desk })
	admin := []string{"Authorization", "Bearer ops:ops-admin"}
	wanted := `{"ids":["retail|A"],"reason":"the ERP has no such price"}`
	is(t, e.ask(http.MethodPost, "/ops/feeds/erp.prices/discard", wanted, "Authorization", asViewer), 403, CodeForbidden)
	is(t, e.ask(http.MethodPost, "/ops/feeds/nothing/discard", wanted, admin...), 404, CodeFeedUnknown)
	if got := e.ask(http.MethodPost, "/ops/feeds/erp.prices/discard", `{"ids":["retail|A"]}`, admin...); got.status == 200 || desk.discarded != nil {
		t.Errorf("without a reason: %d %q", got.status, desk.discarded)
	}
	got := e.ask(http.MethodPost, "/ops/feeds/erp.prices/discard", wanted, admin...)
	e.holds(got, http.MethodPost, "/ops/feeds/{feed}/discard")
	if got.body != `{"count":1}` || strings.Join(desk.discarded, " ") != "erp.prices "+someOperator+" the ERP has no such price retail|A" {
		t.Errorf("%s %q", got.body, desk.discarded)
	}
}

func TestOperatorsSeeWhatOfAFeedCantBeUsedAndHaveItReadOnceMore(t *testing.T) {
	desk := &feedDesk{}
	e := newEdge(t, func(c *Config) { c.FeedDesk = desk })
	admin := []string{"Authorization", "Bearer ops:ops-admin"}
	is(t, e.ask(http.MethodGet, "/ops/feeds", ""), 403, CodeForbidden) // a partner
	got := e.ask(http.MethodGet, "/ops/feeds", "", "Authorization", asViewer)
	e.holds(got, http.MethodGet, "/ops/feeds")
	if want := `{"items":[{"feed":"erp.prices","syncedAt":"2026-11-27T12:00:00Z","rejects":1},{"feed":"wms.stock","rejects":0}]}`; got.body != want {
		t.Errorf("%s, want %s", got.body, want)
	}
	got = e.ask(http.MethodGet, "/ops/feeds/erp.prices/rejects?limit=1", "", "Authorization", asViewer)
	e.holds(got, http.MethodGet, "/ops/feeds/{feed}/rejects")
	if !strings.Contains(got.body, `"id":"retail|A","version":8,"code":"PRICE_NOT_POSITIVE"`) || !strings.Contains(got.body, `"next":"retail|A"`) {
		t.Error(got.body)
	}
	if got = e.ask(http.MethodGet, "/ops/feeds/erp.prices/rejects?after=retail%7CA", "", "Authorization", asViewer); got.body != `{"items":[]}` {
		t.Error(got.body)
	}
	unknown := e.ask(http.MethodGet, "/ops/feeds/nothing/rejects", "", "Authorization", asViewer)
	is(t, unknown, 404, CodeFeedUnknown)
	if detail := unknown.problem(t).Detail; !strings.Contains(detail, strings.Join(source.Feeds, ", ")) {
		t.Errorf("the feeds are not told: %s", detail)
	}
	is(t, e.ask(http.MethodGet, "/ops/feeds/erp.prices/rejects?limit=x", "", "Authorization", asViewer), 422, CodeParameterInvalid)
	wanted := `{"ids":["retail|A"],"reason":"put right in the ERP"}`
	is(t, e.ask(http.MethodPost, "/ops/feeds/erp.prices/reread", wanted, "Authorization", asViewer), 403, CodeForbidden)
	got = e.ask(http.MethodPost, "/ops/feeds/erp.prices/reread", wanted, admin...)
	e.holds(got, http.MethodPost, "/ops/feeds/{feed}/reread")
	if got.body != `{"count":1}` || strings.Join(desk.reread, " ") != "erp.prices "+someOperator+" put right in the ERP retail|A" {
		t.Errorf("%s %q", got.body, desk.reread)
	}
}
