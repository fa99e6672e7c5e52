// Package feed is a table of rows that is read by change time, the way real
// legacy systems offer their changes: sorted by (updatedAt, id), paged by the
// last row seen. Several rows may share a millisecond, a deleted row stays as
// a tombstone, and a changed row moves to the end while a reader is half way.
package feed

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"andes/test/lab/sim"
)

// MaxRows bounds a table, tombstones included.
const MaxRows = 500_000

// Row is one version of one item.
type Row[T any] struct {
	ID        string
	Value     T
	UpdatedAt time.Time // whole milliseconds
	Version   int64     // rises with each change of this row
	Deleted   bool
}

// Table holds the latest version of each row. It is safe for concurrent use.
type Table[T any] struct {
	mu      sync.RWMutex
	base    int64
	byID    map[string]*Row[T]
	ordered []*Row[T] // by (UpdatedAt, ID)
	live    int
}

// New makes an empty table; the first version of each row is base+1.
func New[T any](base int64) *Table[T] {
	return &Table[T]{base: base, byID: map[string]*Row[T]{}}
}

// Load fills an empty table in one step; rows without a version get the first.
func (t *Table[T]) Load(rows []Row[T]) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(rows) > MaxRows {
		return fmt.Errorf("load %d rows: %w", len(rows), sim.ErrFull)
	}
	t.byID = make(map[string]*Row[T], len(rows))
	t.ordered = make([]*Row[T], 0, len(rows))
	t.live = 0
	for _, row := range rows {
		if _, twice := t.byID[row.ID]; twice {
			return fmt.Errorf("load rows: id %q comes twice", row.ID)
		}
		row.UpdatedAt = row.UpdatedAt.UTC().Truncate(time.Millisecond)
		if row.Version == 0 {
			row.Version = t.base + 1
		}
		t.byID[row.ID] = &row
		t.ordered = append(t.ordered, &row)
		if !row.Deleted {
			t.live++
		}
	}
	slices.SortFunc(t.ordered, compare)
	return nil
}

// Change sets a row to what decide makes of its present value; decide may
// refuse. A row that was deleted is offered to decide as absent. The clock is
// read under the lock, so that a reader never sees a later change first.
func (t *Table[T]) Change(id string, now func() time.Time, decide func(value T, exists bool) (T, error)) (Row[T], error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.byID[id]
	var value T
	exists := old != nil && !old.Deleted
	if exists {
		value = old.Value
	}
	value, err := decide(value, exists)
	if err != nil {
		return Row[T]{}, err
	}
	return t.put(old, Row[T]{ID: id, Value: value, UpdatedAt: now()})
}

// Delete leaves a tombstone and returns it; false if there was no such row.
func (t *Table[T]) Delete(id string, now func() time.Time) (Row[T], bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.byID[id]
	if old == nil || old.Deleted {
		return Row[T]{}, false, nil
	}
	row, err := t.put(old, Row[T]{ID: id, Value: old.Value, UpdatedAt: now(), Deleted: true})
	return row, err == nil, err
}

// Purge takes a row away without a trace, as a clean-up in the field does.
func (t *Table[T]) Purge(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.byID[id]
	if old == nil {
		return false
	}
	at, _ := slices.BinarySearchFunc(t.ordered, old, compare)
	t.ordered = slices.Delete(t.ordered, at, at+1)
	delete(t.byID, id)
	if !old.Deleted {
		t.live--
	}
	return true
}

// Rewrite changes a row, or puts it, without a new stamp or version, as a
// script that goes past the application does.
func (t *Table[T]) Rewrite(row Row[T]) {
	t.Purge(row.ID)
	t.mu.Lock()
	defer t.mu.Unlock()
	row.UpdatedAt = row.UpdatedAt.UTC().Truncate(time.Millisecond)
	at, _ := slices.BinarySearchFunc(t.ordered, &row, compare)
	t.ordered = slices.Insert(t.ordered, at, &row)
	t.byID[row.ID] = &row
	if !row.Deleted {
		t.live++
	}
}

// Pick returns those of the rows that are there.
func (t *Table[T]) Pick(ids []string) (rows []Row[T], total int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, id := range ids {
		if row := t.byID[id]; row != nil {
			rows = append(rows, *row)
		}
	}
	return rows, t.live
}

func (t *Table[T]) put(old *Row[T], row Row[T]) (Row[T], error) {
	row.UpdatedAt = row.UpdatedAt.UTC().Truncate(time.Millisecond)
	row.Version = t.base + 1
	if old != nil {
		row.Version = old.Version + 1
		at, _ := slices.BinarySearchFunc(t.ordered, old, compare)
		t.ordered = slices.Delete(t.ordered, at, at+1)
		if !old.Deleted {
			t.live--
		}
	} else if len(t.ordered) >= MaxRows {
		return Row[T]{}, fmt.Errorf("row %q: %w", row.ID, sim.ErrFull)
	}
	at, _ := slices.BinarySearchFunc(t.ordered, &row, compare)
	t.ordered = slices.Insert(t.ordered, at, &row)
	t.byID[row.ID] = &row
	if !row.Deleted {
		t.live++
	}
	return row, nil
}

// Get returns a live row.
func (t *Table[T]) Get(id string) (Row[T], bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	row := t.byID[id]
	if row == nil || row.Deleted {
		return Row[T]{}, false
	}
	return *row, true
}

// Len is the number of live rows.
func (t *Table[T]) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.live
}

// All returns every row, tombstones included, in feed order.
func (t *Table[T]) All() []Row[T] {
	t.mu.RLock()
	defer t.mu.RUnlock()
	rows := make([]Row[T], len(t.ordered))
	for i, row := range t.ordered {
		rows[i] = *row
	}
	return rows
}

// Cursor says after which row a page starts.
type Cursor struct {
	Since   time.Time
	AfterID string
	HasID   bool // false: rows of exactly Since are included
}

// After returns at most limit rows, whether there are more, and the number of
// live rows of the whole table.
func (t *Table[T]) After(c Cursor, limit int) (rows []Row[T], more bool, total int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	from, _ := slices.BinarySearchFunc(t.ordered, c, func(row *Row[T], c Cursor) int {
		if n := row.UpdatedAt.Compare(c.Since); n != 0 {
			return n
		}
		// The wanted row is the first one after the cursor, so an equal row is before it.
		if c.HasID && row.ID <= c.AfterID {
			return -1
		}
		return 1
	})
	to := min(from+limit, len(t.ordered))
	rows = make([]Row[T], 0, to-from)
	for _, row := range t.ordered[from:to] {
		rows = append(rows, *row)
	}
	return rows, to < len(t.ordered), t.live
}

func compare[T any](a, b *Row[T]) int {
	if n := a.UpdatedAt.Compare(b.UpdatedAt); n != 0 {
		return n
	}
	return strings.Compare(a.ID, b.ID)
}

// Page is the answer of a feed.
type Page struct {
	Items   []any  `json:"items"`
	HasMore bool   `json:"hasMore"`
	Total   int    `json:"total"`
	Now     string `json:"now"`
}

// Serve answers GET <feed>?updatedSince=&afterId=&limit=, and
// GET <feed>?sku=&sku= of a feed whose ids are SKUs; show writes a row.
func Serve[T any](t *Table[T], now func() time.Time, show func(Row[T]) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		cursor, errCursor := readCursor(r)
		limit, errLimit := sim.Limit(r)
		if err := errors.Join(errCursor, errLimit); err != nil {
			sim.Refuse(w, http.StatusBadRequest, "%v", err)
			return
		}
		// The clock is read before the rows: a reader that trusts "now" then
		// never skips a change made in between.
		at := now()
		rows, more, total := t.read(r, cursor, limit)
		page := Page{Items: make([]any, 0, len(rows)), HasMore: more, Total: total, Now: sim.Stamp(at)}
		for _, row := range rows {
			page.Items = append(page.Items, show(row))
		}
		sim.Answer(w, http.StatusOK, page)
	}
}

// read answers for the rows that are named by a parameter sku, if it is there.
func (t *Table[T]) read(r *http.Request, cursor Cursor, limit int) (rows []Row[T], more bool, total int) {
	if ids := r.URL.Query()["sku"]; len(ids) > 0 {
		rows, total = t.Pick(ids[:min(len(ids), limit)])
		return rows, len(ids) > limit, total
	}
	return t.After(cursor, limit)
}

func readCursor(r *http.Request) (Cursor, error) {
	q := r.URL.Query()
	c := Cursor{AfterID: q.Get("afterId"), HasID: q.Has("afterId")}
	since := q.Get("updatedSince")
	if since == "" {
		if c.HasID {
			return c, errors.New("afterId needs updatedSince")
		}
		return c, nil
	}
	at, err := time.Parse(time.RFC3339Nano, since)
	if err != nil {
		return c, fmt.Errorf("updatedSince: %w", err)
	}
	c.Since = at
	return c, nil
}
