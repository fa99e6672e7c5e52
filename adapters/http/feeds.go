package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"andes/eventstore"
	"andes/polling"
)

// Legacy systems tell of changes here by themselves, beside being polled, signed as in Standard Webhooks.

// Feed takes what one legacy system tells.
type Feed struct {
	Secrets []string // of its signatures; two during a rotation
	Take    func(ctx context.Context, from eventstore.Metadata, records []polling.Pushed) ([]polling.Verdict, error)
}

// maxChanges bounds one call.
const maxChanges = 1000

// feedBody is what a system sends.
type feedBody struct {
	_       struct{}     `additionalProperties:"true"`
	Changes []feedChange `json:"changes" minItems:"1" maxItems:"1000"`
}

// feedChange is a record as the polled feed has it, and of which feed it is. Only that is read here.
type feedChange struct {
	_    struct{} `additionalProperties:"true"`
	Kind string   `json:"kind" enum:"product,price,stock" doc:"product and price of the ERP, stock of the WMS; the other members are those of the record"`
}

// feedVerdicts tells what became of each record.
type feedVerdicts struct {
	Applied int           `json:"applied"`
	Known   int           `json:"known" doc:"Records that were known before, in this version or a later one"`
	Refused int           `json:"refused" doc:"Records that can't be used; what they were to replace is no longer taken for recent"`
	Failed  int           `json:"failed" doc:"Records that may be sent again"`
	Items   []feedVerdict `json:"items" doc:"In the order sent"`
}

type feedVerdict struct {
	Index   int             `json:"index"`
	ID      string          `json:"id,omitempty" example:"85123A"`
	Outcome string          `json:"outcome" enum:"applied,known,refused,failed"`
	Code    eventstore.Code `json:"code,omitempty" example:"RECORD_INVALID"`
	Detail  string          `json:"detail,omitempty"`
}

func (a *API) feedEndpoints() []*endpoint {
	if len(a.Feeds) == 0 {
		return nil
	}
	text := &huma.Schema{Type: huma.TypeString}
	header := func(name string) *huma.Param {
		return &huma.Param{Name: name, In: "header", Required: true, Schema: text}
	}
	return []*endpoint{{
		method: http.MethodPost, path: "/v1/feeds/{system}/changes", id: "feedChanges", tag: "webhooks",
		summary: "What a legacy system tells of changes",
		description: "Signed as in Standard Webhooks over the exact bytes, with the system's own secret; five minutes tolerance. Up to 1,000 records, each judged by itself: " +
			"by its version it is known whether it is news, so records may come twice, late and in any order. After 5xx all of them may be sent again. " +
			"Polling goes on beside it, and finds what was not told.",
		access: anyone, frequent: true, body: reflect.TypeFor[feedBody](),
		parameters: []*huma.Param{header("webhook-id"), header("webhook-timestamp"), header("webhook-signature")},
		answers:    []answer{{status: 200, description: "What became of each record", body: reflect.TypeFor[feedVerdicts]()}},
		refusals:   slices.Concat(commandCodes, []eventstore.Code{CodeSignatureInvalid, CodeFeedUnknown, CodeFeedInvalid, CodeBodyTooLarge, CodeBodyUnreadable}),
		handle:     (*call).feedChanges,
	}}
}

func (c *call) feedChanges() error {
	body, err := c.readBytes(c.api.Limits.Body)
	if err != nil {
		return err
	}
	system := c.request.PathValue("system")
	feed, known := c.api.Feeds[system]
	if !known {
		return eventstore.Refuse(CodeFeedUnknown, "no such system tells of changes here")
	}
	if err := verifySignature(c.request.Header, body, c.api.feedKeys[system], c.api.Clock()); err != nil {
		return eventstore.Refuse(CodeSignatureInvalid, "the signature, its time or its secret is wrong")
	}
	records, err := readChanges(body)
	if err != nil {
		return err
	}
	meta := c.meta()
	if id := c.request.Header.Get("webhook-id"); saneID(id) {
		meta.CausationID = id
	}
	ctx, cancel := c.timeout(c.api.Limits.CommandTimeout)
	defer cancel()
	verdicts, err := feed.Take(ctx, meta, records)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, verdictsOf(verdicts))
}

// readChanges takes a signed body apart. What a record is, is its reader's business.
func readChanges(body []byte) ([]polling.Pushed, error) {
	var sent struct {
		Changes []jsontext.Value `json:"changes"`
	}
	if nestedTooDeep(body) || json.Unmarshal(body, &sent) != nil || len(sent.Changes) == 0 || len(sent.Changes) > maxChanges {
		return nil, eventstore.Refuse(CodeFeedInvalid, "a JSON object with 1 to %d changes is expected", maxChanges)
	}
	records := make([]polling.Pushed, len(sent.Changes))
	for i, change := range sent.Changes {
		var of struct {
			Kind string `json:"kind"`
		}
		_ = json.Unmarshal(change, &of) // of what is no object, or has another kind of kind, none is known
		records[i] = polling.Pushed{Kind: of.Kind, Record: []byte(change)}
	}
	return records, nil
}

func verdictsOf(verdicts []polling.Verdict) feedVerdicts {
	all := feedVerdicts{Items: make([]feedVerdict, len(verdicts))}
	counts := map[string]*int{polling.Applied: &all.Applied, polling.Known: &all.Known, polling.Dropped: &all.Refused, polling.Failed: &all.Failed}
	for i, v := range verdicts {
		all.Items[i] = feedVerdict{Index: i, ID: printable(v.ID), Outcome: v.Outcome, Code: v.Code, Detail: printable(v.Detail)}
		*counts[v.Outcome]++
	}
	return all
}
