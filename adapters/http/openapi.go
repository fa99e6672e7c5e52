package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"andes/deadletters"
	"andes/eventstore"
	"andes/promo"
)

// describe begins the API document.
func (a *API) describe(registry huma.Registry) *huma.OpenAPI {
	return &huma.OpenAPI{
		OpenAPI:    "3.1.0",
		Extensions: problemCodes(),
		Info: &huma.Info{
			Title: "Andes partner API", Version: a.Version,
			Description: "Stock, prices and orders for sales channels. Money is a decimal text with its ISO 4217 currency, times are RFC 3339 in UTC. " +
				"Every error is a problem document (RFC 9457) with a stable `code`; every answer carries `X-Correlation-Id`.",
		},
		Components: &huma.Components{
			Schemas: registry,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"bearer": {Type: "http", Scheme: "bearer", BearerFormat: "JWT", Description: "OAuth2/OIDC access token; the claim partner_id names the partner"},
			},
		},
		Tags: []*huma.Tag{
			{Name: "catalogue", Description: "Stock, prices and products as the partner's channel sees them"},
			{Name: "orders", Description: "Placing, cancelling and reading orders"},
			{Name: "webhooks", Description: "Subscriptions to events, and the payment gateway's own webhook"},
			{Name: "operations", Description: "Partner administration, dead letters, health and documentation"},
		},
	}
}

// deadLetterTypes is the package whose types are answers as they are.
var deadLetterTypes = reflect.TypeFor[deadletters.Page]().PkgPath()

var promoTypes = reflect.TypeFor[promo.Status]().PkgPath()

// schemaName names a component after its Go type, without the word that says it is a body.
func schemaName(t reflect.Type, hint string) string {
	if t == reflect.TypeFor[eventstore.Problem]() {
		return "FieldProblem"
	}
	name := huma.DefaultSchemaNamer(t, hint)
	if t.PkgPath() == deadLetterTypes {
		return "DeadLetter" + name
	}
	if t.PkgPath() == promoTypes {
		return "Promo" + name
	}
	if len(name) > len("Body") && name[len(name)-len("Body"):] == "Body" {
		return name[:len(name)-len("Body")]
	}
	return name
}

// operation is the endpoint's row in the document.
func (a *API) operation(e *endpoint) *huma.Operation {
	op := &huma.Operation{
		Method: e.method, Path: e.path, OperationID: e.id, Summary: e.summary, Description: e.description, Tags: []string{e.tag},
		Parameters: append(pathParameters(e.path), e.parameters...), Responses: map[string]*huma.Response{},
	}
	if e.access != anyone {
		op.Security = []map[string][]string{{"bearer": {}}}
	}
	if e.keyed {
		op.Parameters = append(op.Parameters, keyParameter)
	}
	if e.body != nil {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: a.shapes.request(e.body)}}}
	}
	for _, good := range e.answers {
		response := a.response(good)
		if e.quota != "" {
			a.describeQuota(response)
		}
		op.Responses[strconv.Itoa(good.status)] = response
	}
	a.refusalResponses(e, op.Responses, a.shapes.schema(reflect.TypeFor[problemBody]()))
	op.Responses["default"] = &huma.Response{
		Description: "A problem document",
		Headers:     map[string]*huma.Param{correlationHeader: textHeader("Names the request in the logs")},
		Content:     map[string]*huma.MediaType{problemMedia: {Schema: a.shapes.schema(reflect.TypeFor[problemBody]())}},
	}
	return op
}

func (a *API) response(good answer) *huma.Response {
	response := &huma.Response{
		Description: good.description,
		Headers:     map[string]*huma.Param{correlationHeader: textHeader("Names the request in the logs")},
	}
	for _, name := range good.headers {
		response.Headers[name] = textHeader("")
	}
	if good.body != nil {
		media := good.media
		if media == "" {
			media = "application/json"
		}
		response.Content = map[string]*huma.MediaType{media: {Schema: a.shapes.schema(good.body)}}
	}
	return response
}

func textHeader(description string) *huma.Param {
	return &huma.Param{Description: description, Schema: &huma.Schema{Type: huma.TypeString}}
}

// pathParameters lists the {names} of a path.
func pathParameters(path string) []*huma.Param {
	var list []*huma.Param
	for i := 0; i < len(path); i++ {
		if path[i] != '{' {
			continue
		}
		end := i + 1
		for path[end] != '}' {
			end++
		}
		list = append(list, &huma.Param{Name: path[i+1 : end], In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
		i = end
	}
	return list
}

var keyParameter = &huma.Param{
	Name: keyHeader, In: "header", Required: true,
	Description: "1 to 256 printable ASCII characters, quoted as a structured field or bare. Repeat a request with the same key whenever its outcome is unknown; take a new key for a new request.",
	Schema:      &huma.Schema{Type: huma.TypeString, Pattern: `^("([ !#-\[\]-~]|\\["\\]){1,256}"|[!#-~]([ -~]{0,254}[!-~])?)$`},
}

// queryParameter describes a parameter of the query string.
func queryParameter(name, description string, required bool, schema *huma.Schema) *huma.Param {
	return &huma.Param{Name: name, In: "query", Required: required, Description: description, Schema: schema}
}

// publish writes the document and the page once; they don't change while the process runs.
func (a *API) publish(document *huma.OpenAPI, endpoints []*endpoint) error {
	data, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("http edge: write the API document: %w", err)
	}
	page, err := a.renderPage(document, endpoints)
	if err != nil {
		return fmt.Errorf("http edge: write the API page: %w", err)
	}
	a.document, a.page = data, page
	return nil
}

// platformEndpoints are served by every role.
func (a *API) platformEndpoints() []*endpoint {
	list := []*endpoint{
		{
			method: http.MethodGet, path: "/openapi.json", id: "document", tag: "operations", summary: "This document",
			answers: []answer{{status: 200, description: "OpenAPI 3.1", body: reflect.TypeFor[map[string]any]()}},
			handle:  func(c *call) error { c.send(http.StatusOK, "application/json", a.document); return nil },
		},
		{
			method: http.MethodGet, path: docsPath, id: "page", tag: "operations", summary: "The API for people",
			answers: []answer{{status: 200, description: "A page", media: "text/html", body: reflect.TypeFor[string]()}},
			handle: func(c *call) error {
				c.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
				c.send(http.StatusOK, "text/html; charset=utf-8", a.page)
				return nil
			},
		},
	}
	list = append(list, a.healthEndpoints()...)
	if a.DevIssuer != nil {
		list = append(list, a.issuerEndpoints()...)
	}
	return list
}

// issuerEndpoints pass the development issuer's calls on.
func (a *API) issuerEndpoints() []*endpoint {
	pass := func(c *call) error { a.DevIssuer.ServeHTTP(c, c.request); return nil }
	object := []answer{{status: 200, description: "For development only", body: reflect.TypeFor[map[string]any]()}}
	return []*endpoint{
		{method: http.MethodGet, path: "/dev/jwks.json", id: "devKeys", tag: "operations", summary: "Public keys of the development issuer", answers: object, handle: pass},
		{
			method: http.MethodPost, path: "/dev/token", id: "devToken", tag: "operations", answers: object, handle: pass,
			summary: "A token from the development issuer", description: `Send {"partner_id":"…","roles":["ops-admin"],"ttlSeconds":3600}; all members are optional. The roles are ops-admin and ops-viewer; a partner needs none.`,
		},
	}
}
