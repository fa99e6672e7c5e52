package polling_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"andes/commands/source"
	"andes/eventstore"
	"andes/polling"
)

var errOwn = errors.New("value too strange for the database")

// ledger is in memory, and shared by all processes of a test.
type ledger struct {
	mu    sync.Mutex
	open  map[string]polling.Reject
	again []string
	fault error
}

func (l *ledger) Reject(_ context.Context, r polling.Reject) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault == nil {
		l.open[r.ID] = r
	}
	return l.fault
}

func (l *ledger) Open(context.Context, string, int) (map[string]int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := map[string]int64{}
	for id, r := range l.open {
		open[id] = r.Version
	}
	return open, l.fault
}

func (l *ledger) Mend(_ context.Context, _ string, ids []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		delete(l.open, id)
	}
	return l.fault
}

func (l *ledger) Again(context.Context, string, int) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := l.again
	l.again = nil
	return ids, l.fault
}

func (l *ledger) ids() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.open))
}

// pick gives rows of the table by their names.
func (t *table) pick(ctx context.Context, ids []string) ([]polling.Item, error) {
	page, err := t.fetch(ctx, polling.Since{})
	var items []polling.Item
	for _, change := range page.Changes {
		if slices.Contains(ids, change.ID) {
			items = append(items, change.Item)
		}
	}
	return items, err
}

func (b *bench) kept(l *ledger) {
	b.t.Helper()
	poller, err := polling.New(polling.Config{
		Feed: source.ERPProducts, Executor: b.faults, Reader: b.store, Lease: alone{}, Ledger: l,
		Source: polling.Picking{Source: polling.Changes{Fetch: b.table.fetch, Overlap: overlap, Now: time.Now}, From: b.table.pick},
		Now:    time.Now, Log: slog.New(slog.DiscardHandler), Interval: time.Second,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.poller = poller
}

// 100 records, of which number 37 can't be used and number 80 fails three times: 98 at once, 80 soon, and 37
// stays in the ledger until the source has it right, or is read once more when an operator wants it.
// Field case POLL-07.
func TestRecordsThatCantBeUsedStayInTheLedgerUntilTheyAreRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 1000)
		l := &ledger{open: map[string]polling.Reject{}}
		b.kept(l)
		rows, want := many(100, time.Now().Add(-time.Hour))
		b.table.put(rows...)
		broken := eventstore.Refuse("PRODUCT_INVALID", "what is that")
		b.faults.faults = map[string][]error{"S0037": {broken, broken, broken, broken, broken}, "S0080": {errOwn, errOwn}}
		if err := b.poll(); err == nil {
			t.Error("a record that failed was not told")
		}
		if got := len(b.versions()); got != 98 || !slices.Equal(l.ids(), []string{"S0037"}) {
			t.Errorf("%d at once, %v in the ledger", got, l.ids())
		}
		_ = b.poll()
		b.mustPoll()
		if got := len(b.versions()); got != 99 || !slices.Equal(l.ids(), []string{"S0037"}) {
			t.Errorf("%d then, %v in the ledger", got, l.ids())
		}
		b.kept(l) // another process
		b.mustPoll()
		time.Sleep(overlap + time.Second)
		b.mustPoll() // the last time that the feed gives it by itself
		l.again = []string{"S0037"}
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- b.poller.Run(ctx) }()
		time.Sleep(3 * time.Second)
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		b.expect(want)
		if len(l.ids()) != 0 {
			t.Errorf("%v is in the ledger", l.ids())
		}
	})
}

func TestALedgerThatCantBeWrittenHoldsTheCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 10)
		l := &ledger{open: map[string]polling.Reject{}, fault: eventstore.ErrUnavailable}
		b.kept(l)
		b.table.put(row{id: "A", at: time.Now().Add(-time.Hour), version: 1})
		b.faults.faults = map[string][]error{"A": {eventstore.Refuse("X", "x"), eventstore.Refuse("X", "x")}}
		if err := b.poll(); err == nil || b.source().Cursor != "" {
			t.Errorf("%v, the cursor is %q", err, b.source().Cursor)
		}
		l.fault = nil
		b.mustPoll()
		if !slices.Equal(l.ids(), []string{"A"}) {
			t.Errorf("%v is in the ledger", l.ids())
		}
	})
}
