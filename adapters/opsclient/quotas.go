package opsclient

import (
	"context"
	"net/http"

	"andes/quota"
)

// Quotas tells which limits count.
func (c *Client) Quotas(ctx context.Context) (quota.Standing, error) {
	var standing quota.Standing
	err := c.call(ctx, http.MethodGet, "/ops/quotas", nil, nil, &standing)
	return standing, err
}

// SetQuotas sets limits in the place of those that were looked at.
func (c *Client) SetQuotas(ctx context.Context, change quota.Change) (quota.Standing, error) {
	body := struct {
		Tiers  string `json:"tiers"`
		Was    string `json:"was"`
		Reason string `json:"reason"`
	}{change.Tiers, change.Was, change.Reason}
	var standing quota.Standing
	err := c.call(ctx, http.MethodPut, "/ops/quotas", nil, body, &standing)
	return standing, err
}
