package readmodel

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	httpapi "andes/adapters/http"
	"andes/adapters/redis"
	"andes/commands/money"
	"andes/commands/partner"
	"andes/commands/source"
	"andes/projections"
	"andes/queries"
	"andes/test/redistest"
)

// twins are two APIs over one reader. Only one of them is shown what it needs to remember answers.
type twins struct {
	t                   *testing.T
	remembering, anew   *httpapi.API
	metrics             *prometheus.Registry
	writer              *redis.Client // in what could be another process
	model               *redis.ReadModel
	policies            sync.Map     // of partners, by their ids
	version             atomic.Int64 // of all values
	sandwiches, changes atomic.Int64
}

// onlyReader hides what a reader can do beyond reading.
type onlyReader struct{ queries.Reader }

// noOrders is a shop in which nobody ordered anything.
type noOrders struct{ queries.Orders }

// Partner implements queries.Partners.
func (w *twins) Partner(_ context.Context, id string) (partner.State, bool, error) {
	policy, known := w.policies.Load(id)
	if !known {
		return partner.State{}, false, nil
	}
	return partner.State{ID: id, Name: id, Tier: "gold", Policy: policy.(partner.Policy)}, true, nil
}

const (
	twinSKUs = 6
	// Values of version n are n*perVersion, less what a policy takes off, which is less than perVersion.
	perVersion = 1000
	// shortThreshold has answers become stale all the time.
	shortThreshold = 40 * time.Millisecond
)

func openTwins(t *testing.T, config redis.Config, threshold time.Duration) *twins {
	t.Helper()
	client, writer := redistest.Open(t, config), redistest.Open(t, config)
	w := &twins{t: t, metrics: prometheus.NewRegistry(), writer: writer, model: model(t, writer)}
	reader := fallback(t, queries.FallbackConfig{Copy: redis.NewReader(client), States: memory(t), CopyTimeout: busy})
	open := func(reader queries.Reader, metrics *prometheus.Registry) *httpapi.API {
		api, err := httpapi.New(httpapi.Config{
			Roles: []httpapi.Role{httpapi.Query}, Reader: reader, Orders: noOrders{}, Partners: w,
			Thresholds: queries.Thresholds{Stock: threshold, Price: threshold},
			Verify: func(_ context.Context, token string) (httpapi.Principal, error) {
				return httpapi.Principal{Subject: "s", Partner: token}, nil
			},
			Clock: time.Now, NewID: uuid.NewString, Logger: slog.New(slog.DiscardHandler), Registerer: metrics, Gatherer: metrics,
		})
		if err != nil {
			t.Fatal(err)
		}
		return api
	}
	w.remembering, w.anew = open(reader, w.metrics), open(onlyReader{reader}, prometheus.NewRegistry())
	w.policies.Store("plain", partner.Policy{PriceList: "retail", Currency: "GBP"})
	w.policies.Store("varying", partner.Policy{PriceList: "retail", Currency: "GBP"})
	w.policies.Store("windows", partner.Policy{PriceList: "retail", Currency: "GBP", Discounts: windows(time.Now(), 0)})
	return w
}

// windows are discounts that follow each other closely: which of them counts tells the time.
func windows(from time.Time, shift int) []partner.Discount {
	const each = 15 * time.Millisecond
	list := make([]partner.Discount, perVersion-2)
	for i := range list {
		begin := from.Add(time.Duration(i) * each)
		list[i] = partner.Discount{Amount: money.Money{Minor: int64(i + 1 + shift%2), Currency: "GBP"}, From: begin, Until: begin.Add(each)}
	}
	return list
}

func twinSKU(i int) string { return "T" + strconv.Itoa(i) }

// values are all values of a version, in stock or on the price list, without the watermarks.
func values(version int64) (entries []projections.Entry) {
	changedAt := time.UnixMilli(1)
	for i := range twinSKUs {
		cost := projections.Price{Price: money.Money{Minor: version * perVersion, Currency: "GBP"}, ChangedAt: changedAt}
		entries = append(entries,
			projections.Entry{Key: projections.StockKey(twinSKU(i)), Position: version, Value: projections.EncodeStock(projections.Stock{Net: version * perVersion, ChangedAt: changedAt})},
			projections.Entry{Key: projections.PriceKey("retail", twinSKU(i)), Position: version, Value: projections.EncodePrice(cost)})
	}
	return entries
}

func watermarks(version int64) (entries []projections.Entry) {
	now := projections.EncodeSource(time.Now())
	for _, feed := range []string{source.WMSStock, source.ERPPrices} {
		entries = append(entries, projections.Entry{Key: projections.SourceKey(feed), Position: version, Value: now})
	}
	return entries
}

// change brings the next version of the values.
func (w *twins) change(ctx context.Context) error { return w.apply(ctx, values) }

// sync brings newer watermarks alone.
func (w *twins) sync(ctx context.Context) error { return w.apply(ctx, watermarks) }

// write brings both: a watermark follows its values.
func (w *twins) write(ctx context.Context) error { return w.apply(ctx, values, watermarks) }

func (w *twins) apply(ctx context.Context, kinds ...func(version int64) []projections.Entry) error {
	version := w.version.Add(1)
	for _, kind := range kinds {
		if err := w.model.Apply(ctx, kind(version)); err != nil {
			return err
		}
	}
	return nil
}

// rebuild brings the next version into another generation, and has that one serve.
func (w *twins) rebuild(ctx context.Context) error {
	now, err := w.writer.Generations(ctx)
	if err != nil {
		return err
	}
	next := projections.Lineage{Serving: 3 - now.Serving, Others: []projections.Generation{now.Serving}} // 1 and 2 in turn
	version := w.version.Add(1)
	if err := w.model.ApplyTo(ctx, next.Serving, append(values(version), watermarks(version)...)); err != nil {
		return err
	}
	return w.writer.Repoint(ctx, now, projections.Generations{Lineage: next})
}

// told is an answer: of each SKU what it says, nothing for one that is not found.
type told struct {
	body, tag   string
	items       map[string]toldItem
	began, over time.Time
}

type toldItem struct {
	SKU       string
	Available int64
	Price     struct{ Amount string }
	AsOf      time.Time
	Stale     bool
	value     int64
}

func (w *twins) ask(api *httpapi.API, caller, target string) told {
	w.t.Helper()
	request := httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, target, nil)
	request.Header.Set("Authorization", "Bearer "+caller)
	recorder, answer := httptest.NewRecorder(), told{began: time.Now(), items: map[string]toldItem{}}
	api.ServeHTTP(recorder, request)
	answer.over = time.Now()
	var read struct{ Items []toldItem }
	if err := json.Unmarshal(recorder.Body.Bytes(), &read); err != nil || recorder.Code != http.StatusOK {
		w.t.Errorf("%d %s: %v", recorder.Code, recorder.Body, err)
	}
	for _, item := range read.Items {
		item.value = item.Available
		if item.Price.Amount != "" {
			minor, err := strconv.ParseInt(strings.ReplaceAll(item.Price.Amount, ".", ""), 10, 64)
			if err != nil {
				w.t.Error(err)
			}
			item.value = minor
		}
		answer.items[item.SKU] = item
	}
	answer.body, answer.tag = recorder.Body.String(), recorder.Header().Get("Etag")
	return answer
}
