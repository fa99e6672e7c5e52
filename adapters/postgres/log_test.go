package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"andes/adapters/postgres"
	"andes/eventstore"
	"andes/test/pgtest"
)

func openLog(t *testing.T, config postgres.Config) *postgres.Log {
	t.Helper()
	log, err := postgres.OpenLog(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	return log
}

// dayOne is when the first event of a written log was recorded; each of the next ones is a second later.
var dayOne = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// writeLog puts n events into the log by SQL, over three streams, with holes of ten between the positions.
func writeLog(t *testing.T, conn *pgx.Conn, n, payload int) {
	t.Helper()
	rows := make([][]any, n)
	for i := range rows {
		kind := []string{"stock.level_reported", "stock.reserved"}[i%2]
		meta := fmt.Sprintf(`{"correlationId":"c%d"}`, i%5)
		if i%5 == 4 {
			meta = `{}`
		}
		rows[i] = []any{int16(0), int64(10 * (i + 1)), fmt.Sprint("stock/", "ABC"[i%3:i%3+1]), int64(i/3 + 1), uuid.New(), kind, int16(1),
			`{"p":"` + strings.Repeat("x", payload) + `"}`, meta, dayOne.Add(time.Duration(i) * time.Second)}
	}
	columns := []string{"shard", "position", "stream", "version", "id", "type", "schema", "data", "meta", "recorded_at"}
	if _, err := conn.CopyFrom(t.Context(), pgx.Identifier{"events"}, columns, pgx.CopyFromRows(rows)); err != nil {
		t.Fatal(err)
	}
}

// positions walks and gives the positions of what came, and how many pages it took.
func positions(t *testing.T, log *postgres.Log, filter postgres.LogFilter, after, to int64) (found []int64, pages int) {
	t.Helper()
	for page, err := range log.Walk(t.Context(), filter, after, to) {
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, record := range page.Records {
			found = append(found, record.Position)
		}
	}
	return found, pages
}

func TestAWalkGivesWhatIsWantedOnceAndInOrder(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	const n = 2500 // three pages
	writeLog(t, sql(t, config), n, 1)
	log := openLog(t, config)
	want := func(wanted func(i int) bool) (positions []int64) {
		for i := range n {
			if wanted(i) {
				positions = append(positions, int64(10*(i+1)))
			}
		}
		return positions
	}
	for name, c := range map[string]struct {
		filter    postgres.LogFilter
		after, to int64
		wanted    func(i int) bool
	}{
		"all":                          {postgres.LogFilter{}, 0, 10 * n, func(int) bool { return true }},
		"between positions":            {postgres.LogFilter{}, 20, 49, func(i int) bool { return i == 2 || i == 3 }},
		"of a category":                {postgres.LogFilter{Category: "stock"}, 0, 10 * n, func(int) bool { return true }},
		"of another category":          {postgres.LogFilter{Category: "sto"}, 0, 10 * n, func(int) bool { return false }},
		"of a type":                    {postgres.LogFilter{Types: []string{"stock.reserved", "x.y"}}, 0, 10 * n, func(i int) bool { return i%2 == 1 }},
		"of all types but one":         {postgres.LogFilter{Without: []string{"stock.reserved"}}, 0, 10 * n, func(i int) bool { return i%2 == 0 }},
		"of a conversation":            {postgres.LogFilter{Correlation: "c3"}, 0, 10 * n, func(i int) bool { return i%5 == 3 }},
		"of a stream":                  {postgres.LogFilter{Stream: eventstore.Stream{Category: "stock", Key: "B"}}, 0, 10 * n, func(i int) bool { return i%3 == 1 }},
		"of a stream, in part":         {postgres.LogFilter{Stream: eventstore.Stream{Category: "stock", Key: "B"}, Types: []string{"stock.reserved"}}, 100, 20000, func(i int) bool { return i%3 == 1 && i%2 == 1 && i >= 10 && i < 2000 }},
		"of a stream, but one type":    {postgres.LogFilter{Stream: eventstore.Stream{Category: "stock", Key: "B"}, Without: []string{"stock.reserved"}}, 0, 10 * n, func(i int) bool { return i%3 == 1 && i%2 == 0 }},
		"of a stream that is not":      {postgres.LogFilter{Stream: eventstore.Stream{Category: "stock", Key: "%"}}, 0, 10 * n, func(int) bool { return false }},
		"between times, both included": {postgres.LogFilter{Since: dayOne.Add(5 * time.Second), Until: dayOne.Add(7 * time.Second)}, 0, 10 * n, func(i int) bool { return i >= 5 && i <= 7 }},
	} {
		t.Run(name, func(t *testing.T) {
			found, _ := positions(t, log, c.filter, c.after, c.to)
			if expected := want(c.wanted); !slices.Equal(found, expected) {
				t.Errorf("%d events, want %d: %v …", len(found), len(expected), found[:min(5, len(found))])
			}
		})
	}
}

func TestPagesAreBoundedInBytesAndAGreatEventStillComes(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	writeLog(t, sql(t, config), 30, 900<<10)
	log := openLog(t, config)
	for _, filter := range []postgres.LogFilter{{}, {Stream: eventstore.Stream{Category: "stock", Key: "A"}}} {
		for page, err := range log.Walk(t.Context(), filter, 0, 1000) {
			if err != nil || len(page.Records) == 0 || len(page.Records) > 9 {
				t.Errorf("a page of %d events: %v", len(page.Records), err)
			}
		}
	}
	if found, pages := positions(t, log, postgres.LogFilter{}, 0, 1000); len(found) != 30 || pages < 4 {
		t.Errorf("%d events in %d pages", len(found), pages)
	}
}

func TestATimeIsFoundInTheLogWithoutReadingIt(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	const n = 5000
	writeLog(t, sql(t, config), n, 1)
	log := openLog(t, config)
	since, until := dayOne.Add(1000*time.Second), dayOne.Add(2000*time.Second)
	after, to, err := log.Between(t.Context(), since, until)
	// A minute of seconds on both sides, for clocks that differ.
	if err != nil || after != 10*940 || to != 10*2060 {
		t.Errorf("(%d, %d] %v", after, to, err)
	}
	for name, c := range map[string][2]time.Time{
		"before all": {dayOne.Add(-time.Hour), dayOne.Add(-30 * time.Minute)},
		"after all":  {dayOne.Add(100 * time.Hour), {}},
	} {
		after, to, err := log.Between(t.Context(), c[0], c[1])
		if found, _ := positions(t, log, postgres.LogFilter{Since: c[0], Until: c[1]}, after, to); err != nil || len(found) != 0 || after < to && name == "before all" {
			t.Errorf("%s: (%d, %d] %v: %d events", name, after, to, err, len(found))
		}
	}
	if after, to, err := log.Between(t.Context(), time.Time{}, time.Time{}); err != nil || after != 0 || to != 10*n {
		t.Errorf("no bounds: (%d, %d] %v", after, to, err)
	}
	if position, err := log.Behind(t.Context(), 3); err != nil || position != 10*(n-3) {
		t.Errorf("the last three lie behind %d: %v", position, err)
	}
	if position, err := log.Behind(t.Context(), n); err != nil || position != 0 {
		t.Errorf("all lie behind %d: %v", position, err)
	}
}

func TestCountsAddUp(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	const n = 45_000 // three pages
	writeLog(t, sql(t, config), n, 1)
	log := openLog(t, config)
	byType, bySpan, reached := map[string]int64{}, map[time.Time]int64{}, int64(0)
	for page, err := range log.Count(t.Context(), postgres.LogFilter{Category: "stock"}, 0, 10*n, time.Hour) {
		if err != nil {
			t.Fatal(err)
		}
		for _, count := range page.Counts {
			byType[count.Type] += count.Events
			bySpan[count.Since.UTC()] += count.Events
		}
		reached = page.Reached
	}
	if byType["stock.reserved"] != n/2 || byType["stock.level_reported"] != n/2 || reached != 10*n {
		t.Errorf("%v up to %d", byType, reached)
	}
	if len(bySpan) != 13 || bySpan[dayOne.Add(time.Hour)] != 3600 {
		t.Errorf("%v", bySpan)
	}
	for page, err := range log.Count(t.Context(), postgres.LogFilter{Category: "order"}, 0, 10*n, time.Hour) {
		if err != nil || len(page.Counts) != 0 {
			t.Errorf("counted %v %v", page.Counts, err)
		}
	}
}

func TestStreamsAreListedWithTheirSizes(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	shop(t, store, 10, "A", "B")
	execute(t, store, place("o", 1, "A", "A"))
	log := openLog(t, config)
	sizes := map[string]int64{}
	for page, err := range log.Streams(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range page {
			sizes[size.Stream.String()] = size.Events
		}
	}
	if sizes["stock/A"] != 2 || sizes["stock/B"] != 1 || sizes["order/o"] != 1 {
		t.Errorf("%v", sizes)
	}
	for page, err := range log.Streams(t.Context(), "stock") {
		if err != nil || len(page) != 2 {
			t.Errorf("%v %v", page, err)
		}
	}
}

func TestTheLogIsReadWithoutTheRightToWrite(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	writeLog(t, sql(t, config), 10, 1)
	log := openLog(t, config)
	if err := log.TryToWrite(t.Context()); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range log.Walk(ctx, postgres.LogFilter{}, 0, 100) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	config.Schema = "nobody_made_this"
	if _, err := postgres.OpenLog(t.Context(), config); !errors.Is(err, postgres.ErrNotMigrated) {
		t.Errorf("%v", err)
	}
}
