package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"andes/eventstore"
	"andes/tuning"
)

func TestOperatorsSeeHowTheGuardsStand(t *testing.T) {
	guards := []tuning.Guard{{
		System: "oms", Breaker: tuning.GuardBreaker{State: "open", Since: testStart, ProbesAt: testStart, Opened: 1},
		Settings: tuning.GuardSettings{Timeout: "2s", Waits: []string{"200ms", "1s"}},
	}, {System: "wms", Breaker: tuning.GuardBreaker{State: "closed", Since: testStart}, Settings: tuning.GuardSettings{Waits: []string{}}}}
	e := newEdge(t, func(c *Config) { c.Guards = func() []tuning.Guard { return guards } })
	is(t, e.ask(http.MethodGet, "/ops/guards", "", "-Authorization", ""), 401, CodeUnauthenticated)
	is(t, e.ask(http.MethodGet, "/ops/guards", ""), 403, CodeForbidden) // a partner
	got := e.ask(http.MethodGet, "/ops/guards", "", "Authorization", asViewer)
	e.holds(got, "GET", "/ops/guards")
	var body tuning.Overview
	if err := json.Unmarshal([]byte(got.body), &body); err != nil || len(body.Items) != 2 || body.Items[0].System != "oms" || body.Items[0].Breaker.State != "open" {
		t.Errorf("%d %s, %v", got.status, got.body, err)
	}
}

func TestAProcessWithoutGuardsSaysSo(t *testing.T) {
	got := newEdge(t).ask(http.MethodGet, "/ops/guards", "", "Authorization", asViewer)
	if got.status != 200 || string(got.body) != `{"items":[]}` {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// guardDesk is a desk that keeps what it is told.
type guardDesk struct {
	change tuning.Change
	silent bool // the store does not answer
}

func (d *guardDesk) Show(ctx context.Context) ([]tuning.GuardStanding, error) {
	if d.silent {
		<-ctx.Done()
		return nil, fmt.Errorf("%w: %w", eventstore.ErrUnavailable, ctx.Err())
	}
	return []tuning.GuardStanding{{System: "erp", Set: d.change.Patch, ChangedBy: d.change.Actor}}, nil
}

func (d *guardDesk) Change(_ context.Context, change tuning.Change) (tuning.GuardStanding, error) {
	switch change.System {
	case "none":
		return tuning.GuardStanding{}, eventstore.Refuse(tuning.CodeUnknown, "no such guard")
	case "wms":
		return tuning.GuardStanding{}, eventstore.Refuse(tuning.CodeInvalid, "timeout 0s is not above 0")
	}
	d.change = change
	return tuning.GuardStanding{System: change.System, Set: change.Patch}, nil
}

// The day on which the database hangs is one on which operators look at the guards.
func TestGuardsAreToldWhileWhatIsSetCannotBeRead(t *testing.T) {
	guards := []tuning.Guard{{System: "oms", Breaker: tuning.GuardBreaker{State: "open", Since: testStart}, Settings: tuning.GuardSettings{Waits: []string{}}}}
	e := newEdge(t, func(c *Config) {
		c.Guards, c.GuardDesk, c.Limits = func() []tuning.Guard { return guards }, &guardDesk{silent: true}, DefaultLimits
		c.Limits.ReadTimeout = 10 * time.Millisecond
	})
	got := e.ask(http.MethodGet, "/ops/guards", "", "Authorization", asViewer)
	e.holds(got, http.MethodGet, "/ops/guards")
	var body tuning.Overview
	if err := json.Unmarshal([]byte(got.body), &body); err != nil || got.status != 200 || len(body.Items) != 1 || body.Items[0].Breaker.State != "open" ||
		body.Set != nil || !strings.Contains(body.Unread, "deadline") {
		t.Errorf("%d %s, %v", got.status, got.body, err)
	}
}

func TestOperatorsSetGuards(t *testing.T) {
	desk := &guardDesk{}
	e := newEdge(t, func(c *Config) { c.GuardDesk = desk })
	admin := []string{"Authorization", "Bearer ops:ops-admin"}
	set := func(system, body string, headers ...string) reply {
		return e.ask(http.MethodPut, "/ops/guards/"+system, body, headers...)
	}
	good := `{"set":{"timeout":"1s","slowPercent":0,"waits":["100ms","1s"]},"reason":"a peak"}`
	is(t, set("erp", good, "-Authorization", ""), 401, CodeUnauthenticated)
	is(t, set("erp", good), 403, CodeForbidden) // a partner
	is(t, set("erp", good, "Authorization", asViewer), 403, CodeForbidden)
	got := set("erp", good, admin...)
	e.holds(got, http.MethodPut, "/ops/guards/{system}")
	if got.status != 200 || got.body != `{"system":"erp","set":{"timeout":"1s","waits":["100ms","1s"],"slowPercent":0}}` ||
		desk.change.Actor != someOperator || desk.change.Reason != "a peak" || desk.change.Reset {
		t.Errorf("%d %s %+v", got.status, got.body, desk.change)
	}
	shown := e.ask(http.MethodGet, "/ops/guards", "", "Authorization", asViewer)
	e.holds(shown, http.MethodGet, "/ops/guards")
	if want := `{"items":[],"set":[{"system":"erp","set":{"timeout":"1s","waits":["100ms","1s"],"slowPercent":0},"changedBy":"ops-admin:someone@example.test"}]}`; shown.body != want {
		t.Errorf("%s, want %s", shown.body, want)
	}
	if got := set("erp", `{"reset":true,"reason":"it is over"}`, admin...); got.status != 200 || !desk.change.Reset || !desk.change.Patch.Empty() {
		t.Errorf("%d %s %+v", got.status, got.body, desk.change)
	}
	is(t, set("none", good, admin...), 404, tuning.CodeUnknown)
	is(t, set("wms", good, admin...), 422, tuning.CodeInvalid)
	is(t, set("erp", `{"set":{"timeout":"1s"}}`, admin...), 422, CodeMemberMissing) // no reason
	is(t, set("erp", `{"set":{"speed":9},"reason":"r"}`, admin...), 422, CodeMemberUnknown)
	is(t, set("erp", `{"set":{"rate":"9"},"reason":"r"}`, admin...), 422, CodeTypeInvalid)
	is(t, set("erp", `{"set":{"rate":null},"reason":"r"}`, admin...), 422, CodeTypeInvalid)
	is(t, set("erp", `{"set":{"timeout":"","rate":9},"reason":"r"}`, admin...), 422, CodeLengthInvalid) // not: as it is
	is(t, set("erp", `{"set":{"waits":[],"rate":9},"reason":"r"}`, admin...), 422, CodeLengthInvalid)
}
