package redis_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"andes/adapters/redis"
	"andes/commands/product"
	"andes/commands/source"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/projections"
	"andes/queries"
	"andes/test/redistest"
)

var changed = time.Date(2026, 3, 1, 12, 0, 0, 123e6, time.UTC)

func record[S any](t testing.TB, aggregate *eventstore.Aggregate[S], key string, position int64, state S) eventstore.StateRecord {
	t.Helper()
	data, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	return eventstore.StateRecord{Stream: aggregate.Stream(key), Version: position, Position: position, State: data}
}

func stockRecord(t testing.TB, sku string, position, onHand int64) eventstore.StateRecord {
	t.Helper()
	return record(t, stock.Aggregate, sku, position, stock.State{OnHand: onHand, ChangedAt: changed})
}

func stockEntry(sku string, position, net int64) projections.Entry {
	return projections.Entry{
		Key: projections.StockKey(sku), Position: position,
		Value: projections.EncodeStock(projections.Stock{Net: net, ChangedAt: changed}),
	}
}

func newModel(t testing.TB, client *redis.Client, config redis.ReadModelConfig) *redis.ReadModel {
	t.Helper()
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	model, err := redis.NewReadModel(client, config)
	if err != nil {
		t.Fatal(err)
	}
	return model
}

func apply(t testing.TB, model *redis.ReadModel, entries ...projections.Entry) {
	t.Helper()
	if err := model.Apply(context.Background(), entries); err != nil {
		t.Fatal(err)
	}
}

// applyAtLast applies where the server was away: each connection to it finds that out by a write of its own that fails.
func applyAtLast(t testing.TB, model *redis.ReadModel, entries ...projections.Entry) {
	t.Helper()
	var err error
	if !redistest.Eventually(patience, func() bool {
		err = model.Apply(context.Background(), entries)
		return err == nil
	}) {
		t.Fatal(err)
	}
}

// netOf reads one SKU: its net stock, or what is known instead.
func netOf(t testing.TB, client *redis.Client, sku string) string {
	t.Helper()
	copied, err := redis.NewReader(client).Stock(context.Background(), []string{sku})
	if err != nil {
		t.Fatal(err)
	}
	return describe(copied, sku)
}

func describe(copied queries.Copied[queries.StockView], sku string) string {
	if view, found := copied.Found[sku]; found {
		return fmt.Sprint(view.Net)
	}
	if len(copied.Lacking) > 0 {
		return "lacking"
	}
	return "absent"
}

func TestProjectedRecordsAreRead(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	model := newModel(t, client, redis.ReadModelConfig{})
	ctx := t.Context()
	err := model.Project(ctx, []eventstore.StateRecord{
		stockRecord(t, "A", 7, 3), stockRecord(t, "{B} ü", 8, -2),
		record(t, product.Aggregate, "A", 9, product.State{SKU: "A", Name: "Lamp", Attributes: map[string]string{"colour": "red"}, ChangedAt: changed}),
		record(t, source.Aggregate, source.WMSStock, 10, source.State{SyncedAt: changed}),
	})
	if err != nil {
		t.Fatal(err)
	}
	reader := redis.NewReader(client)
	copied, err := reader.Stock(ctx, []string{"A", "{B} ü", "C"})
	if err != nil {
		t.Fatal(err)
	}
	if got := copied.Found["A"]; got != (queries.StockView{Net: 3, ChangedAt: changed}) {
		t.Errorf("A is %+v", got)
	}
	if got := copied.Found["{B} ü"].Net; got != -2 {
		t.Errorf("{B} ü has net %d", got)
	}
	if len(copied.Lacking) != 1 || copied.Lacking[0] != "C" {
		t.Errorf("lacking %q, want C", copied.Lacking)
	}
	products, err := reader.Products(ctx, []string{"A"})
	if err != nil || products.Found["A"].Attributes["colour"] != "red" {
		t.Errorf("products %+v, %v", products, err)
	}
	if at, known, err := reader.Watermark(ctx, source.WMSStock); err != nil || !known || !at.Equal(changed) {
		t.Errorf("watermark %s, known %v, %v", at, known, err)
	}
	if _, known, err := reader.Watermark(ctx, source.ERPPrices); err != nil || known {
		t.Errorf("the watermark of a feed that never was is known %v, %v", known, err)
	}
}

func TestAnotherValueAtTheSamePositionIsReportedWithoutValues(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	var log bytes.Buffer
	metrics := prometheus.NewRegistry()
	model := newModel(t, client, redis.ReadModelConfig{Logger: slog.New(slog.NewTextHandler(&log, nil)), Metrics: metrics})
	apply(t, model, stockEntry("A", 7, 31337))
	apply(t, model, stockEntry("A", 7, 31338))
	apply(t, model, stockEntry("B", 7, 31337), stockEntry("B", 7, 31338))
	apply(t, model, projections.Entry{Key: projections.StockKey("A"), Position: 7})
	if got := netOf(t, client, "A"); got != "31337" {
		t.Errorf("the stock is %s, want the first", got)
	}
	if got := count(t, metrics, "conflict"); got != 3 {
		t.Errorf("%v conflicts are counted, want 3", got)
	}
	if text := log.String(); strings.Count(text, "same position") != 3 || !strings.Contains(text, "key=stock:A position=7") || strings.Contains(text, "3133") {
		t.Errorf("log: %s", text)
	}
}

func count(t *testing.T, metrics *prometheus.Registry, outcome string) float64 {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetValue() == outcome {
					return metric.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}

func TestAStreamWithoutEventsIsAbsentUntilItsFirst(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	client := redistest.Open(t, config)
	model := newModel(t, client, redis.ReadModelConfig{})
	if err := model.Project(t.Context(), []eventstore.StateRecord{{Stream: stock.Aggregate.Stream("A")}}); err != nil {
		t.Fatal(err)
	}
	if got := netOf(t, client, "A"); got != "absent" {
		t.Errorf("the stock is %s, want absent", got)
	}
	for _, ttl := range ttls(t, config) {
		if ttl > redis.DefaultReadModelConfig().AbsentTTL {
			t.Errorf("the marker lives for %s", ttl)
		}
	}
	apply(t, model, stockEntry("A", 1, 5))
	if got := netOf(t, client, "A"); got != "5" {
		t.Errorf("the stock is %s, want 5", got)
	}
}

// ttls gives the times to live of all keys but the pointer.
func ttls(t *testing.T, config redis.Config) map[string]time.Duration {
	t.Helper()
	raw := redistest.Raw(t, config.Addrs...)
	keys, err := raw.Do(t.Context(), raw.B().Keys().Pattern(config.Prefix+"*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]time.Duration{}
	for _, key := range keys {
		if key == config.Prefix+"generation" {
			continue
		}
		milli, err := raw.Do(t.Context(), raw.B().Pttl().Key(key).Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		found[key] = time.Duration(milli) * time.Millisecond
	}
	return found
}

func TestKeysLiveNoLongerThanTheirSafetyTTLAndDoNotGoTogether(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	model := newModel(t, redistest.Open(t, config), redis.ReadModelConfig{TTLs: map[string]time.Duration{"price": time.Hour}})
	var entries []projections.Entry
	limits := map[string]time.Duration{"stock": 24 * time.Hour, "price": time.Hour, "product": 7 * 24 * time.Hour, "source": 7 * 24 * time.Hour}
	for model := range limits {
		for i := range 20 {
			entries = append(entries, projections.Entry{Key: fmt.Sprintf("%s:%d", model, i), Position: 1, Value: []byte("1 1")})
		}
	}
	apply(t, model, entries...)
	found := ttls(t, config)
	if len(found) != len(entries) {
		t.Fatalf("%d keys, want %d", len(found), len(entries))
	}
	distinct := map[time.Duration]bool{}
	for key, ttl := range found {
		for model, limit := range limits {
			if !strings.Contains(key, ":"+model+":") {
				continue
			}
			distinct[ttl.Round(time.Minute)] = true
			if ttl > limit || ttl < limit*7/8-time.Minute {
				t.Errorf("%s lives for %s, want at most %s", key, ttl, limit)
			}
		}
	}
	if len(distinct) < len(entries)/2 {
		t.Errorf("only %d different times to live", len(distinct))
	}
}

func TestARecordThatCannotBeProjectedDoesNotHoldTheBatch(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	metrics := prometheus.NewRegistry()
	model := newModel(t, client, redis.ReadModelConfig{Metrics: metrics})
	err := model.Project(t.Context(), []eventstore.StateRecord{
		{Stream: stock.Aggregate.Stream("broken"), Position: 1, State: []byte(`{"onHand":"many"}`)}, stockRecord(t, "A", 2, 4),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := netOf(t, client, "A"); got != "4" || count(t, metrics, "rejected") != 1 {
		t.Errorf("the stock is %s, %v rejected", got, count(t, metrics, "rejected"))
	}
}

func TestABatchOfAnySizeIsAppliedAndRead(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	model := newModel(t, client, redis.ReadModelConfig{})
	const many = 2345
	var entries []projections.Entry
	var skus []string
	for i := range many {
		skus = append(skus, fmt.Sprint("S", i))
		entries = append(entries, stockEntry(skus[i], int64(i+1), int64(i)))
	}
	apply(t, model, entries...)
	copied, err := redis.NewReader(client).Stock(t.Context(), skus)
	if err != nil || len(copied.Found) != many {
		t.Fatalf("%d found, %v", len(copied.Found), err)
	}
	for i, sku := range skus {
		if copied.Found[sku].Net != int64(i) {
			t.Fatalf("%s has %d, want %d", sku, copied.Found[sku].Net, i)
		}
	}
}

// A text that nobody of us writes says nothing of the SKU, least of all that there is none.
func TestWhatIsNoEntryIsLacking(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	client := redistest.Open(t, config)
	apply(t, newModel(t, client, redis.ReadModelConfig{}), stockEntry("A", 1, 5))
	raw := redistest.Raw(t, config.Addrs...)
	keys, err := raw.Do(t.Context(), raw.B().Keys().Pattern(config.Prefix+"*stock:A").Build()).AsStrSlice()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %v, %v", keys, err)
	}
	for _, text := range []string{"garbage", "", "{}", "null", "[]", "-1", "-1 x", "1x", "x 1"} {
		if err := raw.Do(t.Context(), raw.B().Set().Key(keys[0]).Value(text).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		if !redistest.Eventually(patience, func() bool { return netOf(t, client, "A") == "lacking" }) {
			t.Errorf("%q is answered as %s", text, netOf(t, client, "A"))
		}
	}
}
