package rebuild_test

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"andes/adapters/postgres"
	"andes/adapters/redis"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/queries"
	"andes/rebuild"
	"andes/test/redistest"
)

func (w *world) whole() *rebuild.Whole {
	w.t.Helper()
	record := postgres.Rebuilds{DB: w.store.DB}
	whole, err := rebuild.NewWhole(rebuild.WholeConfig{Copy: w.model, Record: record, Rebuild: rebuild.Config{
		Set: w.set, Copy: w.model, States: w.store.DB, Ledger: record, Audit: record, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	return whole
}

// project has the read model told of SKUs' stock, and of no other change.
func (w *world) project(skus ...string) {
	w.t.Helper()
	streams := make([]eventstore.Stream, len(skus))
	for i, sku := range skus {
		streams[i] = stock.Aggregate.Stream(sku)
	}
	states, err := w.store.States(w.t.Context(), streams)
	if err != nil {
		w.t.Fatal(err)
	}
	var records []eventstore.StateRecord
	for _, record := range states {
		records = append(records, record)
	}
	if !redistest.Eventually(busy, func() bool { return w.model.Project(w.t.Context(), records) == nil }) {
		w.t.Fatal("Redis takes nothing")
	}
}

// nets gives what Redis alone says of the SKUs' stock.
func (w *world) nets(skus ...string) (nets []int64) {
	w.t.Helper()
	var copied map[string]queries.StockView
	if !redistest.Eventually(busy, func() (done bool) {
		found, err := redis.NewReader(w.client).Stock(w.t.Context(), skus)
		copied = found.Found
		return err == nil && len(found.Lacking) == 0
	}) {
		w.t.Fatalf("of %v Redis knows %v", skus, copied)
	}
	for _, sku := range skus {
		nets = append(nets, copied[sku].Net)
	}
	return nets
}

// check is a check that is tried until Redis is there.
func (w *world) check(whole *rebuild.Whole) {
	w.t.Helper()
	var err error
	if !redistest.Eventually(busy, func() bool { err = whole.Check(w.t.Context()); return err == nil }) {
		w.t.Fatal(err)
	}
}

// REDIS-02: after a failover writes that had been acknowledged are gone. Their offsets are committed, so nobody brings them
// again: the values are compared with the states before a watermark may say that they are right.
func TestWhatRedisLostOfItsLastWritesComesBack(t *testing.T) {
	t.Parallel()
	w := open(t, choice{ownRedis: true})
	w.execute(level("A", 1, 1), level("B", 1, 1), level("C", 1, 1))
	w.project("A", "B", "C")
	first := w.whole()
	w.check(first)
	w.check(first)
	w.server.Must("SAVE")
	w.execute(level("A", 2, 2), level("D", 2, 1), level("C", 0, 2))
	w.project("A", "C", "D")
	w.server.Kill()
	w.server.Start() // with what it had when it was saved
	w.project("B")   // which has not changed
	if got := w.nets("A", "B", "C"); !slices.Equal(got, []int64{1, 1, 1}) {
		t.Fatalf("Redis came back with %v", got)
	}
	w.check(w.whole()) // in another process: it goes by what the first one kept
	if got := w.nets("A", "B", "C", "D"); !slices.Equal(got, []int64{2, 1, 0, 2}) {
		t.Errorf("Redis has %v of the stock afterwards", got)
	}
	// The servers are the same since, so nothing is compared again.
	w.damage("DEL", w.key(1, "stock:D"))
	w.check(first)
	w.check(w.whole())
	if found, err := redis.NewReader(w.client).Stock(w.t.Context(), []string{"D"}); err != nil || len(found.Lacking) != 1 {
		t.Errorf("%+v, %v: it was compared without need", found, err)
	}
}

// While it can't be told whether the read model is whole, or while another one works on it, watermarks wait.
func TestAReadModelThatCannotBeComparedIsNotCalledWhole(t *testing.T) {
	t.Parallel()
	w := open(t, choice{ownRedis: true})
	whole := w.whole()
	err := postgres.Rebuilds{DB: w.store.DB}.Exclusively(t.Context(), whole.Check)
	if !errors.Is(err, rebuild.ErrBusy) {
		t.Errorf("beside a rebuild: %v", err)
	}
	w.server.Kill()
	if err := whole.Check(t.Context()); err == nil {
		t.Error("a Redis that is away is called whole")
	}
	w.server.Start()
	w.check(whole)
	w.server.Must("REPLICAOF", "127.0.0.1", "1")
	w.server.Must("REPLICAOF", "NO", "ONE")
	w.execute(level("A", 2, 1))
	w.check(whole)
	if got := w.nets("A"); !slices.Equal(got, []int64{2}) {
		t.Errorf("%v", got)
	}
}
