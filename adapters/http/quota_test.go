package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"andes/commands/partner"
	"andes/eventstore"
	"andes/quota"
)

// levels is a quota store on the edge's clock.
type levels struct {
	edge *edge
	kept map[quota.Key]quota.Level
}

func (l *levels) Take(_ context.Context, key quota.Key, limit quota.Limit, cost, extra int64) (quota.Level, int64, error) {
	level, granted := limit.Take(l.kept[key], l.edge.clock().UnixMicro(), cost, extra)
	l.kept[key] = level
	return level, granted, nil
}

// newLimited gives an edge that keeps quotas: acme is bronze.
func newLimited(t *testing.T, change ...func(*quota.Config)) *edge {
	t.Helper()
	store := &levels{kept: map[quota.Key]quota.Level{}}
	var later *edge
	clock := func() time.Time {
		if later == nil {
			return testStart
		}
		return later.clock()
	}
	config := quota.DefaultConfig()
	config.Store, config.Now, config.Logger, config.Wait = store, clock, slog.New(slog.DiscardHandler), time.Minute
	config.Tiers, _ = quota.ParseTiers(quota.DefaultTiers, 1)
	for _, apply := range change {
		apply(&config)
	}
	quotas, err := quota.New(config)
	if err != nil {
		t.Fatal(err)
	}
	later = newEdge(t, func(c *Config) { c.Quota = quotas })
	store.edge = later
	later.policy(partner.Policy{PriceList: "retail", Currency: "GBP"})
	return later
}

func (e *edge) policy(policy partner.Policy) {
	e.t.Helper()
	e.do(partner.Configure{Partner: partner.State{ID: "acme", Name: "a", Tier: "bronze", Policy: policy}})
}

func skus(count int) string {
	list := make([]string, count)
	for i := range list {
		list[i] = fmt.Sprintf("%q", fmt.Sprint("S", i))
	}
	return `{"skus":[` + strings.Join(list, ",") + `]}`
}

// remains reads r of the field RateLimit.
func (r reply) remains(t *testing.T) (remaining, seconds int) {
	t.Helper()
	if _, err := fmt.Sscanf(r.header.Get(stateHeader), `"reads";r=%d;t=%d`, &remaining, &seconds); err != nil {
		t.Errorf("%q: %v", r.header.Get(stateHeader), err)
	}
	return remaining, seconds
}

// Field case: does a batch of 1,000 SKUs cost 1 or 1,000?
func TestABatchCostsOneForEachHundredSKUs(t *testing.T) {
	e := newLimited(t)
	left := 20
	for _, c := range []struct{ skus, cost int }{{1, 1}, {100, 1}, {101, 2}, {200, 2}, {1000, 10}} {
		left -= c.cost
		got := e.ask(http.MethodPost, "/v1/stock/query", skus(c.skus))
		if remaining, _ := got.remains(t); got.status != 200 || remaining != left {
			t.Errorf("%d SKUs: %d, %d remain, want %d", c.skus, got.status, remaining, left)
		}
	}
	got := e.ask(http.MethodPost, "/v1/prices/query", skus(1000))
	is(t, got, 429, CodeRateLimited)
	if got.header.Get("Retry-After") != "1" || got.header.Get(policyHeader) != `"reads";q=20;w=1` {
		t.Errorf("%v", got.header)
	}
	e.pass(time.Second)
	if got := e.ask(http.MethodPost, "/v1/prices/query", skus(1000)); got.status != 200 {
		t.Errorf("after Retry-After: %d %s", got.status, got.body)
	}
}

func TestAFloodOfReadsLeavesOrdersAlone(t *testing.T) {
	e := newLimited(t)
	refused := 0
	for range 100 {
		got := e.ask(http.MethodGet, "/v1/stock?sku=A", "")
		if got.status == 200 {
			continue
		}
		is(t, got, 429, CodeRateLimited)
		refused++
		if _, seconds := got.remains(t); got.header.Get("Retry-After") == "0" || got.header.Get("Retry-After") < fmt.Sprint(seconds) {
			t.Errorf("%v", got.header)
		}
	}
	if refused != 80 {
		t.Errorf("%d of 100 were refused", refused)
	}
	e.placed("K", smallOrder)
	e.placed("K2", smallOrder)
	is(t, e.order("K3", smallOrder), 429, CodeRateLimited)
	e.pass(time.Second)
	e.placed("K3", smallOrder) // the refusal did not spend the key
}

func TestChannelsShareThePartnersQuotaUnlessItsPolicySaysOtherwise(t *testing.T) {
	e := newLimited(t)
	verify := e.Verify
	e.Verify = func(ctx context.Context, token string) (Principal, error) {
		principal, err := verify(ctx, "acme")
		principal.Subject = token
		return principal, err
	}
	count := func(channels ...string) (allowed int) {
		for i := range 60 {
			if e.ask(http.MethodGet, "/v1/stock?sku=A", "", "Authorization", "Bearer "+channels[i%len(channels)]).status == 200 {
				allowed++
			}
		}
		return allowed
	}
	if allowed := count("shop", "app"); allowed != 20 {
		t.Errorf("shared: %d passed", allowed)
	}
	e.policy(partner.Policy{PriceList: "retail", Currency: "GBP", QuotaPerChannel: true})
	if allowed := count("shop", "app"); allowed != 40 {
		t.Errorf("of their own: %d passed", allowed)
	}
}

func TestLevelOneIsForEveryEndpointOfPartnersAndForNoOther(t *testing.T) {
	e := newLimited(t, func(c *quota.Config) { c.Client = quota.Limit{PerSecond: 500, Burst: 3} })
	for range 3 {
		if got := e.ask(http.MethodGet, "/v1/subscriptions", ""); got.status != 200 || got.header.Get(policyHeader) != "" {
			t.Errorf("%d %v", got.status, got.header)
		}
	}
	for _, target := range []string{"/v1/subscriptions", "/v1/stock?sku=A"} {
		got := e.ask(http.MethodGet, target, "")
		is(t, got, 429, CodeRateLimited)
		if got.header.Get("Retry-After") != "1" || got.header.Get(stateHeader) != "" {
			t.Errorf("%v", got.header)
		}
	}
	if got := e.ask(http.MethodGet, "/v1/stock?sku=A", "", "Authorization", "Bearer other"); got.status != 200 {
		t.Errorf("another partner: %d", got.status)
	}
	for range 10 {
		if got := e.ask(http.MethodGet, "/ops/partners/acme", "", "Authorization", "Bearer ops:ops-viewer"); got.status != 200 {
			t.Errorf("an operator: %d", got.status)
		}
	}
}

func TestTheOlderFieldsAreToldByConfiguration(t *testing.T) {
	e := newLimited(t)
	if got := e.ask(http.MethodGet, "/v1/stock?sku=A", ""); got.header.Get(olderLimitHeader) != "" {
		t.Errorf("%v", got.header)
	}
	e.OlderRateFields = true
	got := e.ask(http.MethodGet, "/v1/stock?sku=A", "")
	if got.header.Get(olderLimitHeader) != "20" || got.header.Get(olderRemainingHeader) != "18" || got.header.Get(olderResetHeader) != "1" {
		t.Errorf("%v", got.header)
	}
}

func TestTheDocumentTellsTheFieldsOfQuotas(t *testing.T) {
	e := newLimited(t)
	var document struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Headers map[string]any `json:"headers"`
			} `json:"responses"`
		} `json:"paths"`
	}
	if err := json.Unmarshal([]byte(e.ask(http.MethodGet, "/openapi.json", "").body), &document); err != nil {
		t.Fatal(err)
	}
	for route, has := range map[string]bool{
		"get /v1/stock": true, "post /v1/prices/query": true, "get /v1/products/{sku}": true, "get /v1/orders/{id}": true, "get /v1/subscriptions": false,
	} {
		method, path, _ := strings.Cut(route, " ")
		responses := document.Paths[path][method].Responses
		for _, status := range []string{"200", "429"} {
			headers := responses[status].Headers
			_, policy := headers[policyHeader]
			_, state := headers[stateHeader]
			_, older := headers[olderLimitHeader]
			if policy != has || state != has || older {
				t.Errorf("%s %s: %v", route, status, headers)
			}
		}
		if _, retry := responses["429"].Headers["Retry-After"]; !retry {
			t.Errorf("%s: the 429 has no Retry-After", route)
		}
	}
}

// deskOf is a desk that keeps what it is told.
type deskOf struct {
	change quota.Change
	unread string
}

func (d *deskOf) Show(context.Context) quota.Standing {
	return quota.Standing{Tiers: d.change.Tiers, Configured: quota.DefaultTiers, Here: quota.DefaultTiers, Unread: d.unread}
}

func (d *deskOf) Change(ctx context.Context, change quota.Change) (quota.Standing, error) {
	switch change.Tiers {
	case "none":
		return quota.Standing{}, eventstore.Refuse(quota.CodeInvalid, "no limits")
	case "late":
		return quota.Standing{}, eventstore.Refuse(quota.CodeChanged, "they are others")
	case "away":
		return quota.Standing{}, fmt.Errorf("%w: the database does not answer", eventstore.ErrUnavailable)
	}
	d.change = change
	return d.Show(ctx), nil
}

func TestOperatorsChangeLimits(t *testing.T) {
	desk := &deskOf{}
	e := newEdge(t, func(c *Config) { c.QuotaDesk = desk })
	admin, viewer := []string{"Authorization", "Bearer ops:ops-admin"}, []string{"Authorization", "Bearer ops:ops-viewer"}
	got := e.ask(http.MethodPut, "/ops/quotas", `{"tiers":"bronze=40/4,silver=100/10,gold=500/50","was":"bronze=20/2,silver=100/10,gold=500/50","reason":"a promotion"}`, admin...)
	if got.status != 200 || desk.change.Actor != someOperator || desk.change.Reason != "a promotion" || desk.change.Was != quota.DefaultTiers {
		t.Errorf("%d %s %+v", got.status, got.body, desk.change)
	}
	e.holds(got, http.MethodPut, "/ops/quotas")
	got = e.ask(http.MethodGet, "/ops/quotas", "", viewer...)
	if got.status != 200 || got.body != `{"tiers":"bronze=40/4,silver=100/10,gold=500/50","configured":"bronze=20/2,silver=100/10,gold=500/50","here":"bronze=20/2,silver=100/10,gold=500/50"}` {
		t.Errorf("%d %s", got.status, got.body)
	}
	set := func(body string, headers ...string) reply {
		return e.ask(http.MethodPut, "/ops/quotas", body, headers...)
	}
	is(t, set(`{"tiers":"none","was":"","reason":"r"}`, admin...), 422, quota.CodeInvalid)
	is(t, set(`{"tiers":"","was":""}`, admin...), 422, CodeMemberMissing)
	is(t, set(`{"tiers":"","reason":"r"}`, admin...), 422, CodeMemberMissing) // nobody changes what was not looked at
	is(t, set(`{"tiers":"","was":"","reason":"r"}`, viewer...), 403, CodeForbidden)
	late := set(`{"tiers":"late","was":"","reason":"r"}`, admin...)
	e.holds(late, http.MethodPut, "/ops/quotas")
	is(t, late, 409, quota.CodeChanged)
	away := set(`{"tiers":"away","was":"","reason":"r"}`, admin...)
	is(t, away, 503, CodeUnavailable)
	if detail := away.problem(t).Detail; !strings.Contains(detail, "the database does not answer") {
		t.Error(detail)
	}
	desk.change, desk.unread = quota.Change{}, "the database does not answer"
	got = e.ask(http.MethodGet, "/ops/quotas", "", viewer...)
	e.holds(got, http.MethodGet, "/ops/quotas")
	if got.status != 200 || got.body != `{"configured":"bronze=20/2,silver=100/10,gold=500/50","here":"bronze=20/2,silver=100/10,gold=500/50","unread":"the database does not answer"}` {
		t.Errorf("%d %s", got.status, got.body)
	}
	is(t, e.ask(http.MethodGet, "/ops/quotas", ""), 403, CodeForbidden)
}
