// Package seed fills the platform's schema before a bench.
package seed

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"

	"andes/adapters/postgres"
	"andes/catalogue"
	"andes/eventstore"
)

// With runs fill with an executor on the schema, and ends the executor.
func With(ctx context.Context, schema string, fill func(ctx context.Context, executor eventstore.Executor) error) error {
	registry, err := catalogue.Registry()
	if err != nil {
		return err
	}
	db, err := postgres.Open(ctx, postgres.Config{URL: os.Getenv("ANDES_POSTGRES_URL"), Schema: schema}, registry)
	if err != nil {
		return err
	}
	defer db.Close()
	settings := postgres.DefaultExecutorConfig()
	settings.Now, settings.Logger, settings.NewID = time.Now, slog.Default(), uuid.NewString
	executor, err := postgres.NewExecutor(db, settings)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = executor.Run(running)
	}()
	defer func() { stop(); <-stopped }()
	return fill(ctx, executor)
}
