package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"andes/commands/partner"
)

// shown is the API document as a caller reads it.
type shown struct {
	OpenAPI    string                               `json:"openapi"`
	Paths      map[string]map[string]shownOperation `json:"paths"`
	Components struct {
		Schemas map[string]any `json:"schemas"`
	} `json:"components"`
}

type shownOperation struct {
	OperationID string                   `json:"operationId"`
	Parameters  []map[string]any         `json:"parameters"`
	Responses   map[string]shownResponse `json:"responses"`
	Security    []any                    `json:"security"`
}

type shownResponse struct {
	Content map[string]struct {
		Schema map[string]any `json:"schema"`
	} `json:"content"`
}

func (e *edge) shown() shown {
	e.t.Helper()
	var document shown
	got := e.ask(http.MethodGet, "/openapi.json", "", "-Authorization", "")
	if err := json.Unmarshal([]byte(got.body), &document); err != nil || got.status != 200 {
		e.t.Fatalf("%d %s", got.status, got.body)
	}
	return document
}

func TestTheDocumentListsAllRoutes(t *testing.T) {
	e := newEdge(t, func(c *Config) { c.Development, c.DevIssuer = true, http.NotFoundHandler() })
	document := e.shown()
	var routes []string
	ids := map[string]bool{}
	for path, item := range document.Paths {
		for method, operation := range item {
			routes = append(routes, strings.ToUpper(method)+" "+path)
			if ids[operation.OperationID] || operation.OperationID == "" {
				t.Errorf("operationId %q", operation.OperationID)
			}
			ids[operation.OperationID] = true
			for _, parameter := range operation.Parameters {
				if parameter["in"] == "path" && !strings.Contains(path, fmt.Sprintf("{%s}", parameter["name"])) {
					t.Errorf("%s has no %s", path, parameter["name"])
				}
			}
			if _, told := operation.Responses["default"].Content[problemMedia]; !told {
				t.Errorf("%s %s shows no problem document", method, path)
			}
			wantsToken := strings.HasPrefix(path, "/v1/") && path != "/v1/payment-webhooks/generic" || strings.HasPrefix(path, "/ops/")
			if wantsToken != (len(operation.Security) > 0) {
				t.Errorf("%s %s: security %v", method, path, operation.Security)
			}
		}
	}
	slices.Sort(routes)
	want := []string{
		"DELETE /v1/subscriptions/{id}",
		"GET /dev/jwks.json", "GET /docs", "GET /healthz", "GET /metrics", "GET /openapi.json",
		"GET /ops/audit", "GET /ops/dlq", "GET /ops/dlq/{consumer}/letters", "GET /ops/dlq/{consumer}/letters/{partition}/{offset}",
		"GET /ops/guards", "GET /ops/partners/{id}", "GET /readyz",
		"GET /v1/orders", "GET /v1/orders/{id}", "GET /v1/prices", "GET /v1/products/{sku}", "GET /v1/stock", "GET /v1/subscriptions",
		"POST /dev/token", "POST /ops/dlq/{consumer}/letters/{partition}/{offset}/edit", "POST /ops/dlq/{consumer}/rehearsals", "POST /ops/dlq/{consumer}/runs",
		"POST /v1/orders", "POST /v1/orders/{id}/cancel", "POST /v1/payment-webhooks/generic", "POST /v1/prices/query",
		"POST /v1/stock/query", "POST /v1/subscriptions", "PUT /ops/partners/{id}",
	}
	if document.OpenAPI != "3.1.0" || !slices.Equal(routes, want) {
		t.Errorf("%s\n%s", document.OpenAPI, strings.Join(routes, "\n"))
	}
}

func TestEveryReferenceInTheDocumentLeadsSomewhere(t *testing.T) {
	document := newEdge(t).shown()
	text, _ := json.Marshal(document)
	for _, part := range strings.Split(string(text), `"$ref":"#/components/schemas/`)[1:] {
		name := part[:strings.IndexByte(part, '"')]
		if _, there := document.Components.Schemas[name]; !there {
			t.Errorf("there is no schema %s", name)
		}
	}
}

func TestARoleServesOnlyItsOwn(t *testing.T) {
	for role, has := range map[Role][2]bool{Query: {true, false}, Command: {false, true}, Ops: {false, false}, Health: {false, false}} {
		e := newEdge(t, func(c *Config) { c.Roles = []Role{role} })
		_, reads := e.shown().Paths["/v1/stock"]
		_, writes := e.shown().Paths["/v1/orders"]["post"]
		if reads != has[0] || writes != has[1] {
			t.Errorf("%s: reads %t, writes %t", role, reads, writes)
		}
		if got := e.ask(http.MethodGet, "/v1/stock?sku=A", ""); (got.status == 200) != has[0] {
			t.Errorf("%s: stock %d", role, got.status)
		}
		if got := e.order("K", smallOrder); (got.status == 202) != has[1] {
			t.Errorf("%s: order %d", role, got.status)
		}
		if got := e.ask(http.MethodGet, "/healthz", ""); got.status != 200 {
			t.Errorf("%s: health %d", role, got.status)
		}
	}
}

func TestAnswersAreAsTheDocumentShowsThem(t *testing.T) {
	e := newEdge(t)
	e.do(partner.Configure{Partner: partner.State{ID: "acme", Name: "a", Tier: "gold", Policy: partner.Policy{
		PriceList: "retail", Currency: "GBP", VisibleCap: 5, Discounts: []partner.Discount{{SKU: "B", Percent: "10", From: testStart}},
	}}})
	id := e.placed("K", strings.Replace(smallOrder, `{"currency"`, `{"partnerOrderRef":"R","currency"`, 1))
	cancelled := e.placed("K2", smallOrder)
	for _, call := range []struct {
		route, target, body string
		status              int
		headers             []string
	}{
		{"GET /healthz", "/healthz", "", 200, nil},
		{"GET /readyz", "/readyz", "", 200, nil},
		{"GET /openapi.json", "/openapi.json", "", 200, nil},
		{"GET /v1/stock", "/v1/stock?sku=A,x", "", 200, nil},
		{"POST /v1/stock/query", "/v1/stock/query", `{"skus":["A"]}`, 200, nil},
		{"GET /v1/prices", "/v1/prices?sku=A,x,B", "", 200, nil},
		{"POST /v1/prices/query", "/v1/prices/query", `{"skus":["x"]}`, 200, nil},
		{"GET /v1/products/{sku}", "/v1/products/A", "", 200, nil},
		{"POST /v1/orders", "/v1/orders", smallOrder, 202, []string{keyHeader, "K3"}},
		{"POST /v1/orders/{id}/cancel", "/v1/orders/" + cancelled + "/cancel", "", 200, nil},
		{"GET /v1/orders/{id}", "/v1/orders/" + id, "", 200, nil},
		{"GET /v1/orders/{id}", "/v1/orders/" + cancelled, "", 200, nil},
		{"GET /v1/orders", "/v1/orders", "", 200, nil},
		{"POST /v1/subscriptions", "/v1/subscriptions", `{"url":"https://example.test","types":["*"]}`, 201, nil},
		{"GET /v1/subscriptions", "/v1/subscriptions", "", 200, nil},
		{"GET /ops/partners/{id}", "/ops/partners/acme", "", 200, []string{"Authorization", "Bearer ops:ops-viewer"}},
		{"PUT /ops/partners/{id}", "/ops/partners/p", bodies[len(bodies)-1].body, 200, []string{"Authorization", "Bearer ops:ops-admin"}},
		{"POST /v1/orders", "/v1/orders", `{"lines":[]}`, 422, []string{keyHeader, "K4"}},
		{"POST /v1/orders", "/v1/orders", strings.Replace(smallOrder, `"quantity":1`, `"quantity":11`, 1), 409, []string{keyHeader, "K5"}},
		{"GET /v1/orders/{id}", "/v1/orders/x", "", 404, nil},
	} {
		method, path, _ := strings.Cut(call.route, " ")
		got := e.ask(method, call.target, call.body, call.headers...)
		if got.status != call.status {
			t.Errorf("%s: %d %s", call.route, got.status, got.body)
			continue
		}
		e.holds(got, method, path)
	}
}

// holds checks an answer against the schema that the document shows for it.
func (e *edge) holds(got reply, method, path string) {
	e.t.Helper()
	for _, served := range e.endpoints() {
		if served.method != method || served.path != path {
			continue
		}
		operation := e.operation(served)
		response, own := operation.Responses[fmt.Sprint(got.status)]
		if !own {
			response = operation.Responses["default"]
		}
		media := response.Content[got.header.Get("Content-Type")]
		if media == nil {
			e.t.Errorf("%s %s %d: the media type %s is not shown", method, path, got.status, got.header.Get("Content-Type"))
			return
		}
		var value any
		if err := json.Unmarshal([]byte(got.body), &value); err != nil {
			e.t.Error(err)
			return
		}
		var faults huma.ValidateResult
		huma.Validate(e.shapes.registry, media.Schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, value, &faults)
		for _, fault := range faults.Errors {
			e.t.Errorf("%s %s %d: %v\n%s", method, path, got.status, fault, got.body)
		}
		return
	}
	e.t.Errorf("%s %s is not served", method, path)
}

func TestThePageNeedsNothingElse(t *testing.T) {
	e := newEdge(t)
	got := e.ask(http.MethodGet, "/docs", "", "-Authorization", "")
	if got.status != 200 || strings.Contains(got.body, "<script") || strings.Contains(got.body, "http://") || strings.Contains(got.body, "src=") {
		t.Errorf("%d %v", got.status, got.header)
	}
	for _, said := range []string{"/v1/orders/{id}/cancel", `id="INSUFFICIENT_STOCK"`, `id="schema-Order"`, "Idempotency-Key"} {
		if !strings.Contains(got.body, said) {
			t.Errorf("the page does not have %s", said)
		}
	}
}

func TestHEADIsAnsweredLikeGET(t *testing.T) {
	e := newEdge(t)
	get, head := e.ask(http.MethodGet, "/v1/stock?sku=A", ""), e.ask(http.MethodHead, "/v1/stock?sku=A", "")
	if head.status != 200 || head.body != "" || head.header.Get("Content-Length") != fmt.Sprint(len(get.body)) {
		t.Errorf("%d %v %q", head.status, head.header, head.body)
	}
}

func TestAWrongConfigurationTellsAllItsFaults(t *testing.T) {
	_, err := New(Config{Roles: []Role{Query, "x"}, DevIssuer: http.NotFoundHandler()})
	for _, fault := range []string{"unknown role", "Verify", "Clock", "Registerer", "Reader", "development issuer"} {
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s is not in: %v", fault, err)
		}
	}
	e := newEdge(t)
	config := e.Config
	config.PaymentWebhookSecrets = []string{"whsec_!"}
	if _, err := New(config); err == nil {
		t.Error("a secret that is none was accepted")
	}
	config = e.Config
	if _, err := New(config); err == nil { // the metrics are registered twice
		t.Error("one registry for two edges")
	}
	config.Registerer = prometheus.NewRegistry()
	if _, err := New(config); err != nil {
		t.Error(err)
	}
}

func TestTheDevelopmentIssuerIsPassedThrough(t *testing.T) {
	issuer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, r.Method, " ", r.URL.Path) })
	e := newEdge(t, func(c *Config) { c.Development, c.DevIssuer = true, issuer })
	for _, call := range []string{"GET /dev/jwks.json", "POST /dev/token"} {
		method, path, _ := strings.Cut(call, " ")
		if got := e.send(httptest.NewRequest(method, path, nil)); got.body != call || got.status != 200 {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
}
