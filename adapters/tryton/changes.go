package tryton

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"andes/polling"
)

// stream is the rows of one model in the order of one of their stamps. A stamp may be that of a related
// record: "template.write_date".
//
// write_date is null until a row is written for the first time, so what changed is in two streams, that of
// create_date and that of write_date.
type stream struct {
	model string
	stamp string
	key   string // the field that says what the change is about
	where domain // nil: all rows
}

// row is what a stream says of a change.
type row struct {
	at  time.Time
	id  int64
	key string
}

func (r row) compare(other row) int {
	return cmp.Or(r.at.Compare(other.at), cmp.Compare(r.id, other.id))
}

// read gives up to limit rows from since on. The id breaks the ties of the stamp.
func (s stream) read(ctx context.Context, c *Client, since polling.Since, limit int, with settings) ([]row, error) {
	where, err := s.after(since)
	if err != nil {
		return nil, err
	}
	return s.search(ctx, c, where, "ASC", limit, with)
}

func (s stream) search(ctx context.Context, c *Client, where domain, direction string, limit int, with settings) ([]row, error) {
	if s.where != nil {
		where = append(where, s.where)
	}
	var found []fields
	err := c.call(ctx, reading, "model."+s.model+".search_read", &found,
		where, 0, limit, [][]string{{s.stamp, direction}, {"id", direction}}, []string{s.stamp, s.key}, with)
	if err != nil {
		return nil, err
	}
	rows := make([]row, len(found))
	for i, fields := range found {
		var at stamp
		var key *string
		if err := fields.read(map[string]any{s.stamp: &at, "id": &rows[i].id, s.key: &key}); err != nil {
			return nil, fmt.Errorf("%s: %w: %w", s.model, polling.ErrBroken, err)
		}
		rows[i].at = at.Time
		if key != nil {
			rows[i].key = *key
		}
	}
	return rows, nil
}

func (s stream) after(since polling.Since) (domain, error) {
	from := stamp{since.UpdatedAt}
	switch {
	case from.IsZero():
		return domain{term(s.stamp, "!=", nil)}, nil
	case since.ID == "":
		return domain{term(s.stamp, ">=", from)}, nil
	}
	id, err := strconv.ParseInt(since.ID, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s: cursor: %w", s.model, err)
	}
	return domain{either(term(s.stamp, ">", from), domain{term(s.stamp, "=", from), term("id", ">", id)})}, nil
}

// merge reads streams over the same ids as one. Where a stream was cut off, what the others have beyond
// that waits for the next page.
func merge(ctx context.Context, c *Client, streams []stream, since polling.Since, limit int, with settings) (rows []row, more bool, err error) {
	var end row
	for _, s := range streams {
		read, err := s.read(ctx, c, since, limit, with)
		if err != nil {
			return nil, false, err
		}
		rows = append(rows, read...)
		if len(read) < limit {
			continue
		}
		if last := read[len(read)-1]; !more || last.compare(end) < 0 {
			more, end = true, last
		}
	}
	slices.SortFunc(rows, row.compare)
	if more {
		rows = slices.DeleteFunc(rows, func(r row) bool { return r.compare(end) > 0 })
	}
	return rows, more, nil
}

// end is the last row of all streams. Where there is none, it stands before all that will be.
func end(ctx context.Context, c *Client, streams []stream, with settings) (row, error) {
	last := row{at: time.Unix(1, 0).UTC()}
	for _, s := range streams {
		read, err := s.search(ctx, c, domain{term(s.stamp, "!=", nil)}, "DESC", 1, with)
		if err != nil {
			return row{}, err
		}
		if len(read) > 0 && read[0].compare(last) > 0 {
			last = read[0]
		}
	}
	return last, nil
}

// recent is merge for a feed that is compared as a whole: without a cursor it begins at the end.
func recent(ctx context.Context, c *Client, streams []stream, since polling.Since, limit int, with settings) (rows []row, more bool, err error) {
	if !since.UpdatedAt.IsZero() {
		return merge(ctx, c, streams, since, limit, with)
	}
	last, err := end(ctx, c, streams, with)
	return []row{last}, false, err
}

// latest gives the rows that are the last ones about their key, in order. Every row tells of a change, and
// what it is is read of the record itself: once is enough.
func latest(rows []row) []row {
	last := make(map[string]int, len(rows))
	for i, r := range rows {
		last[r.key] = i
	}
	var kept []row
	for i, r := range rows {
		if r.key == "" || last[r.key] == i {
			kept = append(kept, r)
		}
	}
	return kept
}

// keys lists what rows are about.
func keys(rows []row) []string {
	var all []string
	for _, r := range rows {
		if r.key != "" {
			all = append(all, r.key)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// page reads products in the order of their ids; last is the last of these, 0 at the end.
func page(ctx context.Context, c *Client, where domain, limit int, with settings) (rows []row, last int64, err error) {
	var found []struct {
		ID   int64   `json:"id"`
		Code *string `json:"code"`
	}
	err = c.call(ctx, reading, "model.product.product.search_read", &found, where, 0, limit, [][]string{{"id", "ASC"}}, []string{"code"}, with)
	if err != nil || len(found) == 0 {
		return nil, 0, err
	}
	for _, product := range found {
		rows = append(rows, row{id: product.ID, key: text(product.Code)})
	}
	return rows, found[len(found)-1].ID, nil
}

// place is where a row stands in its feed.
func (r row) place(item polling.Item) polling.Change {
	return polling.Change{UpdatedAt: r.at, ID: strconv.FormatInt(r.id, 10), Item: item}
}

// fields are those of a record that were asked for. Those of a related record are in a member of their own:
// template.name is {"template.": {"name": …}}.
type fields map[string]json.RawMessage

// read decodes fields by their names.
func (f fields) read(into map[string]any) error {
	for name, target := range into {
		raw, err := f.find(name)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(raw, target); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (f fields) find(name string) (json.RawMessage, error) {
	relation, rest, related := strings.Cut(name, ".")
	if !related {
		raw, given := f[name]
		if !given {
			return nil, fmt.Errorf("%s is missing", name)
		}
		return raw, nil
	}
	raw, given := f[relation+"."]
	if !given {
		return nil, fmt.Errorf("%s is missing", name)
	}
	if rest == "" { // of a relation to many, a list
		return raw, nil
	}
	var inner fields
	if err := json.Unmarshal(raw, &inner); err != nil {
		return nil, fmt.Errorf("%s: %w", relation, err)
	}
	if inner == nil { // there is no related record
		return json.RawMessage("null"), nil
	}
	return inner.find(rest)
}
