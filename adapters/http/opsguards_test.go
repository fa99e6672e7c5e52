package httpapi

import (
	"encoding/json"
	"net/http"
	"testing"
)

func TestOperatorsSeeHowTheGuardsStand(t *testing.T) {
	guards := []Guard{{
		System: "oms", Breaker: GuardBreaker{State: "open", Since: testStart, ProbesAt: testStart, Opened: 1},
		Settings: GuardSettings{Timeout: "2s", Waits: []string{"200ms", "1s"}},
	}, {System: "wms", Breaker: GuardBreaker{State: "closed", Since: testStart}, Settings: GuardSettings{Waits: []string{}}}}
	e := newEdge(t, func(c *Config) { c.Guards = func() []Guard { return guards } })
	is(t, e.ask(http.MethodGet, "/ops/guards", "", "-Authorization", ""), 401, CodeUnauthenticated)
	is(t, e.ask(http.MethodGet, "/ops/guards", ""), 403, CodeForbidden) // a partner
	got := e.ask(http.MethodGet, "/ops/guards", "", "Authorization", asViewer)
	e.holds(got, "GET", "/ops/guards")
	var body guardsBody
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
