package tryton

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"andes/polling"
)

// table answers search_read as Tryton does, over rows of its own.
type table []record

type record struct {
	id      int64
	code    string
	created time.Time
	written time.Time // zero: null
}

func (r record) value(field string) any {
	switch field {
	case "id":
		return r.id
	case "create_date":
		return stamp{r.created}
	case "write_date":
		return stamp{r.written}
	}
	return r.code
}

// Call implements Caller.
func (t table) Call(request *http.Request, answer any) (int, error) {
	var call struct {
		ID     int64             `json:"id"`
		Method string            `json:"method"`
		Params []json.RawMessage `json:"params"`
	}
	if err := json.NewDecoder(request.Body).Decode(&call); err != nil {
		return 0, err
	}
	var result any = []any{1, "session"}
	if call.Method != "common.db.login" {
		var where []any
		var limit int
		var order [][2]string
		if err := json.Unmarshal(call.Params[0], &where); err != nil {
			return 0, err
		}
		if err := json.Unmarshal(call.Params[2], &limit); err != nil {
			return 0, err
		}
		if err := json.Unmarshal(call.Params[3], &order); err != nil {
			return 0, err
		}
		result = t.search(where, limit, order[0][0])
	}
	text, err := json.Marshal(map[string]any{"id": call.ID, "result": result})
	if err != nil {
		return 0, err
	}
	return http.StatusOK, json.Unmarshal(text, answer)
}

func (t table) search(where []any, limit int, order string) []any {
	var found []record
	for _, r := range t {
		if r.fits(where) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b record) int {
		return cmp.Or(a.value(order).(stamp).Compare(b.value(order).(stamp).Time), cmp.Compare(a.id, b.id))
	})
	result := []any{}
	for _, r := range found[:min(limit, len(found))] {
		result = append(result, map[string]any{"id": r.id, "code": r.code, "create_date": stamp{r.created}, "write_date": stamp{r.written}})
	}
	return result
}

// fits evaluates a domain.
func (r record) fits(where []any) bool {
	if len(where) == 0 {
		return true
	}
	field, isTerm := where[0].(string)
	switch {
	case isTerm && field == "OR":
		return slices.ContainsFunc(where[1:], func(part any) bool { return r.fits(part.([]any)) })
	case isTerm:
		return r.holds(field, where[1].(string), where[2])
	}
	return !slices.ContainsFunc(where, func(part any) bool { return !r.fits(part.([]any)) })
}

func (r record) holds(field, operator string, value any) bool {
	if field == "id" {
		return r.id > int64(value.(float64))
	}
	mine := r.value(field).(stamp)
	if value == nil {
		return (operator == "!=") == !mine.IsZero()
	}
	if mine.IsZero() {
		return false
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	var given stamp
	if err := json.Unmarshal(text, &given); err != nil {
		panic(err)
	}
	switch order := mine.Compare(given.Time); operator {
	case "=":
		return order == 0
	case ">":
		return order > 0
	case ">=":
		return order >= 0
	}
	panic("operator " + operator)
}

// Every stamp of every row is read once, in order, whatever shares a stamp and wherever pages end.
func TestStreamsAreMergedWithoutAGap(t *testing.T) {
	both := []stream{{model: "x", stamp: "create_date", key: "code"}, {model: "x", stamp: "write_date", key: "code"}}
	rapid.Check(t, func(rt *rapid.T) {
		moment := func(label string) time.Time {
			return time.Date(2026, 1, 1, 0, 0, 0, rapid.IntRange(1, 4).Draw(rt, label)*1000, time.UTC)
		}
		rows := make(table, rapid.IntRange(0, 30).Draw(rt, "rows"))
		want := map[string]bool{}
		for i := range rows {
			rows[i] = record{id: int64(i + 1), code: "P" + strconv.Itoa(i), created: moment("created")}
			want[fmt.Sprint(rows[i].id, rows[i].created)] = true
			if rapid.Bool().Draw(rt, "written") {
				rows[i].written = moment("written")
				want[fmt.Sprint(rows[i].id, rows[i].written)] = true
			}
		}
		client, err := New(Config{URL: "http://tryton", Database: "d", User: "u", Password: "p", Caller: rows})
		if err != nil {
			rt.Fatal(err)
		}
		limit := rapid.IntRange(1, 7).Draw(rt, "limit")
		got := map[string]bool{}
		var since polling.Since
		var last row
		for more := true; more; {
			var page []row
			if page, more, err = merge(t.Context(), client, both, since, limit, nil); err != nil {
				rt.Fatal(err)
			}
			if len(page) > 2*limit || more && len(page) == 0 {
				rt.Fatalf("a page of %d rows with a limit of %d, more: %t", len(page), limit, more)
			}
			for _, r := range page {
				if r.compare(last) < 0 {
					rt.Fatalf("%v comes after %v", r, last)
				}
				last = r
				got[fmt.Sprint(r.id, r.at)] = true
			}
			if len(page) > 0 {
				end := page[len(page)-1].place(nothing)
				since = polling.Since{UpdatedAt: end.UpdatedAt, ID: end.ID}
			}
		}
		if len(got) != len(want) {
			rt.Fatalf("%d of %d changes were read", len(got), len(want))
		}
	})
}

func TestStampsKeepTheirMicroseconds(t *testing.T) {
	at := time.Date(2026, 11, 30, 19, 25, 41, 940297000, time.UTC)
	text, err := json.Marshal(stamp{at})
	if err != nil {
		t.Fatal(err)
	}
	var back stamp
	if err := json.Unmarshal(text, &back); err != nil || !back.Equal(at) {
		t.Errorf("%s is %s, %v", text, back, err)
	}
	if err := json.Unmarshal([]byte("null"), &back); err != nil || !back.IsZero() {
		t.Errorf("null is %s, %v", back, err)
	}
}

func TestOnlyWholeUnitsAreALevel(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
		fail bool
	}{
		{"150.0", 150, false}, {"-3.0", -3, false}, {"0.0", 0, false}, {"1e3", 1000, false},
		{"1.5", 0, true}, {"null", 0, true}, {"1e17", 0, true},
	} {
		var quantity *float64
		if err := json.Unmarshal([]byte(c.text), &quantity); err != nil {
			t.Fatal(err)
		}
		got, err := units(quantity)
		if got != c.want || (err != nil) != c.fail {
			t.Errorf("%s is %d, %v", c.text, got, err)
		}
	}
}

func TestPricesAreWrittenExactly(t *testing.T) {
	for _, c := range []struct{ amount, currency, plain, rounded string }{
		{"1.9900", "GBP", "1.99", "1.99"},
		{"4.4550", "GBP", "4.455", "4.46"},
		{"4.4650", "GBP", "4.465", "4.46"},
		{"1E+2", "GBP", "100", "100.00"},
		{"0E-4", "GBP", "0", "0.00"},
		{"1990.0000", "CLP", "1990", "1990"},
		{"12.3456", "KWD", "12.3456", "12.346"},
		{"-0.5000", "GBP", "-0.5", "-0.50"},
		{"NaN", "GBP", "NaN", "NaN"},
		{"", "GBP", "", ""},
	} {
		if got := plain(decimal(c.amount)); got != c.plain {
			t.Errorf("%q is plainly %q, not %q", c.amount, got, c.plain)
		}
		if got := rounded(decimal(c.amount), c.currency); got != c.rounded {
			t.Errorf("%q is rounded %q, not %q", c.amount, got, c.rounded)
		}
	}
}
