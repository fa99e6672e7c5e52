package rebuild_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"andes/adapters/postgres"
	"andes/adapters/redis"
	"andes/eventstore"
	"andes/queries"
	"andes/rebuild"
	"andes/test/kafkatest"

	"log/slog"
)

// livePatience is for changes on their way on a machine that does other work too.
const livePatience = time.Minute

// settleFeed waits until Redis has what PostgreSQL has.
func (w *world) settleFeed() {
	w.t.Helper()
	kafkatest.Eventually(w.t, "the feed has brought everything", func() bool { return len(w.differing()) == 0 })
}

// changesEvery is the pause of each of the writers between two changes: together 200 a second. The feed has to keep up with
// them, or no rebuild comes to its end; each writer waits for it now and then, as a slow machine needs.
const (
	writers      = 4
	changesEvery = 20 * time.Millisecond
	unseen       = 10 // changes of a writer, at the most
	looksEvery   = 5 * time.Millisecond
)

// changes changes stock until stop is called; levels only rise.
func (w *world) changes(ctx context.Context, next func(n int) string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	var counter atomic.Int64
	for range writers {
		all.Go(func() {
			ticker := time.NewTicker(changesEvery)
			defer ticker.Stop()
			for made := 1; ; made++ {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				n := counter.Add(1)
				changed := next(int(n))
				_, err := w.store.Execute(ctx, eventstore.Request{Command: level(changed, 1000+n, 1000+n)})
				if err != nil && ctx.Err() == nil {
					w.t.Error(err)
					return
				}
				for made%unseen == 0 && ctx.Err() == nil && !w.shows(ctx, changed, 1000+n) {
					<-ticker.C
				}
			}
		})
	}
	return sync.OnceFunc(func() { cancel(); all.Wait() })
}

// shows tells whether Redis has a level, or a later one.
func (w *world) shows(ctx context.Context, sku string, level int64) bool {
	copied, err := redis.NewReader(w.client).Stock(ctx, []string{sku})
	return err == nil && copied.Found[sku].Net >= level
}

// watcher reads stock, and finds answers that go back in time or lack a SKU.
type watcher struct {
	reader *queries.Fallback
	seen   map[string]int64
}

func (x *watcher) look(ctx context.Context, skus []string) error {
	found, err := x.reader.Stock(ctx, skus)
	if err != nil {
		return err
	}
	for _, sku := range skus {
		view, exists := found[sku]
		if !exists {
			return fmt.Errorf("%s is not there", sku)
		}
		if view.Net < x.seen[sku] {
			return fmt.Errorf("%s went back from %d to %d", sku, x.seen[sku], view.Net)
		}
		x.seen[sku] = view.Net
	}
	return nil
}

// watch has readers poll SKUs until stop is called.
func (w *world) watch(readers int, skus []string) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var all sync.WaitGroup
	for range readers {
		reader, err := queries.NewFallback(queries.FallbackConfig{
			Copy: redis.NewReader(w.client), States: w.store, PutBack: w.model.Project, Now: time.Now,
			CopyTimeout: busy, StatesTimeout: busy, SlotWait: busy, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			w.t.Fatal(err)
		}
		all.Go(func() {
			defer reader.Close()
			x := &watcher{reader, map[string]int64{}}
			ticker := time.NewTicker(looksEvery)
			defer ticker.Stop()
			for ; ctx.Err() == nil; <-ticker.C {
				if err := x.look(ctx, skus); err != nil && ctx.Err() == nil {
					w.t.Error(err)
					return
				}
			}
		})
	}
	return sync.OnceFunc(func() { cancel(); all.Wait() })
}

// PROJ-02: a rebuild lost what live traffic wrote; a second one in the process did nothing; two at a time
// disturbed each other.
func TestReadersSeeNothingOfRebuildsWhileChangesGoOn(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	const many, watched = 1500, 20
	w.fill(many)
	w.relay()
	for range 3 {
		w.feed()
	}
	w.settleFeed()
	var skus []string
	for i := range watched {
		skus = append(skus, sku(i))
	}
	stopReading := w.watch(10, skus)
	stopWriting := w.changes(t.Context(), func(n int) string {
		if n%3 == 0 {
			return sku(n / 3 % watched)
		}
		return sku(n % many)
	})
	r := w.rebuilder(func(c *rebuild.Config) { c.Patience = livePatience })
	for n := range 3 {
		run, err := r.Rebuild(t.Context(), rebuild.Request{})
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(n + 2); int64(run.Generation) != want || run.Mended != 0 {
			t.Errorf("run %d: %+v", n, run)
		}
		if _, err := r.Rollback(t.Context(), nil, "", ""); err != nil {
			t.Error(err)
		}
	}
	outcomes := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := r.Rebuild(t.Context(), rebuild.Request{})
			outcomes <- err
		}()
	}
	for range 2 {
		if err := <-outcomes; err != nil && !errors.Is(err, rebuild.ErrBusy) {
			t.Error(err)
		}
	}
	stopWriting()
	w.settleFeed()
	stopReading()
	for _, generation := range []string{"the serving one", "the kept one"} {
		w.expectSame()
		if _, err := r.Rollback(t.Context(), nil, "", ""); err != nil {
			t.Fatalf("%s: %v", generation, err)
		}
	}
}

func TestASecondRebuildAtOnceIsRefused(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	w.fill(10)
	holding, release := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- postgres.Rebuilds{DB: w.store.DB}.Exclusively(t.Context(), func(context.Context) error {
			close(holding)
			<-release
			return nil
		})
	}()
	<-holding
	r := w.rebuilder(nil)
	if _, err := r.Rebuild(t.Context(), rebuild.Request{}); !errors.Is(err, rebuild.ErrBusy) {
		t.Errorf("a second rebuild: %v", err)
	}
	if _, err := r.Rollback(t.Context(), nil, "", ""); !errors.Is(err, rebuild.ErrBusy) {
		t.Errorf("a rollback: %v", err)
	}
	if _, err := r.Verify(t.Context(), rebuild.Check{Repair: true}); !errors.Is(err, rebuild.ErrBusy) {
		t.Errorf("a repair: %v", err)
	}
	if _, err := r.Verify(t.Context(), rebuild.Check{}); err != nil {
		t.Errorf("looking is always allowed: %v", err)
	}
	w.expectPointer("1")
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.publish(w.set.Categories()...)
	if _, err := r.Rebuild(t.Context(), rebuild.Request{}); err != nil {
		t.Errorf("once the first is done: %v", err)
	}
}
