package wms_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"andes/adapters/wms"
	"andes/commands/order"
	"andes/commands/source"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/polling"
	"andes/test/lab/feed"
	sim "andes/test/lab/wms"
	"andes/test/legacytest"
)

// configured replaces the bench's adapter.
func (b *bench) configured(change func(*wms.Config)) {
	b.T.Helper()
	config := wms.Config{
		URL:      "http://wms",
		Caller:   b.Guard("wms", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { b.handler.ServeHTTP(w, r) })),
		Executor: b.Store, Reader: b.Store, Lease: legacytest.Alone{}, Log: slog.New(slog.DiscardHandler), PageSize: 10,
		Rejects: func(_ context.Context, r polling.Reject) { b.rejects[r.ID] = r.Code },
	}
	change(&config)
	adapter, err := wms.New(config)
	if err != nil {
		b.T.Fatal(err)
	}
	b.adapter = adapter
}

// after lets time pass, and what is due be done.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func levels(n int) []feed.Row[sim.Level] {
	rows := make([]feed.Row[sim.Level], n)
	for i := range rows {
		rows[i] = sim.LevelRow(sim.Level{SKU: fmt.Sprintf("S%02d", i), OnHand: 10}, time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC))
	}
	return rows
}

// The WMS lowers a level below what is held, then sends none at all: nothing more is sold, what can't be used
// is rejected alone and doubted, and the next level makes it right.
// Field case STOCK-09.
func TestAnOversoldSKUAndARecordWithoutALevelRecover(t *testing.T) {
	with(t, sim.Config{}, func(t *testing.T, b *bench) {
		read := func(version int, onHand string) {
			t.Helper()
			b.answer(fmt.Sprintf(`{"hasMore":false,"items":[{"sku":"USD",%s"updatedAt":%q,"version":%d}]}`, onHand, time.Now().Format(time.RFC3339), version))
			b.poll(b.adapter.Stock)
		}
		b.Place("o0", "acme", "5.00", "USD", "tok")
		refused := func() bool {
			_, err := b.Store.Execute(t.Context(), eventstore.Request{Command: order.Place{
				OrderID: "o9", Partner: "acme", Currency: "USD", PriceList: "USD", PaymentToken: "tok", Lines: []order.RequestedLine{{SKU: "USD", Quantity: 1}},
			}})
			return err != nil
		}
		read(2, `"onHand":1,`)
		if got := b.stock("USD").Net(); got != 0 || !refused() {
			t.Errorf("net %d", got)
		}
		read(3, `"onHand":-2,`)
		if got := b.stock("USD").Net(); got != -3 || !refused() {
			t.Errorf("net %d", got)
		}
		after(time.Minute)
		read(4, ``)
		if got := b.stock("USD"); got.Net() != -3 || got.Doubt.SourceVersion != 4 || !got.Doubt.At.Equal(time.Now()) || b.rejects["USD"] != wms.CodeRecordInvalid {
			t.Errorf("%+v, rejects %v", got, b.rejects)
		}
		read(5, `"onHand":6,`)
		if got := b.stock("USD"); got.Net() != 5 || !got.Doubt.At.IsZero() || refused() {
			t.Errorf("%+v after the recovery", got)
		}
	})
}

func TestAWarehouseIsComparedAsAWhole(t *testing.T) {
	with(t, sim.Config{Stock: levels(25)}, func(t *testing.T, b *bench) {
		b.configured(func(c *wms.Config) { c.States, c.CompareEvery = b, time.Minute })
		for range 3 {
			b.poll(b.adapter.Stock)
		}
		table := b.wms.Table()
		row, _ := table.Get("S03")
		row.Value.OnHand = 4
		table.Rewrite(row)
		gone, _ := table.Get("S04")
		table.Purge("S04")
		after(2 * time.Minute)
		for range 6 {
			b.poll(b.adapter.Stock)
		}
		if got := b.stock("S03").OnHand; got != 4 {
			t.Errorf("the rewritten level is %d", got)
		}
		if got := b.stock("S04"); got.OnHand != 0 || !got.Absent {
			t.Errorf("the purged level is %+v", got)
		}
		table.Rewrite(gone)
		after(2 * time.Minute)
		for range 3 {
			b.poll(b.adapter.Stock)
		}
		if got := b.stock("S04"); got.OnHand != 10 || got.Absent {
			t.Errorf("the level that came back is %+v", got)
		}
	})
}

// The SKUs of a promotion are read four times as often as the rest, one call for all of them, and not more
// often than a slow warehouse bears.
func TestUrgentSKUsAreReadMoreOften(t *testing.T) {
	with(t, sim.Config{Stock: levels(25)}, func(t *testing.T, b *bench) {
		var mu sync.Mutex
		var urgent []string
		var picks, polls, slow atomic.Int64
		warehouse := b.handler
		b.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/stock" {
				if r.URL.Query().Has("sku") {
					picks.Add(1)
					if got := r.URL.Query()["sku"]; !slices.Equal(got, []string{"S03", "S04", "none"}) {
						t.Errorf("%v were asked for", got)
					}
				} else {
					polls.Add(1)
				}
				time.Sleep(time.Duration(slow.Load()))
			}
			warehouse.ServeHTTP(w, r)
		})
		b.configured(func(c *wms.Config) {
			c.StockInterval, c.ShipmentInterval = 2*time.Second, time.Minute
			c.Urgent = func() []string { mu.Lock(); defer mu.Unlock(); return urgent }
		})
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- b.adapter.Run(ctx) }()
		count := func(length time.Duration) (int64, int64) {
			picks.Store(0)
			polls.Store(0)
			after(length)
			return picks.Load(), polls.Load()
		}
		after(10 * time.Minute) // the lookback is over
		if picked, polled := count(100 * time.Second); picked != 0 || polled < 45 || polled > 60 {
			t.Errorf("%d picks, %d polls without anything urgent", picked, polled)
		}
		mu.Lock()
		urgent = []string{"S03", "S04", "none"}
		mu.Unlock()
		after(2 * time.Second)
		if picked, polled := count(100 * time.Second); picked < 130 || picked > 160 || polled < 45 || polled > 60 {
			t.Errorf("%d picks, %d polls of something urgent", picked, polled)
		}
		if _, err := b.wms.SetStock("S03", 7); err != nil {
			t.Fatal(err)
		}
		after(600 * time.Millisecond)
		if got := b.stock("S03").OnHand; got != 7 {
			t.Errorf("the urgent level is %d", got)
		}
		slow.Store(int64(time.Second))
		after(time.Minute)
		if picked, polled := count(100 * time.Second); picked+polled > 40 {
			t.Errorf("%d picks, %d polls of a slow warehouse", picked, polled)
		}
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// A WMS that does not know the parameter answers its first page.
func TestAWarehouseThatGivesNoSingleLevelsIsOnlyPolled(t *testing.T) {
	with(t, sim.Config{}, func(t *testing.T, b *bench) {
		reads := map[bool]int{}
		b.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reads[r.URL.Query().Has("sku")]++
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"hasMore":false,"items":[{"sku":"OTHER","onHand":5,"updatedAt":"1999-01-02T03:04:05Z","version":1}]}`)
		})
		b.configured(func(c *wms.Config) {
			c.StockInterval, c.ShipmentInterval, c.Urgent = time.Second, time.Hour, func() []string { return []string{"A"} }
		})
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- b.adapter.Stock.Run(ctx) }()
		after(time.Minute)
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if reads[true] != 1 || reads[false] < 50 {
			t.Errorf("read %v", reads)
		}
	})
}

// Pushed levels and polled ones share a guard: whatever comes first, twice or late, the newest stays.
func TestPushedAndPolledLevelsMayCross(t *testing.T) {
	with(t, sim.Config{Stock: levels(1)}, func(t *testing.T, b *bench) {
		intake, err := polling.NewIntake(polling.IntakeConfig{Kinds: wms.Records(), Executor: b.Store, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		push := func(onHand, version int, want string) {
			t.Helper()
			record := fmt.Sprintf(`{"kind":"stock","sku":"S00","onHand":%d,"updatedAt":%q,"version":%d}`, onHand, time.Now().Format(time.RFC3339), version)
			got, err := intake.Take(t.Context(), eventstore.Metadata{CorrelationID: "c"}, []polling.Pushed{{Kind: "stock", Record: []byte(record)}})
			if err != nil || len(got) != 1 || got[0].Outcome != want || got[0].ID != "S00" {
				t.Errorf("version %d: %+v, %v", version, got, err)
			}
		}
		b.poll(b.adapter.Stock)
		push(9, 2, polling.Applied)
		push(9, 2, polling.Known)
		b.poll(b.adapter.Stock) // the feed still has version 1
		if got := b.stock("S00"); got.OnHand != 9 || got.SourceVersion != 2 {
			t.Errorf("after an older poll: %+v", got)
		}
		for _, onHand := range []int64{8, 7, 6} { // versions 2, 3, 4 of the feed
			if _, err := b.wms.SetStock("S00", onHand); err != nil {
				t.Fatal(err)
			}
		}
		b.poll(b.adapter.Stock)
		push(7, 3, polling.Known)
		if got := b.stock("S00"); got.OnHand != 6 || got.SourceVersion != 4 {
			t.Errorf("after a late push: %+v", got)
		}
		if meta := b.Events("stock.level_reported")[1].Meta; meta.CorrelationID != "c" || meta.Actor != "wms" {
			t.Errorf("a push is recorded with %+v", meta)
		}
		if synced := len(b.Events("source.synced")); synced == 0 {
			t.Error("the polls did not sync")
		}
	})
}

// One record with a version above all others must not be the last word of the warehouse.
func TestAWarehouseWhoseVersionsGoBackIsHeardAgain(t *testing.T) {
	with(t, sim.Config{Stock: levels(1)}, func(t *testing.T, b *bench) {
		b.configured(func(c *wms.Config) { c.States, c.CompareEvery = b, time.Minute })
		intake, err := polling.NewIntake(polling.IntakeConfig{Kinds: wms.Records(), Executor: b.Store, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		push := func(version int64) polling.Verdict {
			t.Helper()
			record := fmt.Sprintf(`{"sku":"S00","onHand":5,"updatedAt":%q,"version":%d}`, time.Now().Format(time.RFC3339), version)
			got, err := intake.Take(t.Context(), eventstore.Metadata{}, []polling.Pushed{{Kind: "stock", Record: []byte(record)}})
			if err != nil || len(got) != 1 {
				t.Fatalf("version %d: %+v, %v", version, got, err)
			}
			return got[0]
		}
		compare := func() stock.State {
			t.Helper()
			after(2 * time.Minute)
			b.poll(b.adapter.Stock)
			return b.stock("S00")
		}
		known := compare()
		after(time.Minute)
		if got := push(math.MaxInt64); got.Outcome != polling.Dropped || got.Code != wms.CodeRecordInvalid {
			t.Errorf("a version without room above it: %+v", got)
		}
		if got := b.stock("S00"); got.OnHand != known.OnHand || got.Doubt.At.IsZero() || got.Doubt.SourceVersion != 0 {
			t.Errorf("after it: %+v", got)
		}
		if got := push(1 << 61); got.Outcome != polling.Applied {
			t.Errorf("a huge version: %+v", got)
		}
		if got := compare(); got.OnHand != 5 || got.Doubt.Code != source.CodeWentBack {
			t.Errorf("after one comparison: %+v", got)
		}
		if got := compare(); got.OnHand != known.OnHand || got.SourceVersion != known.SourceVersion || !got.Doubt.At.IsZero() {
			t.Errorf("after two: %+v", got)
		}
		if _, err := b.wms.SetStock("S00", 41); err != nil {
			t.Fatal(err)
		}
		b.poll(b.adapter.Stock)
		if got := b.stock("S00").OnHand; got != 41 {
			t.Errorf("the next change is %d", got)
		}
	})
}
