package main

import (
	"context"

	"andes/test/invariants"
)

// openInvariants makes checks of the database's invariants; without a URL there are none.
func openInvariants(ctx context.Context, url, schema string) ([]check, func(), error) {
	if url == "" {
		return nil, func() {}, nil
	}
	db, err := invariants.Open(ctx, url, schema)
	if err != nil {
		return nil, nil, err
	}
	checks := make([]check, 0, len(invariants.All))
	for _, invariant := range invariants.All {
		checks = append(checks, check{invariant.Name, func(ctx context.Context) ([]string, error) {
			return invariant.Violations(ctx, db)
		}})
	}
	// The process ends soon; the server notices a connection that is gone.
	return checks, func() { _ = db.Close(context.WithoutCancel(ctx)) }, nil
}
