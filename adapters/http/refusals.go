package httpapi

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"andes/commands/partner"
	"andes/eventstore"
)

// Codes that endpoints have in common, by what they have. Each endpoint adds its own in the table, and the
// document lists them all; the tests hold every answer to that list.
var (
	tokenCodes = []eventstore.Code{CodeUnauthenticated, CodeForbidden, CodeQueryMalformed, CodeParameterUnknown, CodeUnavailable}
	keyCodes   = []eventstore.Code{CodeKeyRequired, CodeKeyInvalid, eventstore.CodeIdempotencyKeyReused, eventstore.CodeRequestInProgress}
	// commandCodes are of what goes to the write side.
	commandCodes = []eventstore.Code{CodeUnavailable, CodeOverloaded, CodeOutcomeUnknown, eventstore.CodeEventTooLarge, eventstore.CodeTextNotStorable}
	bodyCodes    = []eventstore.Code{
		CodeMediaType, CodeBodyTooLarge, CodeBodyUnreadable, CodeJSONMalformed, CodeDuplicateMember, CodeValidation, CodeMemberUnknown,
		CodeMemberMissing, CodeTypeInvalid, CodeTextInvalid, CodeLengthInvalid, CodeNumberInvalid, CodeFormatInvalid,
	}
)

// codes lists, sorted, with what an endpoint may refuse a request.
func (a *API) codes(e *endpoint) []eventstore.Code {
	all := append([]eventstore.Code{CodeInternal}, e.refusals...)
	if e.access != anyone {
		all = append(all, tokenCodes...)
		if e.body != nil {
			all = append(all, bodyCodes...)
			all = append(all, a.shapes.codes(a.shapes.schema(e.body))...)
		}
	}
	if e.access == partners {
		all = append(all, CodeRateLimited)
	}
	if e.quota != "" {
		all = append(all, partner.CodeUnknown)
	}
	if e.keyed {
		all = append(all, keyCodes...)
	}
	if slices.ContainsFunc(e.parameters, inQuery) {
		all = append(all, CodeTextInvalid)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// codes collects the codes that the values of a schema have for their faults.
func (s *shapes) codes(schema *huma.Schema) []eventstore.Code {
	if schema.Ref != "" {
		schema = s.registry.SchemaFromRef(schema.Ref)
	}
	var found []eventstore.Code
	if code := ownCode(schema); code != "" {
		found = append(found, code)
	}
	if schema.Items != nil {
		found = append(found, s.codes(schema.Items)...)
	}
	for _, property := range schema.Properties {
		found = append(found, s.codes(property)...)
	}
	return found
}

// refusalResponses adds the problem documents of an endpoint, by status.
func (a *API) refusalResponses(e *endpoint, responses map[string]*huma.Response, problem *huma.Schema) {
	byStatus := map[int][]string{}
	for _, code := range a.codes(e) {
		byStatus[meanings[code].status] = append(byStatus[meanings[code].status], string(code))
	}
	for _, status := range slices.Sorted(maps.Keys(byStatus)) {
		name := strconv.Itoa(status)
		if responses[name] != nil {
			continue // an answer of its own
		}
		response := &huma.Response{
			Description: "Problem: " + strings.Join(byStatus[status], ", "),
			Headers:     map[string]*huma.Param{correlationHeader: textHeader("Names the request in the logs")},
			Content:     map[string]*huma.MediaType{problemMedia: {Schema: problem}},
		}
		switch status {
		case 401:
			response.Headers["WWW-Authenticate"] = textHeader("")
		case 409, 429, 503:
			response.Headers["Retry-After"] = textHeader("Seconds to wait, where waiting helps")
		}
		if status == 429 && e.quota != "" {
			a.describeQuota(response)
		}
		responses[name] = response
	}
}

// problemCodes is the table of problems for the document.
func problemCodes() map[string]any {
	table := map[string]any{}
	for code, means := range meanings {
		table[string(code)] = map[string]any{"status": means.status, "title": means.title}
	}
	return map[string]any{"x-problem-codes": table}
}

// challenge is what a 401 asks for.
func (c *call) challenge() string {
	if _, sent := bearer(c.request.Header); sent {
		return fmt.Sprintf(`Bearer realm=%q, error="invalid_token"`, realm)
	}
	return fmt.Sprintf("Bearer realm=%q", realm)
}

// realm names what the tokens are for.
const realm = "andes"
