package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"andes/commands/order"
	"andes/commands/partner"
	"andes/commands/sku"
	"andes/eventstore"
)

// bodies are complete, valid bodies of every endpoint that reads one from a partner or an operator.
var bodies = []struct {
	name, method, target string
	headers              []string
	good                 int
	body                 string
	optional             []string // may be left out
	mayBeEmpty           []string
}{
	{
		name: "order", method: http.MethodPost, target: "/v1/orders", good: 202, headers: []string{keyHeader, "K"},
		body: `{"partnerOrderRef":"R-1","currency":"GBP","lines":[{"sku":"A","quantity":2,"unitPrice":{"amount":"2.55","currency":"GBP"}},{"sku":"B","quantity":1}],
			"customer":{"name":"N","email":"n@example.test","phone":"1","address":"Street 1"},"payment":{"token":"tok_visa"}}`,
		optional:   []string{"/partnerOrderRef", "/lines/0/unitPrice", "/lines/*", "/customer", "/customer/*"},
		mayBeEmpty: []string{"/customer"},
	},
	{
		name: "stock query", method: http.MethodPost, target: "/v1/stock/query", good: 200,
		body: `{"skus":["A","B"]}`, optional: []string{"/skus/*"}, mayBeEmpty: []string{"/skus/*"},
	},
	{
		name: "price query", method: http.MethodPost, target: "/v1/prices/query", good: 200,
		body: `{"skus":["A","B"]}`, optional: []string{"/skus/*"}, mayBeEmpty: []string{"/skus/*"},
	},
	{
		name: "subscription", method: http.MethodPost, target: "/v1/subscriptions", good: 201,
		body: `{"url":"https://example.test/hook","types":["order.placed","order.cancelled"]}`, optional: []string{"/types/*"},
	},
	{
		name: "run", method: http.MethodPost, target: "/ops/dlq/oms/runs", good: 200, headers: []string{"Authorization", asAdmin},
		body: `{"action":"replayed","filter":{"topic":"t","class":"behind","partner":"acme","key":"k","type":"order.placed","error":"e",
			"headers":[{"name":"n","value":"v"}],"since":"2026-01-01T00:00:00Z","until":"2026-02-01T00:00:00+01:00","letters":["oms/3/17"]},"limit":5,"rate":5,"reason":"r"}`,
		optional:   []string{"/filter", "/filter/*", "/filter/headers/*", "/filter/letters/*", "/limit", "/rate", "/reason"},
		mayBeEmpty: []string{"/filter", "/filter/headers", "/filter/letters", "/filter/headers/0/value"},
	},
	{
		name: "rehearsal", method: http.MethodPost, target: "/ops/dlq/oms/rehearsals", good: 200, headers: []string{"Authorization", asAdmin},
		body: `{"filter":{"key":"k"},"limit":5}`, optional: []string{"/filter", "/filter/key", "/limit"}, mayBeEmpty: []string{"", "/filter"},
	},
	{
		name: "edit", method: http.MethodPost, target: "/ops/dlq/oms/letters/3/17/edit", good: 200, headers: []string{"Authorization", asAdmin},
		body: `{"payload":"{}","reason":"r"}`,
	},
	{
		name: "partner", method: http.MethodPut, target: "/ops/partners/new", good: 200, headers: []string{"Authorization", "Bearer ops:ops-admin"},
		body: `{"name":"N","tier":"gold","policy":{"priceList":"retail","currency":"GBP","safetyBuffer":1,"visibleCap":10,"discounts":[
			{"sku":"A","segment":"toys","percent":"12.5","from":"2026-01-01T00:00:00Z","until":"2026-02-01T00:00:00+01:00"},{"amount":{"amount":"0.10","currency":"GBP"}}]}}`,
		optional: []string{
			"/policy/safetyBuffer", "/policy/visibleCap", "/policy/discounts", "/policy/discounts/*",
			"/policy/discounts/0/sku", "/policy/discounts/0/segment", "/policy/discounts/0/from", "/policy/discounts/0/until",
		},
		mayBeEmpty: []string{"/policy/discounts"},
	},
}

// wrong are values that no member may have, by how they are called.
func wrongValues(of any) map[string]string {
	wrong := map[string]string{
		"null": "null", "true": "true", "huge number": "1e400", "large number": "9223372036854775808", "negative": "-1", "exponent": "1e3", "fraction": "1.5",
		"NUL": `"a\u0000b"`, "lone surrogate": `"\ud800"`, "10,000 characters": `"` + strings.Repeat("x", 10_000) + `"`, "invalid UTF-8": "\"\xff\"", "bare word": "nul",
	}
	switch of.(type) {
	case string:
		wrong["empty"], wrong["list"], wrong["object"], wrong["number"] = `""`, `["x"]`, `{"x":1}`, "7"
	case float64:
		wrong["zero text"], wrong["list"], wrong["object"], wrong["text"] = `""`, "[1]", "{}", `"2"`
	case []any:
		wrong["empty"], wrong["object"], wrong["text"], wrong["list of lists"], wrong["too long"] = "[]", `{"0":1}`, `"x"`, "[[]]", "["+strings.Repeat("null,", 2000)+"null]"
	case map[string]any:
		wrong["empty"], wrong["list"], wrong["text"] = "{}", "[]", `"x"`
	}
	return wrong
}

// places walks a JSON value and gives the pointer of every value in it.
func places(at string, value any, visit func(pointer string, value any)) {
	visit(at, value)
	switch parent := value.(type) {
	case map[string]any:
		for name, child := range parent {
			places(at+"/"+name, child, visit)
		}
	case []any:
		for i, child := range parent {
			places(at+"/"+strconv.Itoa(i), child, visit)
		}
	}
}

// rewrite writes a value as JSON, with what edit says in place of each value: instead of it, or, with
// after, its member once more.
func rewrite(at string, value any, edit func(pointer string) (text string, edited bool), twice string) string {
	if text, edited := edit(at); edited {
		return text
	}
	var parts []string
	switch parent := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(parent)) {
			member := rewrite(at+"/"+name, parent[name], edit, twice)
			if member == dropped {
				continue
			}
			parts = append(parts, strconv.Quote(name)+":"+member)
			if at+"/"+name == twice {
				parts = append(parts, strconv.Quote(name)+":"+member)
			}
		}
		if at+"/zz" == twice {
			parts = append(parts, `"zz":1`)
		}
		return "{" + strings.Join(parts, ",") + "}"
	case []any:
		for i, child := range parent {
			if item := rewrite(at+"/"+strconv.Itoa(i), child, edit, twice); item != dropped {
				parts = append(parts, item)
			}
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	text, _ := json.Marshal(value)
	return string(text)
}

const dropped = "-"

func listed(list []string, pointer string) bool {
	parent := pointer[:max(0, strings.LastIndex(pointer, "/"))]
	return slices.Contains(list, pointer) || slices.Contains(list, parent+"/*")
}

func TestEveryMemberOfEveryBodyIsChecked(t *testing.T) {
	for _, endpoint := range bodies {
		t.Run(endpoint.name, func(t *testing.T) {
			e := newEdge(t, func(c *Config) { c.Executor = &forgetful{c.Executor} })
			var valid any
			if err := json.Unmarshal([]byte(endpoint.body), &valid); err != nil {
				t.Fatal(err)
			}
			events := e.events()
			refused := func(name, pointer, body string) {
				t.Helper()
				got := e.ask(endpoint.method, endpoint.target, body, endpoint.headers...)
				if got.status < 400 || got.status >= 500 {
					t.Errorf("%s at %q: %d %.200s", name, pointer, got.status, got.body)
					return
				}
				problem := got.problem(t)
				if _, known := meanings[problem.Code]; !known || problem.Status != got.status || problem.CorrelationID == "" {
					t.Errorf("%s at %q: %d %.300s", name, pointer, got.status, got.body)
				}
				if !slices.ContainsFunc(problem.Errors, func(p eventstore.Problem) bool {
					return p.Pointer == pointer || strings.HasPrefix(p.Pointer, pointer+"/") || got.status == 400 && strings.HasPrefix(pointer, p.Pointer)
				}) && !strings.HasPrefix(pointer, "/policy/discounts") {
					t.Errorf("%s at %q: the errors don't name it: %.300s", name, pointer, got.body)
				}
			}
			places("", valid, func(pointer string, value any) {
				replacing := func(with string) string {
					return rewrite("", valid, func(at string) (string, bool) { return with, at == pointer }, "")
				}
				for name, text := range wrongValues(value) {
					if name == "empty" && listed(endpoint.mayBeEmpty, pointer) {
						continue
					}
					refused(name, pointer, replacing(text))
				}
				if pointer != "" && !listed(endpoint.optional, pointer) {
					refused("missing", pointer, replacing(dropped))
				}
				if _, isMember := parentOf(valid, pointer).(map[string]any); isMember {
					refused("duplicate", pointer, rewrite("", valid, never, pointer))
				}
				if _, isObject := value.(map[string]any); isObject {
					refused("unknown member", pointer+"/zz", rewrite("", valid, never, pointer+"/zz"))
				}
			})
			if e.events() != events {
				t.Errorf("refused bodies left %d events", e.events()-events)
			}
			if got := e.ask(endpoint.method, endpoint.target, endpoint.body, endpoint.headers...); got.status != endpoint.good {
				t.Errorf("the valid body: %d %s", got.status, got.body)
			}
		})
	}
}

func never(string) (string, bool) { return "", false }

func parentOf(root any, pointer string) any {
	parent := pointer[:max(0, strings.LastIndex(pointer, "/"))]
	if pointer == "" {
		return nil
	}
	var found any
	places("", root, func(at string, value any) {
		if at == parent {
			found = value
		}
	})
	return found
}

// forgetful takes the idempotency key away, so that each request of a table stands for itself.
type forgetful struct{ eventstore.Executor }

func (f *forgetful) Execute(ctx context.Context, request eventstore.Request) (eventstore.Outcome, error) {
	if kept := request.Idempotency; kept != nil {
		other := *kept
		other.Key = newTestID()
		request.Idempotency = &other
	}
	return f.Executor.Execute(ctx, request)
}

func TestQuantitiesAreWholeNumbersInDigits(t *testing.T) {
	e := newEdge(t)
	events := e.events()
	for i, quantity := range []string{"0", "-1", "-0", "1.5", `"2"`, "1e3", "1E0", "1.0e0", "1e400", "2147483648", "1000001", "9223372036854775808", "null", "true", "[]", "{}"} {
		got := e.order(fmt.Sprint("K", i), strings.Replace(smallOrder, `"quantity":1`, `"quantity":`+quantity, 1))
		is(t, got, 422, order.CodeQuantityInvalid)
		if problem := got.problem(t); len(problem.Errors) != 1 || problem.Errors[0].Pointer != "/lines/0/quantity" {
			t.Errorf("%s: %s", quantity, got.body)
		}
	}
	is(t, e.order("mixed", `{"currency":"GBP","lines":[{"sku":"A","quantity":3},{"sku":"B","quantity":-1}],"payment":{"token":"t"}}`), 422, order.CodeQuantityInvalid)
	if e.events() != events {
		t.Error("a refused quantity left events")
	}
	e.placed("1.0", strings.Replace(smallOrder, `"quantity":1`, `"quantity":1.0`, 1))
}

func TestMoreThanOneFaultIsToldAtOnce(t *testing.T) {
	e := newEdge(t)
	got := e.order("K", `{"currency":"gbp","lines":[{"sku":"","quantity":0},{"sku":"A"}],"payment":{}}`)
	is(t, got, 422, CodeValidation)
	var told []string
	for _, p := range got.problem(t).Errors {
		told = append(told, p.Pointer+" "+string(p.Code))
	}
	want := []string{"/currency CURRENCY_INVALID", "/lines/0/sku SKU_INVALID", "/lines/0/quantity QUANTITY_INVALID", "/lines/1/quantity QUANTITY_INVALID", "/payment/token MEMBER_MISSING"}
	if !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

func TestBusinessRefusalsHaveTheirOwnCodes(t *testing.T) {
	e := newEdge(t)
	events := e.events()
	for name, tried := range map[string]struct {
		body    string
		code    eventstore.Code
		pointer string
	}{
		"a card number":          {strings.Replace(smallOrder, "tok_visa", "4111-1111-1111-1111", 1), order.CodePaymentTokenInvalid, "/payment/token"},
		"unknown SKU":            {strings.Replace(smallOrder, `"A"`, `"a"`, 1), order.CodeUnknownSKU, "/lines/0/sku"},
		"no SKU":                 {strings.Replace(smallOrder, `"A"`, `" A"`, 1), sku.CodeInvalid, "/lines/0/sku"},
		"long SKU":               {strings.Replace(smallOrder, `"A"`, `"`+strings.Repeat("A", 65)+`"`, 1), sku.CodeInvalid, "/lines/0/sku"},
		"another currency":       {strings.Replace(smallOrder, "GBP", "USD", 1), order.CodeCurrencyMismatch, "/currency"},
		"no currency":            {strings.Replace(smallOrder, "GBP", "XXQ", 1), order.CodeCurrencyMismatch, "/currency"},
		"another price":          {priced("2.54", "GBP"), order.CodePriceMismatch, "/lines/0/unitPrice/amount"},
		"price in another money": {priced("2.55", "EUR"), order.CodeCurrencyMismatch, "/lines/0/unitPrice/currency"},
		"too many decimals":      {priced("2.550", "GBP"), CodeAmountInvalid, "/lines/0/unitPrice/amount"},
		"unknown money":          {priced("2.55", "XXQ"), CodeCurrencyInvalid, "/lines/0/unitPrice/currency"},
	} {
		t.Run(name, func(t *testing.T) {
			got := e.order(name, tried.body)
			is(t, got, 422, tried.code)
			if problem := got.problem(t); len(problem.Errors) != 1 || problem.Errors[0].Pointer != tried.pointer {
				t.Errorf("%s", got.body)
			}
		})
	}
	if e.events() != events {
		t.Error("a refused order left events")
	}
}

func priced(amount, currency string) string {
	return strings.Replace(smallOrder, `"quantity":1`, `"quantity":1,"unitPrice":{"amount":"`+amount+`","currency":"`+currency+`"}`, 1)
}

func TestBodiesThatAreNotJSONAreRefused(t *testing.T) {
	e := newEdge(t)
	for name, tried := range map[string]struct {
		body    string
		headers []string
		status  int
		code    eventstore.Code
	}{
		"nothing":              {"", []string{"Content-Type", "application/json"}, 400, CodeJSONMalformed},
		"half":                 {smallOrder[:40], nil, 400, CodeJSONMalformed},
		"two":                  {smallOrder + smallOrder, nil, 400, CodeJSONMalformed},
		"byte order mark":      {"\ufeff" + smallOrder, nil, 400, CodeJSONMalformed},
		"not a number":         {`{"a":NaN}`, nil, 400, CodeJSONMalformed},
		"depth":                {strings.Repeat("[", 100_000), nil, 400, CodeJSONMalformed},
		"duplicate":            {`{"currency":"GBP","currency":"GBP"}`, nil, 400, CodeDuplicateMember},
		"duplicate, escaped":   {`{"currency":"GBP","\u0063urrency":"GBP"}`, nil, 400, CodeDuplicateMember},
		"more than a mebibyte": {`"` + strings.Repeat("x", 1<<20) + `"`, nil, 413, CodeBodyTooLarge},
		"no media type":        {smallOrder, []string{"-Content-Type", ""}, 415, CodeMediaType},
		"form":                 {smallOrder, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, CodeMediaType},
		"Latin-1":              {smallOrder, []string{"Content-Type", "application/json; charset=iso-8859-1"}, 415, CodeMediaType},
		"compressed":           {smallOrder, []string{"Content-Encoding", "gzip"}, 415, CodeMediaType},
	} {
		t.Run(name, func(t *testing.T) { is(t, e.order("K", tried.body, tried.headers...), tried.status, tried.code) })
	}
	e.placed("K", smallOrder) // none of them spent the key
}

func TestAnOrderOfTwoThousandLinesFits(t *testing.T) {
	e := newEdge(t)
	line := `{"sku":"A","quantity":1}`
	body := func(lines int) string {
		return `{"currency":"GBP","lines":[` + line + strings.Repeat(","+line, lines-1) + `],"payment":{"token":"t"}}`
	}
	is(t, e.order("K1", body(2001)), 422, CodeLengthInvalid)
	e.sell("A2", "1.00", 5000)
	e.placed("K2", strings.ReplaceAll(body(2000), `"A"`, `"A2"`))
}

func TestOnlyOperatorsConfigurePartners(t *testing.T) {
	e := newEdge(t)
	body := bodies[len(bodies)-1].body
	for _, token := range []string{"acme", "ops:ops-viewer"} {
		is(t, e.ask(http.MethodPut, "/ops/partners/new", body, "Authorization", "Bearer "+token), 403, CodeForbidden)
	}
	for _, id := range []string{"a%2Fb", "a%20b", strings.Repeat("a", 65), "%00"} {
		is(t, e.ask(http.MethodPut, "/ops/partners/"+id, body, "Authorization", "Bearer ops:ops-admin"), 422, partner.CodeInvalid)
	}
	put := e.ask(http.MethodPut, "/ops/partners/new", body, "Authorization", "Bearer ops:ops-admin")
	get := e.ask(http.MethodGet, "/ops/partners/new", "", "Authorization", "Bearer ops:ops-viewer")
	if put.status != 200 || get.status != 200 || put.body != get.body || !strings.Contains(get.body, `"until":"2026-01-31T23:00:00Z"`) {
		t.Errorf("%d %s\n%d %s", put.status, put.body, get.status, get.body)
	}
	is(t, e.ask(http.MethodGet, "/ops/partners/nobody", "", "Authorization", "Bearer ops:ops-viewer"), 404, order.CodeNotFound)
}
