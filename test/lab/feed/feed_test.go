package feed_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"testing"
	"time"

	"andes/test/lab/feed"
	"andes/test/lab/labtest"
	"andes/test/lab/sim"
)

var start = time.Date(2011, 12, 5, 8, 0, 0, 0, time.UTC)

type item struct {
	ID        string `json:"id"`
	UpdatedAt string `json:"updatedAt"`
	Version   int64  `json:"version"`
	Deleted   bool   `json:"deleted"`
}

type page struct {
	Items   []item
	HasMore bool
	Total   int
	Now     string
}

func handler(t *feed.Table[int], now func() time.Time) http.Handler {
	return feed.Serve(t, now, func(r feed.Row[int]) any {
		return item{ID: r.ID, UpdatedAt: sim.Stamp(r.UpdatedAt), Version: r.Version, Deleted: r.Deleted}
	})
}

func at(offset time.Duration) func() time.Time { return func() time.Time { return start.Add(offset) } }

func set(t *testing.T, table *feed.Table[int], id string, offset time.Duration) feed.Row[int] {
	t.Helper()
	row, err := table.Change(id, at(offset), func(v int, _ bool) (int, error) { return v + 1, nil })
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func get(t *testing.T, h http.Handler, query string) page {
	t.Helper()
	return labtest.Do[page](t, h, http.MethodGet, "/feed?"+query, "", http.StatusOK)
}

func ids(p page) (out string) {
	for _, i := range p.Items {
		out += i.ID
	}
	return out
}

func TestPagesGoThroughTiesWithoutLossOrRepeat(t *testing.T) {
	table := feed.New[int](0)
	for i := range 25 {
		set(t, table, fmt.Sprintf("%02d", i), time.Duration(i/10)*time.Second)
	}
	h := handler(table, at(time.Hour))
	var got string
	query := "limit=7"
	for range 10 { // 4 pages; the bound is for a server that never ends
		p := get(t, h, query)
		got += ids(p)
		if p.Total != 25 {
			t.Fatalf("total %d", p.Total)
		}
		if !p.HasMore {
			break
		}
		last := p.Items[len(p.Items)-1]
		query = url.Values{"updatedSince": {last.UpdatedAt}, "afterId": {last.ID}, "limit": {"7"}}.Encode()
	}
	if got != "00010203040506070809101112131415161718192021222324" {
		t.Fatalf("read %s", got)
	}
}

func TestWithoutAfterIdTheRowsOfThatMomentAreIncluded(t *testing.T) {
	table := feed.New[int](0)
	set(t, table, "a", 0)
	set(t, table, "b", time.Second)
	set(t, table, "c", time.Second)
	h := handler(table, at(time.Hour))
	since := url.QueryEscape(sim.Stamp(start.Add(time.Second)))
	if got := ids(get(t, h, "updatedSince="+since)); got != "bc" {
		t.Fatalf("without afterId: %s", got)
	}
	if got := ids(get(t, h, "updatedSince="+since+"&afterId=b")); got != "c" {
		t.Fatalf("after b: %s", got)
	}
	if got := ids(get(t, h, "updatedSince="+since+"&afterId=")); got != "bc" {
		t.Fatalf("after the empty id: %s", got)
	}
}

func TestAChangedRowMovesToTheEndWithAHigherVersion(t *testing.T) {
	table := feed.New[int](100)
	set(t, table, "a", 0)
	set(t, table, "b", 0)
	set(t, table, "a", time.Minute)
	p := get(t, handler(table, at(time.Hour)), "")
	if ids(p) != "ba" || p.Items[0].Version != 101 || p.Items[1].Version != 102 {
		t.Fatalf("items %+v", p.Items)
	}
	if p.Now != "2011-12-05T09:00:00.000Z" {
		t.Fatalf("now %s", p.Now)
	}
}

func TestADeletedRowStaysAsATombstoneAndMayComeBack(t *testing.T) {
	table := feed.New[int](0)
	set(t, table, "a", 0)
	set(t, table, "b", 0)
	if _, ok, err := table.Delete("a", at(time.Second)); !ok || err != nil {
		t.Fatalf("delete: %v %v", ok, err)
	}
	if _, ok, _ := table.Delete("a", at(time.Second)); ok {
		t.Fatal("deleted twice")
	}
	p := get(t, handler(table, at(0)), "")
	if ids(p) != "ba" || !p.Items[1].Deleted || p.Items[1].Version != 2 || p.Total != 1 {
		t.Fatalf("page %+v", p)
	}
	if _, ok := table.Get("a"); ok {
		t.Fatal("a deleted row is served")
	}
	if row := set(t, table, "a", 2*time.Second); row.Version != 3 || row.Deleted || row.Value != 1 || table.Len() != 2 {
		t.Fatalf("row %+v", row)
	}
}

func TestBadQueriesAreRefused(t *testing.T) {
	h := handler(feed.New[int](0), at(0))
	for _, query := range []string{"limit=0", "limit=x", "updatedSince=yesterday", "afterId=a"} {
		labtest.Do[map[string]string](t, h, http.MethodGet, "/feed?"+query, "", http.StatusBadRequest)
	}
}

func TestThePageIsCutAtItsBounds(t *testing.T) {
	table := feed.New[int](0)
	for i := range 1500 {
		set(t, table, fmt.Sprintf("%04d", i), 0)
	}
	h := handler(table, at(0))
	if n := len(get(t, h, "").Items); n != 200 {
		t.Fatalf("default page of %d", n)
	}
	if p := get(t, h, "limit=100000"); len(p.Items) != 1000 || !p.HasMore {
		t.Fatalf("largest page of %d", len(p.Items))
	}
}

// A row that changes into a millisecond already read, with a smaller id, is
// missed by a cursor alone. A reader that begins each round a little before
// its cursor misses nothing.
func TestAReaderWithOverlapSeesEachLatestVersionWhileRowsChange(t *testing.T) {
	table := feed.New[int](0)
	rnd := rand.New(rand.NewPCG(1, 2))
	clock := time.Duration(0)
	change := func() {
		clock += time.Duration(rnd.IntN(2)) * time.Millisecond
		set(t, table, fmt.Sprintf("%03d", rnd.IntN(200)), clock)
	}
	seen := map[string]int64{}
	newest := time.Time{}
	round := func(between func()) {
		cursor := feed.Cursor{Since: newest.Add(-2 * time.Millisecond)}
		for more := true; more; {
			var rows []feed.Row[int]
			rows, more, _ = table.After(cursor, 7)
			for _, row := range rows {
				seen[row.ID] = max(seen[row.ID], row.Version)
				newest = row.UpdatedAt
				cursor = feed.Cursor{Since: row.UpdatedAt, AfterID: row.ID, HasID: true}
			}
			between()
		}
	}
	for range 300 {
		change()
		round(func() {
			if rnd.IntN(3) == 0 {
				change()
			}
		})
	}
	round(func() {})
	for _, row := range table.All() {
		if seen[row.ID] != row.Version {
			t.Fatalf("row %s: seen version %d of %d", row.ID, seen[row.ID], row.Version)
		}
	}
}

func TestLoadRefusesADoubleId(t *testing.T) {
	err := feed.New[int](0).Load([]feed.Row[int]{{ID: "a"}, {ID: "a"}})
	if err == nil {
		t.Fatal("loaded")
	}
}
