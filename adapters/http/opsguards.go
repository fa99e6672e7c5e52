package httpapi

import (
	"context"
	"net/http"
	"reflect"

	"andes/eventstore"
	"andes/tuning"
)

// GuardDesk is where operators change the settings of guards.
type GuardDesk interface {
	Show(ctx context.Context) ([]tuning.GuardStanding, error)
	Change(ctx context.Context, change tuning.Change) (tuning.GuardStanding, error)
}

// setGuardBody sets a guard.
type setGuardBody struct {
	Reset  bool         `json:"reset,omitzero" doc:"First back to the configuration"`
	Set    tuning.Patch `json:"set,omitzero" doc:"What is to be other than it is; what is not given stays"`
	Reason string       `json:"reason" minLength:"1" maxLength:"1000" doc:"For the audit log"`
}

func (a *API) guardEndpoints() []*endpoint {
	list := []*endpoint{{
		method: http.MethodGet, path: "/ops/guards", id: "guards", tag: "operations", summary: "How the guards of the legacy systems stand",
		description: "Those of the process that answers. The metrics andes_legacy_… tell it of all processes. " +
			"While PostgreSQL does not answer, set is left out, and unread says so.",
		access: opsViewers, handle: (*call).answerGuards,
		answers: []answer{{status: 200, description: "The guards", body: reflect.TypeFor[tuning.Overview]()}},
	}}
	if a.GuardDesk == nil {
		return list
	}
	return append(list, &endpoint{
		method: http.MethodPut, path: "/ops/guards/{system}", id: "setGuard", tag: "operations", summary: "Set the guard of a legacy system",
		description: "Needs the role ops-admin. The guards of all processes follow within seconds; a call goes on with the settings that it began with. " +
			"The settings are checked as a whole, and stay set over restarts until a reset.",
		access: opsAdmins, body: reflect.TypeFor[setGuardBody](), handle: (*call).setGuard,
		refusals: []eventstore.Code{tuning.CodeUnknown, tuning.CodeInvalid, tuning.CodeChanged},
		answers:  []answer{{status: 200, description: "What is set", body: reflect.TypeFor[tuning.GuardStanding]()}},
	})
}

// answerGuards tells what this process knows by itself also while what is set can't be read.
func (c *call) answerGuards() error {
	body := tuning.Overview{Items: []tuning.Guard{}}
	if c.api.Guards != nil {
		body.Items = append(body.Items, c.api.Guards()...)
	}
	if c.api.GuardDesk != nil {
		ctx, cancel := c.timeout(c.api.Limits.ReadTimeout)
		defer cancel()
		set, err := c.api.GuardDesk.Show(ctx)
		if body.Set = set; err != nil {
			body.Set, body.Unread = nil, err.Error()
		}
	}
	return c.json(http.StatusOK, body)
}

func (c *call) setGuard() error {
	body, err := readBody[setGuardBody](c)
	if err != nil {
		return err
	}
	ctx, cancel := c.timeout(c.api.Limits.CommandTimeout)
	defer cancel()
	standing, err := c.api.GuardDesk.Change(ctx, tuning.Change{
		System: c.request.PathValue("system"), Reset: body.Reset, Patch: body.Set, Actor: c.operator(), Reason: body.Reason,
	})
	if err != nil {
		return toOperator(err)
	}
	return c.json(http.StatusOK, standing)
}
