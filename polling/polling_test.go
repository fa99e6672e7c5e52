package polling_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"andes/catalogue"
	"andes/commands/product"
	"andes/commands/source"
	"andes/eventstore"
	"andes/polling"
)

// row of a table that is read as a change feed.
type row struct {
	id      string
	at      time.Time
	version int64
	hidden  bool
}

// table is a legacy system's table.
type table struct {
	mu    sync.Mutex
	rows  []row
	limit int
	reads int
	sent  int
	fault error // of the next read
	now   func() time.Time
}

func (t *table) put(rows ...row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range rows {
		t.rows = slices.DeleteFunc(t.rows, func(old row) bool { return old.id == r.id })
		t.rows = append(t.rows, r)
	}
	slices.SortFunc(t.rows, func(a, b row) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return strings.Compare(a.id, b.id)
	})
}

func (t *table) fetch(_ context.Context, since polling.Since) (polling.ChangePage, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reads++
	if t.fault != nil {
		return polling.ChangePage{}, t.fault
	}
	var page polling.ChangePage
	if t.now != nil {
		page.Now = t.now()
	}
	for _, r := range t.rows {
		before := r.at.Before(since.UpdatedAt) || r.at.Equal(since.UpdatedAt) && since.ID != "" && r.id <= since.ID
		switch {
		case before || r.hidden:
		case len(page.Changes) == t.limit:
			page.More = true
		default:
			t.sent++
			page.Changes = append(page.Changes, polling.Change{UpdatedAt: r.at, ID: r.id, Item: polling.Item{
				ID: r.id, Version: r.version, Command: product.Report{SKU: r.id, Name: fmt.Sprint(r.id, " v", r.version), SourceVersion: r.version, At: r.at},
			}})
		}
	}
	return page, nil
}

// alone is a lease that nobody else wants.
type alone struct{}

func (alone) Hold(ctx context.Context, _ string, work func(context.Context) error) error {
	return work(ctx)
}

// flaky is an executor that fails for chosen products.
type flaky struct {
	eventstore.Executor
	mu     sync.Mutex
	faults map[string][]error // by SKU; one per call
}

func (f *flaky) Execute(ctx context.Context, r eventstore.Request) (eventstore.Outcome, error) {
	if report, is := r.Command.(product.Report); is {
		f.mu.Lock()
		faults := f.faults[report.SKU]
		if len(faults) > 0 {
			f.faults[report.SKU] = faults[1:]
			f.mu.Unlock()
			return eventstore.Outcome{}, faults[0]
		}
		f.mu.Unlock()
	}
	return f.Executor.Execute(ctx, r)
}

type bench struct {
	t      *testing.T
	store  *eventstore.Memory
	faults *flaky
	table  *table
	poller *polling.Poller

	lookback time.Duration
	rejects  map[string]eventstore.Code
}

const overlap = 5 * time.Second

func newBench(t *testing.T, limit int) *bench {
	t.Helper()
	registry, err := catalogue.Registry()
	if err != nil {
		t.Fatal(err)
	}
	ids := 0
	store := eventstore.NewMemory(registry, time.Now, func() string { ids++; return fmt.Sprint(ids) })
	b := &bench{
		t: t, store: store, table: &table{limit: limit},
		faults: &flaky{Executor: store, faults: map[string][]error{}}, rejects: map[string]eventstore.Code{},
	}
	b.restart(0)
	return b
}

// restart is another process that goes on with what is stored.
func (b *bench) restart(maxPages int) {
	b.t.Helper()
	poller, err := polling.New(polling.Config{
		Feed: source.ERPProducts, Executor: b.faults, Reader: b.store, Lease: alone{},
		Source: polling.Changes{Fetch: b.table.fetch, Overlap: overlap, Lookback: b.lookback, LookbackEvery: time.Minute, Now: time.Now},
		Now:    time.Now, Log: slog.New(slog.DiscardHandler), MaxPages: maxPages,
		Rejects: func(_ context.Context, r polling.Reject) {
			key := fmt.Sprintf("%s@%d", r.ID, r.Version)
			if _, twice := b.rejects[key]; twice {
				b.t.Errorf("%s was rejected twice", key)
			}
			b.rejects[key] = r.Code
		},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.poller = poller
}

func (b *bench) poll() error {
	b.t.Helper()
	_, err := b.poller.Poll(b.t.Context())
	return err
}

func (b *bench) mustPoll() {
	b.t.Helper()
	if err := b.poll(); err != nil {
		b.t.Fatal(err)
	}
}

// versions of all known products.
func (b *bench) versions() map[string]int64 {
	records, err := b.store.ReadAll(b.t.Context(), 0, 100_000)
	if err != nil {
		b.t.Fatal(err)
	}
	streams := map[eventstore.Stream]bool{}
	for _, r := range records {
		if r.Stream.Category == product.Aggregate.Name {
			streams[r.Stream] = true
		}
	}
	states, err := b.store.States(b.t.Context(), slices.Collect(maps.Keys(streams)))
	if err != nil {
		b.t.Fatal(err)
	}
	found := map[string]int64{}
	for stream, kept := range states {
		state, err := product.Aggregate.Decode(kept.State)
		if err != nil {
			b.t.Fatal(err)
		}
		found[stream.Key] = state.SourceVersion
	}
	return found
}

func (b *bench) source() source.State {
	stream := source.Aggregate.Stream(source.ERPProducts)
	states, err := b.store.States(b.t.Context(), []eventstore.Stream{stream})
	if err != nil {
		b.t.Fatal(err)
	}
	state, err := source.Aggregate.Decode(states[stream].State)
	if err != nil {
		b.t.Fatal(err)
	}
	return state
}

func (b *bench) expect(want map[string]int64) {
	b.t.Helper()
	if got := b.versions(); !maps.Equal(got, want) {
		b.t.Errorf("products are %v, want %v", got, want)
	}
}

func many(n int, at time.Time) (rows []row, want map[string]int64) {
	want = map[string]int64{}
	for i := range n {
		id := fmt.Sprintf("S%04d", i)
		rows = append(rows, row{id: id, at: at, version: 1})
		want[id] = 1
	}
	return rows, want
}

// Field case POLL-01.
func TestAllOfOneMomentAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 7)
		rows, want := many(100, time.Now().Add(-time.Hour))
		b.table.put(rows...)
		begun := time.Now().UTC()
		b.mustPoll()
		b.expect(want)
		if synced := b.source().SyncedAt; !synced.Equal(begun) {
			t.Errorf("synced at %s, want when the poll began, %s", synced, begun)
		}
	})
}

func TestAnIdleFeedCostsOneEmptyPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 10)
		rows, want := many(100, time.Now())
		b.table.put(rows...)
		for range 4 {
			b.mustPoll()
			time.Sleep(overlap)
		}
		b.table.reads, b.table.sent = 0, 0
		for range 5 {
			b.mustPoll()
			time.Sleep(overlap)
		}
		if b.table.reads != 5 || b.table.sent != 0 {
			t.Errorf("%d pages with %d records were read in 5 polls", b.table.reads, b.table.sent)
		}
		b.expect(want)
		if synced := b.source().SyncedAt; time.Since(synced) != overlap {
			t.Errorf("synced at %s although the feed was read to its end", synced)
		}
	})
}

// Field case POLL-01.
func TestRecordsThatBecomeVisibleLateAreRead(t *testing.T) {
	for _, skew := range []time.Duration{-3 * time.Minute, 0, 3 * time.Minute} {
		t.Run(fmt.Sprint("clock of the source ", skew), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 10)
				at := time.Now().Add(skew)
				b.table.put(row{id: "A", at: at, version: 1}, row{id: "C", at: at, version: 1})
				b.mustPoll()
				// The same moment, an id below; and a moment that has passed.
				b.table.put(row{id: "B", at: at, version: 1}, row{id: "Z", at: at.Add(-overlap), version: 1})
				time.Sleep(overlap - time.Millisecond)
				b.mustPoll()
				b.expect(map[string]int64{"A": 1, "B": 1, "C": 1, "Z": 1})
			})
		})
	}
}

// Field case POLL-01.
func TestARecordThatIsVeryLateIsFoundByLookingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 10)
		b.lookback = 10 * time.Minute
		b.restart(0)
		follow := func(d time.Duration) {
			for begun := time.Now(); time.Since(begun) < d; time.Sleep(5 * time.Second) {
				b.mustPoll()
			}
		}
		rows, want := many(50, time.Now())
		b.table.put(rows...)
		follow(time.Minute)
		for i, late := range []time.Duration{2 * time.Minute, 9 * time.Minute} {
			id := fmt.Sprint("LATE", i)
			b.table.put(row{id: id, at: time.Now().Add(-late), version: 1})
			want[id] = 1
			follow(65 * time.Second)
			b.expect(want)
		}
		follow(15 * time.Minute)
		b.table.reads, b.table.sent = 0, 0
		follow(10 * time.Minute)
		if b.table.sent != 0 || b.table.reads != 120 {
			t.Errorf("%d records on %d pages were read of a feed where nothing happens", b.table.sent, b.table.reads)
		}
	})
}

func TestAStampOfTheFutureHidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3)
		b.table.now = time.Now
		b.table.put(row{id: "Z", at: time.Now().Add(24 * time.Hour), version: 1})
		want := map[string]int64{"Z": 1}
		for i := range 20 {
			id := fmt.Sprint("S", i)
			b.table.put(row{id: id, at: time.Now(), version: 1})
			want[id] = 1
			time.Sleep(2 * time.Second)
			b.mustPoll()
			time.Sleep(2 * time.Second)
		}
		b.expect(want)
		b.table.sent = 0
		b.mustPoll()
		if b.table.sent > 3 {
			t.Errorf("%d records were read again", b.table.sent)
		}
	})
}

func TestLateRecordsAreReadWhileOthersChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 3)
		want := map[string]int64{}
		for i := range 200 {
			now := time.Now()
			id := fmt.Sprintf("S%03d", i%40)
			version := int64(i/40 + 1)
			// Every third transaction commits 4 s after it stamped its row.
			at := now
			if i%3 == 0 {
				at = now.Add(-4 * time.Second)
			}
			b.table.put(row{id: id, at: at, version: version})
			want[id] = version
			if i%4 == 0 {
				b.mustPoll()
			}
			time.Sleep(700 * time.Millisecond)
		}
		b.mustPoll()
		b.expect(want)
	})
}

// Field case POLL-03.
func TestARecordThatMovesBetweenPagesIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 10)
		start := time.Now()
		rows, want := many(250, start)
		b.table.put(rows...)
		moved := false
		fetch := b.table.fetch
		poller, err := polling.New(polling.Config{
			Feed: source.ERPProducts, Executor: b.store, Reader: b.store, Lease: alone{}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
			Source: polling.Changes{Overlap: overlap, Now: time.Now, Fetch: func(ctx context.Context, since polling.Since) (polling.ChangePage, error) {
				page, err := fetch(ctx, since)
				if !moved {
					moved = true
					b.table.put(row{id: "S0003", at: start.Add(time.Second), version: 2})
					b.table.mu.Lock()
					b.table.rows = slices.DeleteFunc(b.table.rows, func(r row) bool { return r.id == "S0005" })
					b.table.mu.Unlock()
				}
				return page, err
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := poller.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
		want["S0003"] = 2
		b.expect(want)
	})
}

// Field case POLL-05.
func TestABrokenPageIsAnErrorAndTheCursorStays(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	change := func(id string, at time.Time) polling.Change {
		return polling.Change{UpdatedAt: at, ID: id, Item: polling.Item{ID: id, Version: 1, Command: product.Report{SKU: id, Name: id, SourceVersion: 1, At: at}}}
	}
	cases := map[string][]polling.ChangePage{
		"more, but nothing came":     {{More: true}},
		"the same page again":        {{More: true, Changes: []polling.Change{change("A", at)}}, {More: true, Changes: []polling.Change{change("A", at)}}},
		"going back":                 {{More: true, Changes: []polling.Change{change("A", at)}}, {More: true, Changes: []polling.Change{change("B", at.Add(-time.Hour))}}},
		"records not in order":       {{Changes: []polling.Change{change("A", at), change("B", at.Add(-time.Second))}}},
		"more, but nothing to go by": {{More: true, Changes: []polling.Change{{Item: polling.Item{ID: "?", Fault: eventstore.Refuse("X", "no time")}}}}},
	}
	for name, pages := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, 10)
				b.table.put(row{id: "K", at: at.Add(-time.Minute), version: 1})
				b.mustPoll()
				before := b.source()
				n := 0
				poller, err := polling.New(polling.Config{
					Feed: source.ERPProducts, Executor: b.store, Reader: b.store, Lease: alone{}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
					Source: polling.Changes{Overlap: overlap, Now: time.Now, Fetch: func(context.Context, polling.Since) (polling.ChangePage, error) {
						n++
						return pages[min(n, len(pages))-1], nil
					}},
				})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := poller.Poll(t.Context()); !errors.Is(err, polling.ErrBroken) {
					t.Errorf("error %v, want a broken page", err)
				}
				if after := b.source(); !after.SyncedAt.Equal(before.SyncedAt) {
					t.Errorf("the feed counts as read: %+v", after)
				}
				time.Sleep(time.Second)
				b.mustPoll() // and the feed is read again as if nothing had been
			})
		})
	}
}

// Field case POLL-05.
func TestAPollGoesOnWhereAFaultStoppedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 10)
		at := time.Now().Add(-time.Hour)
		var want map[string]int64
		rows, want := many(100, at)
		for i := range rows {
			rows[i].at = at.Add(time.Duration(i) * time.Second)
		}
		b.table.put(rows...)
		b.restart(4) // pages of one poll
		if complete, err := b.poller.Poll(t.Context()); err != nil || complete {
			t.Fatalf("complete %v, %v", complete, err)
		}
		if synced := b.source().SyncedAt; !synced.IsZero() {
			t.Errorf("synced at %s although there is more", synced)
		}
		b.table.fault = errors.New("connection closed")
		if err := b.poll(); err == nil {
			t.Error("the fault was not told")
		}
		b.table.fault, b.table.sent = nil, 0
		b.restart(0)
		b.mustPoll()
		b.expect(want)
		if b.table.sent > 60+6 { // those of the overlap come again
			t.Errorf("%d records were read again or for the first time, want 60 and the overlap", b.table.sent)
		}
	})
}

// Field case POLL-07.
func TestOneBadRecordDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 30)
		rows, want := many(100, time.Now().Add(-time.Hour))
		rows[37].id = "bad "
		delete(want, "S0037")
		delete(want, "S0080")
		b.table.put(rows...)
		broken := errors.New("value too strange for the database")
		b.faults.faults["S0080"] = []error{broken, broken}
		for range 2 {
			if err := b.poll(); err == nil {
				t.Error("a record failed and the poll did not say so")
			}
		}
		b.expect(want)
		if synced := b.source().SyncedAt; !synced.IsZero() {
			t.Errorf("synced at %s although a record is missing", synced)
		}
		b.mustPoll()
		want["S0080"] = 1
		b.expect(want)
		if !maps.Equal(b.rejects, map[string]eventstore.Code{"bad @1": "SKU_INVALID"}) {
			t.Errorf("rejected: %v", b.rejects)
		}
	})
}

func TestARecordThatFailsForEverIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 30)
		rows, want := many(10, time.Now().Add(-time.Hour))
		b.table.put(rows...)
		broken := errors.New("value too strange for the database")
		b.faults.faults["S0003"] = slices.Repeat([]error{broken}, 50)
		for range 2 {
			if err := b.poll(); err == nil {
				t.Error("a record failed and the poll did not say so")
			}
		}
		b.mustPoll()
		delete(want, "S0003")
		b.expect(want)
		if b.rejects["S0003@1"] != polling.CodeFailed {
			t.Errorf("rejected: %v", b.rejects)
		}
	})
}

func TestAnExecutorThatCantWorkStopsThePollAndRejectsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 30)
		rows, want := many(10, time.Now().Add(-time.Hour))
		b.table.put(rows...)
		for i := range rows {
			b.faults.faults[rows[i].id] = slices.Repeat([]error{eventstore.ErrUnavailable}, 5)
		}
		for range 60 { // some are cancelled before they are tried
			if err := b.poll(); err == nil {
				break
			}
		}
		b.expect(want)
		if len(b.rejects) != 0 {
			t.Errorf("rejected: %v", b.rejects)
		}
	})
}

func TestACursorThatCantBeReadIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 10)
		_, err := b.store.Execute(t.Context(), eventstore.Request{Command: source.Advance{Feed: source.ERPProducts, Cursor: "of an older release"}})
		if err != nil {
			t.Fatal(err)
		}
		rows, want := many(25, time.Now().Add(-time.Hour))
		b.table.put(rows...)
		b.mustPoll()
		b.expect(want)
	})
}

func TestRunPollsAtItsIntervalWhileItHoldsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 10)
		ctx, stop := context.WithTimeout(t.Context(), 59*time.Second)
		defer stop()
		b.table.put(row{id: "A", at: time.Now().Add(-time.Hour), version: 1})
		time.AfterFunc(20*time.Second, func() { b.table.mu.Lock(); b.table.fault = errors.New("down"); b.table.mu.Unlock() })
		time.AfterFunc(40*time.Second, func() { b.table.mu.Lock(); b.table.fault = nil; b.table.mu.Unlock() })
		if err := b.poller.Run(ctx); err != nil {
			t.Error(err)
		}
		if b.table.reads != 12 {
			t.Errorf("%d polls in a minute, want 12", b.table.reads)
		}
		b.expect(map[string]int64{"A": 1})
	})
}
