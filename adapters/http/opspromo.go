package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"andes/eventstore"
	"andes/promo"
)

// PromoDesk is where operators switch promo mode.
type PromoDesk interface {
	Show(ctx context.Context) (promo.Status, error)
	On(ctx context.Context, plan promo.Plan) (promo.Status, error)
	Degrade(ctx context.Context, degraded promo.Degraded, actor, reason string) (promo.Status, error)
	Off(ctx context.Context, actor, reason string) (promo.Status, error)
	Report(ctx context.Context, id string) (promo.Report, error)
}

// degradedBody switches degradations.
type degradedBody struct {
	Stale  string `json:"stale,omitzero" minLength:"1" maxLength:"40" example:"30s" doc:"1: give an answer that old while there is no newer one; up to 10m, longer than microcache"`
	Cap    int64  `json:"cap,omitzero" minimum:"1" maximum:"1000000" example:"5" doc:"2: show no channel more units; 1 to 1000000"`
	Quotas int    `json:"quotas,omitzero" minimum:"1" maximum:"99" example:"50" doc:"3: leave the lower tiers so many percent of their quotas; 1 to 99"`
}

// promoBody switches promo mode on.
type promoBody struct {
	SKUs       []skuText    `json:"skus" minItems:"1" maxItems:"5000" doc:"What the promo sells"`
	For        string       `json:"for" minLength:"1" maxLength:"40" example:"2h" doc:"How long, 1m to 24h; it ends by itself"`
	From       string       `json:"from,omitzero" minLength:"1" maxLength:"40" example:"2026-11-27T00:00:00-03:00" doc:"RFC 3339; none: as soon as all processes have heard of it"`
	Microcache string       `json:"microcache,omitzero" minLength:"1" maxLength:"40" example:"2s" doc:"How long answers about stock and prices are kept, up to 30s; none: 2s; 0s: not at all"`
	Degraded   degradedBody `json:"degraded,omitzero" doc:"Degradations from the beginning; what is not given is off"`
	Force      bool         `json:"force,omitzero" doc:"Also if products are unknown, too old or missing in the read model"`
	Reason     string       `json:"reason" minLength:"1" maxLength:"1000" doc:"For the audit log"`
}

// degradeBody switches the degradations of the promo that is on.
type degradeBody struct {
	Degraded degradedBody `json:"degraded" doc:"What is not given is off"`
	Reason   string       `json:"reason" minLength:"1" maxLength:"1000" doc:"For the audit log"`
}

// promoOffBody switches promo mode off.
type promoOffBody struct {
	Reason string `json:"reason" minLength:"1" maxLength:"1000" doc:"For the audit log"`
}

func (a *API) promoEndpoints() []*endpoint {
	status := []answer{{status: 200, description: "How promo mode stands", body: reflect.TypeFor[promo.Status]()}}
	return []*endpoint{
		{
			method: http.MethodGet, path: "/ops/promo", id: "promo", tag: "operations", summary: "How promo mode stands, and what all processes did in the last minute",
			description: "Of a promo that waits, is on, or was the last one. The board is what all processes told, each every 10 s, so it is that much behind. " +
				"While PostgreSQL does not answer, what the process itself knows is told, and unread says so.",
			access: opsViewers, answers: status, handle: (*call).answerPromo,
		},
		{
			method: http.MethodPut, path: "/ops/promo", id: "promoOn", tag: "operations", summary: "Switch promo mode on",
			description: "Needs the role ops-admin. The products are put into the read model and looked at first. All processes begin at the same instant, and end by themselves. " +
				"A promo takes 1m to 24h (for), begins within 30 days (from), is about 1 to 5000 SKUs, and keeps answers for 0s to 30s (microcache, 2s by default). " +
				"degraded says which of the prepared degradations are on from the beginning; each is off without its member: stale, up to 10m and longer than microcache; " +
				"cap, 1 to 1000000 units; quotas, 1 to 99 percent. PUT /ops/promo/degraded changes them later.",
			access: opsAdmins, body: reflect.TypeFor[promoBody](), answers: status, handle: (*call).promoOn,
			refusals: []eventstore.Code{promo.CodeInvalid, promo.CodeUnknown, promo.CodeStale, promo.CodeCold, promo.CodeOn, promo.CodeContended},
		},
		{
			method: http.MethodPut, path: "/ops/promo/degraded", id: "promoDegrade", tag: "operations", summary: "Switch the prepared degradations",
			description: "Needs the role ops-admin. They end with the promo.",
			access:      opsAdmins, body: reflect.TypeFor[degradeBody](), answers: status, handle: (*call).promoDegrade,
			refusals: []eventstore.Code{promo.CodeInvalid, promo.CodeOff, promo.CodeContended},
		},
		{
			method: http.MethodPost, path: "/ops/promo/off", id: "promoOff", tag: "operations", summary: "Switch promo mode off",
			description: "Needs the role ops-admin. All processes follow within seconds.",
			access:      opsAdmins, body: reflect.TypeFor[promoOffBody](), answers: status, handle: (*call).promoOff,
			refusals: []eventstore.Code{promo.CodeOff, promo.CodeContended},
		},
		{
			method: http.MethodGet, path: "/ops/promo/report", id: "promoReport", tag: "operations", summary: "What a promo was like",
			description: "Of one that is on: so far. before has the same figures of as long a time right before it; without before they are unknown, as Andes did not count " +
				"all of that time, or another promo was on.",
			access: opsViewers, handle: (*call).answerPromoReport, refusals: []eventstore.Code{promo.CodeNoReport, CodeParameterInvalid},
			parameters: []*huma.Param{queryParameter("promo", "Its id; none: the last one", false, shortText())},
			answers:    []answer{{status: 200, description: "The report", body: reflect.TypeFor[promo.Report]()}},
		},
	}
}

// promo is what counts of promo mode at this moment.
func (a *API) promo() promo.State {
	if a.Promo == nil {
		return promo.State{}
	}
	return a.Promo()
}

// duration reads a duration of a body.
func duration(pointer, text string, otherwise time.Duration) (time.Duration, error) {
	if text == "" {
		return otherwise, nil
	}
	read, err := time.ParseDuration(text)
	if err != nil {
		return 0, invalid([]eventstore.Problem{{Pointer: pointer, Code: promo.CodeInvalid, Detail: "no duration, as 2s or 1h30m"}})
	}
	return read, nil
}

func (b degradedBody) degraded() (promo.Degraded, error) {
	stale, err := duration("/degraded/stale", b.Stale, 0)
	if err == nil && b.Stale != "" && stale <= 0 { // what is named is on: zero would switch it off
		err = invalid([]eventstore.Problem{{Pointer: "/degraded/stale", Code: promo.CodeInvalid, Detail: "an age above zero; leave it out to switch it off"}})
	}
	return promo.Degraded{Stale: promo.Span(stale), Cap: b.Cap, Quotas: b.Quotas}, err
}

func (c *call) answerPromo() error {
	return c.withPromo(c.api.Limits.ReadTimeout, func(ctx context.Context, desk PromoDesk) (promo.Status, error) { return desk.Show(ctx) })
}

// withPromo does something at the desk and answers how promo mode stands then.
func (c *call) withPromo(limit time.Duration, do func(ctx context.Context, desk PromoDesk) (promo.Status, error)) error {
	ctx, cancel := c.timeout(limit)
	defer cancel()
	status, err := do(ctx, c.api.PromoDesk)
	if err != nil {
		return toOperator(err)
	}
	return c.json(http.StatusOK, status)
}

func (c *call) promoOn() error {
	body, err := readBody[promoBody](c)
	if err != nil {
		return err
	}
	plan := promo.Plan{SKUs: make([]string, len(body.SKUs)), Force: body.Force, Actor: c.operator(), Reason: body.Reason}
	for i, each := range body.SKUs {
		plan.SKUs[i] = string(each)
	}
	if plan.For, err = duration("/for", body.For, 0); err != nil {
		return err
	}
	if plan.Microcache, err = duration("/microcache", body.Microcache, promo.DefaultMicrocache); err != nil {
		return err
	}
	if plan.Degraded, err = body.Degraded.degraded(); err != nil {
		return err
	}
	if body.From != "" {
		if plan.From, err = time.Parse(time.RFC3339, body.From); err != nil || plan.From.IsZero() {
			return invalid([]eventstore.Problem{{Pointer: "/from", Code: promo.CodeInvalid, Detail: "no RFC 3339 time with its offset"}})
		}
	}
	return c.withPromo(c.api.Limits.OpsTimeout, func(ctx context.Context, desk PromoDesk) (promo.Status, error) { return desk.On(ctx, plan) })
}

func (c *call) promoDegrade() error {
	body, err := readBody[degradeBody](c)
	if err != nil {
		return err
	}
	degraded, err := body.Degraded.degraded()
	if err != nil {
		return err
	}
	return c.withPromo(c.api.Limits.OpsTimeout, func(ctx context.Context, desk PromoDesk) (promo.Status, error) {
		return desk.Degrade(ctx, degraded, c.operator(), body.Reason)
	})
}

func (c *call) promoOff() error {
	body, err := readBody[promoOffBody](c)
	if err != nil {
		return err
	}
	return c.withPromo(c.api.Limits.OpsTimeout, func(ctx context.Context, desk PromoDesk) (promo.Status, error) {
		return desk.Off(ctx, c.operator(), body.Reason)
	})
}

func (c *call) answerPromoReport() error {
	values, err := c.single("promo")
	if err != nil {
		return err
	}
	ctx, cancel := c.timeout(c.api.Limits.OpsTimeout)
	defer cancel()
	report, err := c.api.PromoDesk.Report(ctx, values.Get("promo"))
	if err != nil {
		return toOperator(err)
	}
	return c.json(http.StatusOK, report)
}
