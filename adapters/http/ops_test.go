package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"andes/deadletters"
	"andes/eventstore"
)

// desk answers what operators ask and keeps what they sent.
type desk struct {
	mu          sync.Mutex
	queries     []deadletters.Query
	jobs        []deadletters.Job
	corrections []deadletters.Correction
	audits      []deadletters.AuditQuery
	refuses     error
	silent      bool
}

// fault is what a call ends with.
func (d *desk) fault(ctx context.Context, consumer string) error {
	if d.silent {
		_, err := silence[int](ctx)
		return err
	}
	if d.refuses == nil && consumer != "" && consumer != someRef.Consumer {
		return eventstore.Refuse(deadletters.CodeConsumerUnknown, "there is no consumer %q", consumer)
	}
	return d.refuses
}

var (
	someRef     = deadletters.Ref{Consumer: "oms", Partition: 3, Offset: 17}
	someSummary = deadletters.Summary{
		Letter: someRef.String(), ParkedAt: testStart, Class: deadletters.Permanent, Error: "refused", Type: "order.placed", Key: "k",
		Origin: deadletters.Origin{Topic: "andes.commands.oms", Partition: 3, Offset: 4, Timestamp: testStart}, Attempt: 4, Bytes: 9,
		Payload: &deadletters.Payload{Kind: "event", JSON: []byte(`{"lines":2}`), Masked: []string{"/token"}},
	}
	someProgress = deadletters.Progress{
		Run: "r", Phase: deadletters.Done, Planned: 2, Sent: 1,
		Left: []deadletters.Left{{Why: deadletters.WhyHeld, Count: 1, Example: someRef, Detail: "it waits"}},
	}
)

func (d *desk) Stats(ctx context.Context, consumer string) ([]deadletters.Queue, error) {
	return []deadletters.Queue{{Consumer: "oms", Depth: 1, Oldest: testStart, Errors: []deadletters.ErrorCount{{Error: "refused", Count: 1}}}}, d.fault(ctx, consumer)
}

func (d *desk) List(ctx context.Context, query deadletters.Query) (deadletters.Page, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queries = append(d.queries, query)
	return deadletters.Page{Items: []deadletters.Summary{someSummary}, Cursor: "c"}, d.fault(ctx, query.Consumer)
}

func (d *desk) Show(ctx context.Context, ref deadletters.Ref) (deadletters.Detail, error) {
	return deadletters.Detail{
		Summary: someSummary, Headers: []deadletters.Header{{Name: "ce_id", Value: "x"}}, Behind: []string{"oms/3/18"}, BehindCount: 1,
		Stored:     &deadletters.StoredEvent{Stream: "order/k", Version: 1, Position: 1, RecordedAt: testStart, Data: []byte(`{}`)},
		Settlement: &deadletters.Settled{Action: deadletters.Replayed, State: "done", Run: "r", Actor: "a", At: testStart},
	}, d.fault(ctx, ref.Consumer)
}

func (d *desk) Advance(ctx context.Context, job deadletters.Job) (deadletters.Progress, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.jobs = append(d.jobs, job)
	return someProgress, d.fault(ctx, job.Consumer)
}

func (d *desk) Edit(ctx context.Context, correction deadletters.Correction) (deadletters.Progress, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.corrections = append(d.corrections, correction)
	return someProgress, d.fault(ctx, correction.Letter.Consumer)
}

func (d *desk) Rehearse(ctx context.Context, job deadletters.Job) (deadletters.Rehearsals, error) {
	return deadletters.Rehearsals{Items: []deadletters.Rehearsed{{
		Letter: someRef.String(), Outcome: "handled", Calls: []deadletters.Call{{Method: "POST", URL: "http://oms/orders", Assumed: "none"}},
		Events: []deadletters.RehearsedFact{{Stream: "order/k", Version: 2, Type: "order.registered", Data: []byte(`{}`)}},
	}}, Left: []deadletters.Left{}}, d.fault(ctx, job.Consumer)
}

func (d *desk) Audit(ctx context.Context, query deadletters.AuditQuery) ([]deadletters.AuditEntry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.audits = append(d.audits, query)
	return []deadletters.AuditEntry{{ID: 1, At: testStart, Actor: "ops-admin:ops", Action: "dlq.replay", Subject: "oms", Count: 1}}, d.fault(ctx, "")
}

// opsCalls are calls of every operators' endpoint about dead letters.
var opsCalls = []struct {
	route, target, body string
	changes             bool
}{
	{"GET /ops/dlq", "/ops/dlq?consumer=oms", "", false},
	{"GET /ops/dlq/{consumer}/letters", "/ops/dlq/oms/letters", "", false},
	{"GET /ops/dlq/{consumer}/letters/{partition}/{offset}", "/ops/dlq/oms/letters/3/17", "", false},
	{"POST /ops/dlq/{consumer}/rehearsals", "/ops/dlq/oms/rehearsals", `{"all":true,"limit":5}`, false},
	{"GET /ops/audit", "/ops/audit", "", false},
	{"POST /ops/dlq/{consumer}/runs", "/ops/dlq/oms/runs", `{"action":"replayed","filter":{"class":"permanent","letters":["oms/3/17"]}}`, true},
	{"POST /ops/dlq/{consumer}/letters/{partition}/{offset}/edit", "/ops/dlq/oms/letters/3/17/edit", `{"payload":"{}","reason":"a typo"}`, true},
}

const (
	asAdmin  = "Bearer ops:ops-admin"
	asViewer = "Bearer ops:ops-viewer"
)

// someOperator is who the audit log names for asAdmin.
const someOperator = OpsAdmin + ":someone@example.test"

func TestOperatorsLookAsViewersAndChangeAsAdmins(t *testing.T) {
	e := newEdge(t)
	for _, call := range opsCalls {
		method, path, _ := strings.Cut(call.route, " ")
		is(t, e.ask(method, call.target, call.body, "-Authorization", ""), 401, CodeUnauthenticated)
		is(t, e.ask(method, call.target, call.body), 403, CodeForbidden) // a partner
		got := e.ask(method, call.target, call.body, "Authorization", asViewer)
		if call.changes {
			is(t, got, 403, CodeForbidden)
		} else if got.status != 200 {
			t.Errorf("%s as a viewer: %d %s", call.route, got.status, got.body)
		}
		got = e.ask(method, call.target, call.body, "Authorization", asAdmin)
		if got.status != 200 {
			t.Errorf("%s as an admin: %d %s", call.route, got.status, got.body)
			continue
		}
		e.holds(got, method, path)
	}
}

func TestWhoDidItIsKnownFromTheToken(t *testing.T) {
	letters := &desk{}
	e := newEdge(t, func(c *Config) { c.DeadLetters = letters })
	for _, call := range opsCalls {
		method, _, _ := strings.Cut(call.route, " ")
		e.ask(method, call.target, call.body, "Authorization", asAdmin)
	}
	if len(letters.jobs) != 1 || len(letters.corrections) != 1 {
		t.Fatalf("%+v %+v", letters.jobs, letters.corrections)
	}
	job, correction := letters.jobs[0], letters.corrections[0]
	if !strings.HasPrefix(job.Actor, OpsAdmin) || job.Consumer != "oms" || job.Action != deadletters.Replayed || !slices.Equal(job.Filter.Letters, []deadletters.Ref{someRef}) {
		t.Errorf("%+v", job)
	}
	if correction.Actor != job.Actor || correction.Letter != someRef || string(correction.Payload) != "{}" || correction.Reason != "a typo" {
		t.Errorf("%+v", correction)
	}
	is(t, e.ask(http.MethodPost, "/ops/dlq/oms/runs", `{"action":"replayed","all":true,"actor":"somebody"}`, "Authorization", asAdmin), 422, CodeMemberUnknown)
	got := e.ask(http.MethodPost, "/ops/dlq/oms/letters/3/17/edit", `{"payload":"[1]","reason":"a typo"}`, "Authorization", asAdmin)
	if !strings.Contains(got.body, "expected a JSON object") {
		t.Errorf("%s", got.body)
	}
}

func TestTheAuditLogTellsOperatorsApart(t *testing.T) {
	long := "urn:example:" + strings.Repeat("a", 300)
	told := map[string]bool{}
	for subject, actor := range map[string]string{
		"ada": "ops-admin:ada", "auth0|5f7c": "ops-admin:auth0|5f7c", "dev:demo": "ops-admin:dev:demo", "someone@example.test": "ops-admin:someone@example.test",
		"urn:x:y/z": "ops-admin:urn:x:y/z", "": "ops-admin", "a\nb\x1b[2J": `ops-admin:a\nb\x1b[2J`, "\u202eada": `ops-admin:\u202eada`, "\xff": `ops-admin:\xff`,
		long + "1": "", long + "2": "",
	} {
		letters := &desk{}
		e := newEdge(t, func(c *Config) {
			c.DeadLetters = letters
			c.Verify = func(context.Context, string) (Principal, error) {
				return Principal{Subject: subject, Roles: []string{OpsAdmin}}, nil
			}
		})
		e.ask(http.MethodPost, "/ops/dlq/oms/runs", `{"action":"replayed","all":true}`, "Authorization", asAdmin)
		if len(letters.jobs) != 1 {
			t.Fatalf("%q: %+v", subject, letters.jobs)
		}
		got := letters.jobs[0].Actor
		if actor != "" && got != actor || len(got) > 300 || told[got] {
			t.Errorf("%q is told as %q", subject, got)
		}
		if told[got] = true; strings.Contains(e.log.String(), "someone@example.test") {
			t.Errorf("the log tells %q", subject)
		}
	}
}

func TestAFilterIsReadFromTheQuery(t *testing.T) {
	letters := &desk{}
	e := newEdge(t, func(c *Config) { c.DeadLetters = letters })
	target := "/ops/dlq/oms/letters?topic=T&class=behind&partner=acme&key=k&type=order.placed&error=refused&header=a%3Db&header=c%3Dd%3De" +
		"&since=2026-11-30T10:00:00Z&until=2026-11-30T11:00:00Z&all=true&payload=true&limit=7&cursor=xyz"
	if got := e.ask(http.MethodGet, target, "", "Authorization", asViewer); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	got := letters.queries[0]
	at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	f := got.Filter
	if got.Consumer != "oms" || !got.All || !got.Payload || got.Limit != 7 || got.Cursor != "xyz" || f.Topic != "T" || f.Class != "behind" || f.Partner != "acme" ||
		f.Key != "k" || f.Type != "order.placed" || f.Error != "refused" || !f.Since.Equal(at) || !f.Until.Equal(at.Add(time.Hour)) ||
		!slices.Equal(f.Headers, []deadletters.Header{{Name: "a", Value: "b"}, {Name: "c", Value: "d=e"}}) {
		t.Errorf("%+v", got)
	}
}

func TestOperatorsAreToldWhatIsWrong(t *testing.T) {
	e := newEdge(t)
	for target, code := range map[string]eventstore.Code{
		"/ops/dlq/oms/letters?limit=0":                  CodeParameterInvalid,
		"/ops/dlq/oms/letters?limit=501":                CodeParameterInvalid,
		"/ops/dlq/oms/letters?since=yesterday":          CodeParameterInvalid,
		"/ops/dlq/oms/letters?all=perhaps":              CodeParameterInvalid,
		"/ops/dlq/oms/letters?header=name":              CodeParameterInvalid,
		"/ops/dlq/oms/letters?key=a&key=b":              CodeParameterInvalid,
		"/ops/dlq/oms/letters?colour=red":               CodeParameterUnknown,
		"/ops/dlq/oms/letters?key=%00":                  CodeTextInvalid,
		"/ops/dlq?consumer=" + strings.Repeat("x", 600): CodeParameterInvalid,
		"/ops/audit?before=-1":                          CodeParameterInvalid,
		"/ops/audit?limit=x":                            CodeParameterInvalid,
	} {
		is(t, e.ask(http.MethodGet, target, "", "Authorization", asViewer), 422, code)
	}
	for _, target := range []string{"/ops/dlq/oms/letters/x/17", "/ops/dlq/oms/letters/3/-1", "/ops/dlq/oms/letters/3/99999999999999999999"} {
		is(t, e.ask(http.MethodGet, target, "", "Authorization", asViewer), 404, deadletters.CodeLetterUnknown)
	}
	for body, code := range map[string]eventstore.Code{
		`{}`: CodeMemberMissing, `{"action":"deleted"}`: CodeFormatInvalid, `{"action":"replayed","limit":-1}`: CodeNumberInvalid,
		`{"action":"replayed","filter":{"letters":["oms"]}}`: CodeFormatInvalid, `{"action":"replayed","filter":{"class":"odd"}}`: CodeFormatInvalid,
		`{"action":"replayed","filter":{"since":"now"}}`: CodeFormatInvalid,
	} {
		is(t, e.ask(http.MethodPost, "/ops/dlq/oms/runs", body, "Authorization", asAdmin), 422, code)
	}
	is(t, e.ask(http.MethodPost, "/ops/dlq/oms/letters/3/17/edit", `{"payload":"{}"}`, "Authorization", asAdmin), 422, CodeMemberMissing)
}

func TestRefusalsOfDeadLettersHaveTheirStatus(t *testing.T) {
	letters := &desk{}
	e := newEdge(t, func(c *Config) { c.DeadLetters = letters })
	for code, status := range map[eventstore.Code]int{
		deadletters.CodeConsumerUnknown: 404, deadletters.CodeNotRunning: 409, deadletters.CodeReasonMissing: 422, deadletters.CodeFilterMissing: 422,
	} {
		letters.refuses = eventstore.Refuse(code, "so it is")
		is(t, e.ask(http.MethodPost, "/ops/dlq/oms/runs", `{"action":"replayed","all":true}`, "Authorization", asAdmin), status, code)
	}
	letters.refuses = eventstore.ErrUnavailable
	is(t, e.ask(http.MethodGet, "/ops/dlq", "", "Authorization", asViewer), 503, CodeUnavailable)
}
