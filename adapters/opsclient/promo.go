package opsclient

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"andes/promo"
)

// Promo tells how promo mode stands.
func (c *Client) Promo(ctx context.Context) (promo.Status, error) {
	var status promo.Status
	err := c.call(ctx, http.MethodGet, "/ops/promo", nil, nil, &status)
	return status, err
}

// PromoOn switches it on.
func (c *Client) PromoOn(ctx context.Context, plan promo.Plan) (promo.Status, error) {
	body := struct {
		SKUs       []string       `json:"skus"`
		For        string         `json:"for"`
		From       string         `json:"from,omitempty"`
		Microcache string         `json:"microcache"`
		Degraded   promo.Degraded `json:"degraded"`
		Force      bool           `json:"force,omitempty"`
		Reason     string         `json:"reason"`
	}{plan.SKUs, plan.For.String(), "", plan.Microcache.String(), plan.Degraded, plan.Force, plan.Reason}
	if !plan.From.IsZero() {
		body.From = plan.From.Format(time.RFC3339)
	}
	var status promo.Status
	err := c.call(ctx, http.MethodPut, "/ops/promo", nil, body, &status)
	return status, err
}

// PromoDegrade switches the degradations.
func (c *Client) PromoDegrade(ctx context.Context, degraded promo.Degraded, reason string) (promo.Status, error) {
	body := struct {
		Degraded promo.Degraded `json:"degraded"`
		Reason   string         `json:"reason"`
	}{degraded, reason}
	var status promo.Status
	err := c.call(ctx, http.MethodPut, "/ops/promo/degraded", nil, body, &status)
	return status, err
}

// PromoOff switches it off.
func (c *Client) PromoOff(ctx context.Context, reason string) (promo.Status, error) {
	body := struct {
		Reason string `json:"reason"`
	}{reason}
	var status promo.Status
	err := c.call(ctx, http.MethodPost, "/ops/promo/off", nil, body, &status)
	return status, err
}

// PromoReport tells what a promo was like; empty: the last one.
func (c *Client) PromoReport(ctx context.Context, id string) (promo.Report, error) {
	query := url.Values{}
	set(query, "promo", id)
	var report promo.Report
	err := c.call(ctx, http.MethodGet, "/ops/promo/report", query, nil, &report)
	return report, err
}
