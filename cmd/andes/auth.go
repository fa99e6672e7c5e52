package main

import (
	"context"
	"net/http"
	"time"

	httpapi "andes/adapters/http"
	"andes/adapters/oidc"
)

// devIssuerName is the issuer of development tokens.
const devIssuerName = "andes-development"

// issuerTimeout bounds a call to the issuer.
const issuerTimeout = 5 * time.Second

// authenticate makes the edge verify tokens, of the configured issuer or of the built-in one.
func (p *platform) authenticate(config *httpapi.Config) error {
	verifying := oidc.Config{
		Issuer: p.settings.OIDCIssuer, Audience: p.settings.OIDCAudience, Alg: p.settings.OIDCAlg, Now: time.Now, Logger: p.logger,
		Keys: oidc.FromURL(&http.Client{Timeout: issuerTimeout}, p.settings.OIDCJWKS),
	}
	if p.settings.OIDCIssuer == "" {
		issuer, err := oidc.NewDevIssuer(oidc.DevConfig{
			Production: !p.settings.development(), Issuer: devIssuerName, Audience: p.settings.OIDCAudience,
			KeyFile: p.settings.DevKeyFile, Now: time.Now, Roles: []string{httpapi.OpsAdmin, httpapi.OpsViewer},
		})
		if err != nil {
			return err
		}
		verifying.Issuer, verifying.Alg, verifying.Keys = devIssuerName, oidc.DevAlg, issuer.Keys
		config.DevIssuer = issuer
	}
	verifier, err := oidc.NewVerifier(verifying)
	if err != nil {
		return err
	}
	config.Verify = func(ctx context.Context, token string) (httpapi.Principal, error) {
		principal, err := verifier.Verify(ctx, token)
		return httpapi.Principal{Subject: principal.Subject, Partner: principal.Partner, Roles: principal.Roles, Expires: principal.Expires}, err
	}
	return nil
}
