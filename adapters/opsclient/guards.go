package opsclient

import (
	"context"
	"net/http"
	"net/url"

	"andes/tuning"
)

// Guards tells how the guards of the process that answers stand, and what is set for those of all.
func (c *Client) Guards(ctx context.Context) (tuning.Overview, error) {
	var answer tuning.Overview
	err := c.call(ctx, http.MethodGet, "/ops/guards", nil, nil, &answer)
	return answer, err
}

// SetGuard changes what is set.
func (c *Client) SetGuard(ctx context.Context, change tuning.Change) (tuning.GuardStanding, error) {
	body := struct {
		Reset  bool         `json:"reset,omitempty"`
		Set    tuning.Patch `json:"set"`
		Reason string       `json:"reason"`
	}{change.Reset, change.Patch, change.Reason}
	var standing tuning.GuardStanding
	err := c.call(ctx, http.MethodPut, "/ops/guards/"+url.PathEscape(change.System), nil, body, &standing)
	return standing, err
}
