package httpapi

import (
	"context"
	"net/http"
	"reflect"

	"andes/eventstore"
	"andes/quota"
)

// QuotaDesk is where operators change the tiers' limits.
type QuotaDesk interface {
	Show(ctx context.Context) quota.Standing
	Change(ctx context.Context, change quota.Change) (quota.Standing, error)
}

// quotasBody sets limits.
type quotasBody struct {
	Tiers  string `json:"tiers" maxLength:"200" example:"bronze=20/2,silver=100/10,gold=500/50" doc:"Reads and orders a second of every tier; empty: as configured"`
	Was    string `json:"was" maxLength:"200" example:"bronze=20/2,silver=100/10,gold=500/50" doc:"tiers of the answer of GET that the change was decided on; if others count by now, the change is refused"`
	Reason string `json:"reason" minLength:"1" maxLength:"1000" doc:"For the audit log"`
}

func (a *API) quotaEndpoints() []*endpoint {
	standing := []answer{{status: 200, description: "The limits of all instances", body: reflect.TypeFor[quota.Standing]()}}
	return []*endpoint{
		{
			method: http.MethodGet, path: "/ops/quotas", id: "quotas", tag: "operations", summary: "The tiers' limits",
			description: "While PostgreSQL does not answer, what the process itself knows is told, and unread says so.",
			access:      opsViewers, answers: standing, handle: (*call).answerQuotas,
		},
		{
			method: http.MethodPut, path: "/ops/quotas", id: "setQuotas", tag: "operations", summary: "Set the tiers' limits",
			description: "Needs the role ops-admin. All instances follow within seconds; what is used up stays used up. A limit above that of level 1 is refused. " +
				"was keeps two operators from undoing each other's change unseen: it is refused with 409 QUOTA_CHANGED where others set other limits meanwhile.",
			access: opsAdmins, body: reflect.TypeFor[quotasBody](), answers: standing, handle: (*call).setQuotas,
			refusals: []eventstore.Code{quota.CodeInvalid, quota.CodeChanged},
		},
	}
}

func (c *call) answerQuotas() error {
	ctx, cancel := c.timeout(c.api.Limits.ReadTimeout)
	defer cancel()
	return c.json(http.StatusOK, c.api.QuotaDesk.Show(ctx))
}

func (c *call) setQuotas() error {
	body, err := readBody[quotasBody](c)
	if err != nil {
		return err
	}
	ctx, cancel := c.timeout(c.api.Limits.CommandTimeout)
	defer cancel()
	standing, err := c.api.QuotaDesk.Change(ctx, quota.Change{Tiers: body.Tiers, Was: body.Was, Actor: c.operator(), Reason: body.Reason})
	if err != nil {
		return toOperator(err)
	}
	return c.json(http.StatusOK, standing)
}
