package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"andes/commands/sku"
	"andes/eventstore"
	"andes/promo"
)

// stage is a desk that keeps what it is told.
type stage struct {
	plan     promo.Plan
	degraded promo.Degraded
	actor    string
	reason   string
	fault    error
}

func (s *stage) Show(context.Context) (promo.Status, error) {
	return promo.Status{
		Phase: promo.On, Promo: promo.State{ID: "p", SKUs: []string{"A"}, From: testStart, Until: testStart.Add(time.Hour), Microcache: promo.Span(2 * time.Second)}, Left: promo.Span(time.Hour),
		Board: promo.Window{
			From: testStart, Until: testStart, Answers: map[string]int64{"200": 3}, Legacy: map[string]promo.Calls{"wms": {Count: 1}},
			Freshness: map[string]promo.Aged{"wms.stock": {Last: 1}}, Timeline: []promo.Point{{At: testStart}},
		},
		Look: &promo.Look{Keys: 3, Stale: []promo.Stale{{SKU: "A", What: "stock", Age: promo.Span(time.Minute)}}}, Warnings: []string{"w"},
	}, s.fault
}

func (s *stage) On(ctx context.Context, plan promo.Plan) (promo.Status, error) {
	s.plan = plan
	return s.Show(ctx)
}

func (s *stage) Degrade(ctx context.Context, degraded promo.Degraded, actor, reason string) (promo.Status, error) {
	s.degraded, s.actor, s.reason = degraded, actor, reason
	return s.Show(ctx)
}

func (s *stage) Off(ctx context.Context, actor, reason string) (promo.Status, error) {
	s.actor, s.reason = actor, reason
	return s.Show(ctx)
}

func (s *stage) Report(_ context.Context, id string) (promo.Report, error) {
	if id == "none" {
		return promo.Report{}, eventstore.Refuse(promo.CodeNoReport, "there is none")
	}
	report := promo.Report{State: promo.State{ID: "p" + id}, Final: true}
	if id == "7" {
		report.Before = &promo.Window{From: testStart, Until: testStart.Add(time.Hour), ReadsRate: 12.5}
	}
	return report, s.fault
}

const goodPromo = `{"skus":["A","B"],"for":"2h","from":"2026-11-27T00:00:00-03:00","degraded":{"stale":"30s","cap":5,"quotas":50},"force":true,"reason":"Black Friday"}`

func TestOperatorsSwitchPromoMode(t *testing.T) {
	desk := &stage{}
	e := newEdge(t, func(c *Config) { c.PromoDesk = desk })
	admin, viewer := []string{"Authorization", "Bearer ops:ops-admin"}, []string{"Authorization", asViewer}
	got := e.ask(http.MethodPut, "/ops/promo", goodPromo, admin...)
	e.holds(got, http.MethodPut, "/ops/promo")
	want := promo.Plan{
		SKUs: []string{"A", "B"}, For: 2 * time.Hour, From: time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC), Microcache: promo.DefaultMicrocache, Force: true,
		Degraded: promo.Degraded{Stale: promo.Span(30 * time.Second), Cap: 5, Quotas: 50}, Actor: someOperator, Reason: "Black Friday",
	}
	desk.plan.From = desk.plan.From.UTC()
	if got.status != 200 || !reflect.DeepEqual(desk.plan, want) {
		t.Errorf("%d %s\n%+v\n%+v", got.status, got.body, desk.plan, want)
	}
	e.holds(e.ask(http.MethodGet, "/ops/promo", "", viewer...), http.MethodGet, "/ops/promo")
	got = e.ask(http.MethodPut, "/ops/promo/degraded", `{"degraded":{"cap":9},"reason":"a peak"}`, admin...)
	e.holds(got, http.MethodPut, "/ops/promo/degraded")
	if desk.degraded != (promo.Degraded{Cap: 9}) || desk.actor != someOperator || desk.reason != "a peak" {
		t.Errorf("%+v", desk)
	}
	got = e.ask(http.MethodPost, "/ops/promo/off", `{"reason":"sold out"}`, admin...)
	e.holds(got, http.MethodPost, "/ops/promo/off")
	if desk.reason != "sold out" {
		t.Errorf("%+v", desk)
	}
	got = e.ask(http.MethodGet, "/ops/promo/report?promo=7", "", viewer...)
	e.holds(got, http.MethodGet, "/ops/promo/report")
	if !strings.Contains(got.body, `"before":{"from":"`) || !strings.Contains(got.body, `"readsPerSecond":12.5`) {
		t.Error(got.body)
	}
	if got = e.ask(http.MethodGet, "/ops/promo/report", "", viewer...); strings.Contains(got.body, `"before"`) {
		t.Error(got.body)
	}
	e.holds(got, http.MethodGet, "/ops/promo/report")
	is(t, e.ask(http.MethodGet, "/ops/promo/report?promo=none", "", viewer...), 404, promo.CodeNoReport)
}

func TestWhoMaySwitchPromoModeAndHow(t *testing.T) {
	desk := &stage{}
	e := newEdge(t, func(c *Config) { c.PromoDesk = desk })
	for _, c := range []struct{ method, target, body string }{
		{http.MethodPut, "/ops/promo", goodPromo},
		{http.MethodPut, "/ops/promo/degraded", `{"degraded":{},"reason":"r"}`},
		{http.MethodPost, "/ops/promo/off", `{"reason":"r"}`},
	} {
		is(t, e.ask(c.method, c.target, c.body, "-Authorization", ""), 401, CodeUnauthenticated)
		is(t, e.ask(c.method, c.target, c.body), 403, CodeForbidden)
		is(t, e.ask(c.method, c.target, c.body, "Authorization", asViewer), 403, CodeForbidden)
	}
	is(t, e.ask(http.MethodGet, "/ops/promo", ""), 403, CodeForbidden)
	is(t, e.ask(http.MethodGet, "/ops/promo/report", ""), 403, CodeForbidden)
	for body, code := range map[string]eventstore.Code{
		`{"skus":["A"],"for":"2h"}`:                                            CodeMemberMissing, // no reason
		`{"skus":["A"],"for":"soon","reason":"r"}`:                             promo.CodeInvalid,
		`{"skus":["A"],"for":"2h","microcache":"x","reason":"r"}`:              promo.CodeInvalid,
		`{"skus":["A"],"for":"2h","from":"tomorrow","reason":"r"}`:             promo.CodeInvalid,
		`{"skus":["A"],"for":"2h","degraded":{"stale":"x"},"reason":"r"}`:      promo.CodeInvalid,
		`{"skus":["A"],"for":"2h","degraded":{"speed":1},"reason":"r"}`:        CodeMemberUnknown,
		`{"skus":[],"for":"2h","reason":"r"}`:                                  CodeLengthInvalid,
		`{"skus":["A"],"for":"2h","degraded":{"cap":"all"},"reason":"r"}`:      CodeTypeInvalid,
		`{"skus":["A"],"for":"2h","degraded":{"cap":0},"reason":"r"}`:          CodeNumberInvalid, // what is named is on
		`{"skus":["A"],"for":"2h","degraded":{"cap":-1},"reason":"r"}`:         CodeNumberInvalid,
		`{"skus":["A"],"for":"2h","degraded":{"quotas":100},"reason":"r"}`:     CodeNumberInvalid,
		`{"skus":["A"],"for":"2h","degraded":{"quotas":0},"reason":"r"}`:       CodeNumberInvalid,
		`{"skus":["A"],"for":"2h","degraded":{"stale":"0s"},"reason":"r"}`:     promo.CodeInvalid,
		`{"skus":["A"],"for":"2h","degraded":{"stale":""},"reason":"r"}`:       CodeLengthInvalid,
		`{"skus":["A"],"for":"2h","from":"","reason":"r"}`:                     CodeLengthInvalid, // not: now
		`{"skus":["A"],"for":"2h","from":"0001-01-01T00:00:00Z","reason":"r"}`: promo.CodeInvalid,
		`{"skus":["A"],"for":"","reason":"r"}`:                                 CodeLengthInvalid,
		`{"skus":["A"],"for":"2h","microcache":"","reason":"r"}`:               CodeLengthInvalid,
		`{"skus":[""],"for":"2h","reason":"r"}`:                                sku.CodeInvalid,
		`{"skus":["A"],"for":"2h","reason":"r","reason":"s"}`:                  CodeDuplicateMember,
		`{"skus":["A"],"for":"2h","reason":"r","from":"2026-11-27T00:00:00Z"}`: "",
	} {
		got := e.ask(http.MethodPut, "/ops/promo", body, "Authorization", "Bearer ops:ops-admin")
		if code == "" && got.status == 200 {
			continue
		}
		if got.problem(t).Code != code {
			t.Errorf("%s: %s", body, got.body)
		}
	}
	desk.fault = eventstore.Refuse(promo.CodeStale, "stock of A is 7m old")
	is(t, e.ask(http.MethodPut, "/ops/promo", goodPromo, "Authorization", "Bearer ops:ops-admin"), 409, promo.CodeStale)
	desk.fault = fmt.Errorf("%w: Redis does not answer", eventstore.ErrUnavailable)
	got := e.ask(http.MethodPut, "/ops/promo", goodPromo, "Authorization", "Bearer ops:ops-admin")
	e.holds(got, http.MethodPut, "/ops/promo")
	is(t, got, 503, CodeUnavailable)
	if got.header.Get("Retry-After") == "" || !strings.Contains(got.problem(t).Detail, "Redis does not answer") {
		t.Errorf("%v %s", got.header, got.body)
	}
}
