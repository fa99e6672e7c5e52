package httpapi

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"andes/deadletters"
	"andes/eventstore"
)

// DeadLetters is what operators can do with the records that consumers gave up.
type DeadLetters interface {
	Stats(ctx context.Context, consumer string) ([]deadletters.Queue, error)
	List(ctx context.Context, query deadletters.Query) (deadletters.Page, error)
	Show(ctx context.Context, letter deadletters.Ref) (deadletters.Detail, error)
	Advance(ctx context.Context, job deadletters.Job) (deadletters.Progress, error)
	Edit(ctx context.Context, correction deadletters.Correction) (deadletters.Progress, error)
	Rehearse(ctx context.Context, job deadletters.Job) (deadletters.Rehearsals, error)
	Audit(ctx context.Context, query deadletters.AuditQuery) ([]deadletters.AuditEntry, error)
}

// queuesBody is how the DLQs stand.
type queuesBody struct {
	Items []deadletters.Queue `json:"items"`
}

// auditBody is a part of the audit log.
type auditBody struct {
	Items []deadletters.AuditEntry `json:"items"`
}

// Codes of what operators ask, by what it is about.
var (
	consumerCodes = []eventstore.Code{deadletters.CodeConsumerUnknown, CodeParameterInvalid}
	filterCodes   = []eventstore.Code{deadletters.CodeTopicUnknown, deadletters.CodeFilterInvalid}
	runCodes      = []eventstore.Code{
		deadletters.CodeFilterMissing, deadletters.CodeReasonMissing, deadletters.CodeCursorInvalid, deadletters.CodeNotReplayable,
		deadletters.CodeNotRunning,
	}
	editCodes = []eventstore.Code{
		deadletters.CodeLetterUnknown, deadletters.CodeLetterSettled, deadletters.CodeLetterForeign, deadletters.CodePayloadInvalid,
		deadletters.CodeUnrestorable, deadletters.CodeWouldLoop, deadletters.CodeNotReplayable, deadletters.CodeNotRunning, deadletters.CodeReasonMissing,
	}
)

func (a *API) opsEndpoints() []*endpoint {
	return []*endpoint{
		{
			method: http.MethodGet, path: "/ops/dlq", id: "deadLetterQueues", tag: "operations", summary: "How the DLQs stand",
			access: opsViewers, handle: (*call).answerQueues, refusals: consumerCodes,
			parameters: []*huma.Param{queryParameter("consumer", "Only this one", false, shortText())},
			answers:    []answer{{status: 200, description: "Every consumer's DLQ", body: reflect.TypeFor[queuesBody]()}},
		},
		{
			method: http.MethodGet, path: "/ops/dlq/{consumer}/letters", id: "deadLetters", tag: "operations", summary: "Letters of a DLQ",
			description: "In the order of partition and offset. Payloads are masked for everybody.",
			access:      opsViewers, handle: (*call).answerLetters, parameters: letterParameters(),
			refusals: slices.Concat(consumerCodes, filterCodes, []eventstore.Code{deadletters.CodeCursorInvalid}),
			answers:  []answer{{status: 200, description: "A page of letters", body: reflect.TypeFor[deadletters.Page]()}},
		},
		{
			method: http.MethodGet, path: "/ops/dlq/{consumer}/letters/{partition}/{offset}", id: "deadLetter", tag: "operations", summary: "All about one letter",
			access: opsViewers, handle: (*call).answerLetter, refusals: slices.Concat(consumerCodes, []eventstore.Code{deadletters.CodeLetterUnknown}),
			answers: []answer{{status: 200, description: "The letter", body: reflect.TypeFor[deadletters.Detail]()}},
		},
		{
			method: http.MethodPost, path: "/ops/dlq/{consumer}/runs", id: "advanceRun", tag: "operations", summary: "Replay or discard letters, step by step",
			description: "Needs the role ops-admin. Begins a run, or goes on with the one of the cursor, for some seconds. Repeat it with the cursor of the answer until there is none. " +
				"What has been sent is settled, so a run that is not gone on with is simply begun anew.",
			access: opsAdmins, handle: (*call).advanceRun, body: reflect.TypeFor[runBody](),
			refusals: slices.Concat(consumerCodes, filterCodes, runCodes),
			answers:  []answer{{status: 200, description: "How the run stands", body: reflect.TypeFor[deadletters.Progress]()}},
		},
		{
			method: http.MethodPost, path: "/ops/dlq/{consumer}/rehearsals", id: "rehearseRun", tag: "operations", summary: "What a replay would do",
			description: "Runs the consumer's handler in a read-only transaction, and calls nobody.",
			access:      opsViewers, handle: (*call).rehearseRun, body: reflect.TypeFor[rehearsalBody](),
			refusals: slices.Concat(consumerCodes, filterCodes, []eventstore.Code{deadletters.CodeFilterMissing, deadletters.CodeNotRehearsable}),
			answers:  []answer{{status: 200, description: "The effects", body: reflect.TypeFor[deadletters.Rehearsals]()}},
		},
		{
			method: http.MethodPost, path: "/ops/dlq/{consumer}/letters/{partition}/{offset}/edit", id: "editLetter", tag: "operations", summary: "Replay a letter with a corrected payload",
			description: "Needs the role ops-admin. The event keeps its id; what is redacted in the payload is restored. Go on with the cursor of the answer and the action edited to release what was parked behind it.",
			access:      opsAdmins, handle: (*call).editLetter, body: reflect.TypeFor[editBody](), refusals: slices.Concat(consumerCodes, editCodes),
			answers: []answer{{status: 200, description: "How the run stands", body: reflect.TypeFor[deadletters.Progress]()}},
		},
		{
			method: http.MethodGet, path: "/ops/audit", id: "auditLog", tag: "operations", summary: "What operators did, newest first",
			access: opsViewers, handle: (*call).answerAudit, parameters: auditParameters(), refusals: []eventstore.Code{CodeParameterInvalid, deadletters.CodeConsumerUnknown},
			answers: []answer{{status: 200, description: "A part of the audit log", body: reflect.TypeFor[auditBody]()}},
		},
	}
}

func (c *call) answerQueues() error {
	values, err := c.single("consumer")
	if err != nil {
		return err
	}
	ctx, cancel := c.timeout(c.api.Limits.OpsTimeout)
	defer cancel()
	queues, err := c.api.DeadLetters.Stats(ctx, values.Get("consumer"))
	if err != nil {
		return toOperator(err)
	}
	return c.json(http.StatusOK, queuesBody{Items: queues})
}

func (c *call) answerLetter() error {
	ref, err := c.letter()
	if err != nil {
		return err
	}
	ctx, cancel := c.timeout(c.api.Limits.OpsTimeout)
	defer cancel()
	detail, err := c.api.DeadLetters.Show(ctx, ref)
	if err != nil {
		return toOperator(err)
	}
	return c.json(http.StatusOK, detail)
}

// toOperator tells an operator what a partner is not told: which part is away, and how it said so.
func toOperator(err error) error {
	if _, refused := errors.AsType[*eventstore.Refusal](err); !refused && errors.Is(err, eventstore.ErrUnavailable) {
		return eventstore.Refuse(CodeUnavailable, "%v", err)
	}
	return err
}

// letter gives the letter that the path names.
func (c *call) letter() (deadletters.Ref, error) {
	ref, err := deadletters.ParseRef(c.request.PathValue("consumer") + "/" + c.request.PathValue("partition") + "/" + c.request.PathValue("offset"))
	if err != nil {
		return ref, eventstore.Refuse(deadletters.CodeLetterUnknown, "a letter is named by consumer, partition and offset")
	}
	return ref, nil
}

func (c *call) advanceRun() error {
	body, err := readBody[runBody](c)
	if err != nil {
		return err
	}
	filter, err := body.Filter.filter()
	if err != nil {
		return err
	}
	ctx, cancel := c.timeout(c.api.Limits.OpsTimeout)
	defer cancel()
	progress, err := c.api.DeadLetters.Advance(ctx, deadletters.Job{
		Consumer: c.request.PathValue("consumer"), Action: body.Action, Filter: filter, All: body.All,
		Limit: int(body.Limit), Rate: int(body.Rate), Force: body.Force, Reason: body.Reason, Cursor: body.Cursor, Actor: c.operator(),
	})
	if err != nil {
		return toOperator(err)
	}
	return c.json(http.StatusOK, progress)
}

func (c *call) rehearseRun() error {
	body, err := readBody[rehearsalBody](c)
	if err != nil {
		return err
	}
	filter, err := body.Filter.filter()
	if err != nil {
		return err
	}
	ctx, cancel := c.timeout(c.api.Limits.OpsTimeout)
	defer cancel()
	result, err := c.api.DeadLetters.Rehearse(ctx, deadletters.Job{
		Consumer: c.request.PathValue("consumer"), Filter: filter, All: body.All, Limit: int(body.Limit), Force: body.Force,
	})
	if err != nil {
		return toOperator(err)
	}
	return c.json(http.StatusOK, result)
}

func (c *call) editLetter() error {
	body, err := readBody[editBody](c)
	if err != nil {
		return err
	}
	ref, err := c.letter()
	if err != nil {
		return err
	}
	ctx, cancel := c.timeout(c.api.Limits.OpsTimeout)
	defer cancel()
	progress, err := c.api.DeadLetters.Edit(ctx, deadletters.Correction{
		Letter: ref, Payload: []byte(body.Payload), Force: body.Force, Reason: body.Reason, Actor: c.operator(),
	})
	if err != nil {
		return toOperator(err)
	}
	return c.json(http.StatusOK, progress)
}

func (c *call) answerAudit() error {
	values, err := c.single("before", "limit", "subject", "actor", "action", "run")
	if err != nil {
		return err
	}
	query := deadletters.AuditQuery{Subject: values.Get("subject"), Actor: values.Get("actor"), Action: values.Get("action"), Run: values.Get("run")}
	limit := int64(0)
	for name, field := range map[string]*int64{"before": &query.Before, "limit": &limit} {
		if text := values.Get(name); values.Has(name) {
			if *field, err = strconv.ParseInt(text, 10, 64); err != nil || *field < 1 {
				return parameterProblem(CodeParameterInvalid, name, "a whole number above zero is expected")
			}
		}
	}
	query.Limit = int(min(limit, maxOpsPage))
	ctx, cancel := c.timeout(c.api.Limits.OpsTimeout)
	defer cancel()
	entries, err := c.api.DeadLetters.Audit(ctx, query)
	if err != nil {
		return toOperator(err)
	}
	return c.json(http.StatusOK, auditBody{Items: entries})
}
