package main

import (
	"context"
	"fmt"
	"net/http"
)

// ensurePartner sets the partner up as an operator would, with a token of the development issuer.
func ensurePartner(ctx context.Context, base, id, tier string) error {
	token, err := devToken(ctx, base, "lab-operator", "ops-admin")
	if err != nil {
		return err
	}
	body := map[string]any{
		"name": "Lab channel " + id, "tier": tier,
		"policy": map[string]any{"priceList": "retail", "currency": "GBP"},
	}
	if err := newCaller(base, token).into(ctx, http.MethodPut, "/ops/partners/"+id, body, nil); err != nil {
		return fmt.Errorf("set up partner %s: %w", id, err)
	}
	return nil
}

// opsSettings are for andes' commands that talk to the ops API, as an operator of the development issuer.
func opsSettings(ctx context.Context, base string) ([]string, error) {
	token, err := devToken(ctx, base, "lab-operator", "ops-admin")
	if err != nil {
		return nil, err
	}
	return []string{"ANDES_OPS_URL=" + base, "ANDES_OPS_TOKEN=" + token}, nil
}

func devToken(ctx context.Context, base, partner string, roles ...string) (string, error) {
	var got struct {
		AccessToken string `json:"access_token"`
	}
	body := map[string]any{"partner_id": partner, "roles": append([]string{}, roles...)}
	if err := newCaller(base, "").into(ctx, http.MethodPost, "/dev/token", body, &got); err != nil {
		return "", fmt.Errorf("token of the development issuer: %w", err)
	}
	return got.AccessToken, nil
}
