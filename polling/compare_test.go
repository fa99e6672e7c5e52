package polling_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"andes/commands/product"
	"andes/eventstore"
	"andes/polling"
)

// roundOf makes a round over the bench's table, which says that it has total live records.
func (b *bench) roundOf(total int, counted *[]string, between func(page int)) polling.Comparing {
	page := 0
	fetch := func(ctx context.Context, since polling.Since) (polling.ChangePage, error) {
		if page++; between != nil {
			between(page)
		}
		got, err := b.table.fetch(ctx, since)
		got.Total = total
		return got, err
	}
	return polling.Comparing{
		Changes: polling.Changes{Fetch: b.table.fetch, Overlap: overlap, Now: noon},
		Round: &polling.Round{
			Every: time.Hour, Now: noon, Page: polling.Everything(fetch),
			Gone: func(_ context.Context, seen map[string]struct{}) ([]polling.Item, bool, error) {
				*counted = append(*counted, fmt.Sprintf("saw %d", len(seen)))
				return nil, false, nil
			},
			Counted: func(came, has int) { *counted = append(*counted, fmt.Sprintf("%d of %d", came, has)) },
		},
	}
}

// passes reads a source until a round is over.
func passes(t *testing.T, source polling.Source, n int) (items []polling.Item) {
	t.Helper()
	cursor := ""
	for range n {
		pass, err := source.Open(cursor)
		if err != nil {
			t.Fatal(err)
		}
		for more := true; more; {
			var page []polling.Item
			if page, more, err = pass.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
			items = append(items, page...)
			pass.Settle(nil)
			cursor = pass.Cursor()
		}
	}
	return items
}

// Between two pages of a listing one of its rows moves to its end and another goes: none of the rest is missed,
// what comes twice is counted once, and a source that gives less than it says it has is told of.
// Field case POLL-03.
func TestARoundReadsAListThatChangesUnderIt(t *testing.T) {
	b := newBench(t, 10)
	rows, _ := many(25, noon().Add(-time.Hour))
	b.table.put(rows...)
	var counted []string
	between := func(page int) {
		if page == 2 {
			b.table.put(row{id: "S0003", at: noon(), version: 2})
			b.table.mu.Lock()
			b.table.rows = b.table.rows[1:] // S0000, which was read
			b.table.mu.Unlock()
		}
	}
	items := passes(t, b.roundOf(26, &counted, between), 4)
	versions := map[string]int64{}
	for _, item := range items {
		versions[item.ID] = max(versions[item.ID], item.Version)
	}
	if len(versions) != 25 || versions["S0003"] != 2 {
		t.Errorf("%d records were read, S0003 at version %d", len(versions), versions["S0003"])
	}
	if got := fmt.Sprint(counted); got != "[saw 25 25 of 26]" {
		t.Errorf("told %s", got)
	}
}

// absences are what is taken for gone after rounds that saw these keys.
// Field case POLL-04.
func TestOnlyWhatTwoRoundsMissIsGone(t *testing.T) {
	b := newBench(t, 10)
	for i := range 5 {
		b.execute(product.Report{SKU: fmt.Sprint("S", i), Name: "n", SourceVersion: 1, At: noon()})
	}
	absence := polling.Absence[product.State]{
		States: b, Aggregate: product.Aggregate,
		Absent:  func(s product.State) bool { return s.Removed },
		Version: func(s product.State) int64 { return s.SourceVersion },
		Vanish: func(sku string, version int64) polling.Item {
			return polling.Item{ID: sku, Version: version}
		},
	}
	round := func(seen ...string) (gone []string, again bool) {
		t.Helper()
		keys := map[string]struct{}{}
		for _, key := range seen {
			keys[key] = struct{}{}
		}
		items, again, err := absence.Gone(t.Context(), keys)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			gone = append(gone, item.ID)
		}
		return gone, again
	}
	for _, step := range []struct {
		seen  []string
		gone  string
		again bool
	}{
		{[]string{"S0", "S1", "S2", "S3", "S4"}, "[]", false},
		{[]string{"S0", "S1", "S2"}, "[]", true},          // S3 and S4 are missed
		{[]string{"S0", "S1", "S2", "S4"}, "[S3]", false}, // S4 was only late
		{[]string{"S0", "S1", "S2", "S3"}, "[]", true},    // S4 again, once
	} {
		if gone, again := round(step.seen...); fmt.Sprint(gone) != step.gone || again != step.again {
			t.Errorf("after a round that saw %v: %v is gone, again %t; want %s, %t", step.seen, gone, again, step.gone, step.again)
		}
	}
	b.execute(product.Report{SKU: "S4", Name: "changed", SourceVersion: 2, At: noon()})
	if gone, again := round("S0", "S1", "S2", "S3"); len(gone) != 0 || !again {
		t.Errorf("%v is gone although it changed since it was missed", gone)
	}
}

func TestMostOfASourceIsNeverGoneAtOnce(t *testing.T) {
	b := newBench(t, 10)
	for i := range 50 {
		b.execute(product.Report{SKU: fmt.Sprint("S", i), Name: "n", SourceVersion: 1, At: noon()})
	}
	all := func(product.State) bool { return false }
	if missing, err := polling.Missing(t.Context(), b, product.Aggregate, map[string]struct{}{}, all); err == nil {
		t.Errorf("%d of 50 are gone", len(missing))
	}
	seen := map[string]struct{}{}
	for i := range 30 {
		seen[fmt.Sprint("S", i)] = struct{}{}
	}
	if missing, err := polling.Missing(t.Context(), b, product.Aggregate, seen, all); err != nil || len(missing) != 20 {
		t.Errorf("%d of 50 are gone, %v", len(missing), err)
	}
}

func (b *bench) execute(command eventstore.Command) {
	b.t.Helper()
	if _, err := b.store.Execute(b.t.Context(), eventstore.Request{Command: command}); err != nil {
		b.t.Fatal(err)
	}
}

// EachState implements polling.States.
func (b *bench) EachState(ctx context.Context, category string, take func([]eventstore.StateRecord) error) error {
	var streams []eventstore.Stream
	for key := range b.versions() {
		streams = append(streams, eventstore.Stream{Category: category, Key: key})
	}
	states, err := b.store.States(ctx, streams)
	for _, record := range states {
		err = errors.Join(err, take([]eventstore.StateRecord{record}))
	}
	return err
}

// noon is when these tests are.
func noon() time.Time { return time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC) }
