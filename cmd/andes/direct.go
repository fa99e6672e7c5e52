package main

import (
	"context"

	"andes/adapters/postgres"
	"andes/catalogue"
)

// openDB connects a command to PostgreSQL itself, for the day when the ops API is down.
func (s *settings) openDB(ctx context.Context) (*postgres.DB, error) {
	if err := s.required("postgres_url"); err != nil {
		return nil, err
	}
	registry, err := catalogue.Registry()
	if err != nil {
		return nil, err
	}
	return postgres.Open(ctx, s.postgres(), registry)
}
