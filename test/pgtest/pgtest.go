// Package pgtest gives a test a schema of its own in a real PostgreSQL, so that tests run in parallel.
package pgtest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"andes/adapters/postgres"
	"andes/catalogue"
	"andes/eventstore"
)

// URL gives the test database, or fails the test: a missing service is a failure.
func URL(t testing.TB) string {
	t.Helper()
	url := os.Getenv("ANDES_POSTGRES_URL")
	if url == "" {
		t.Fatal("ANDES_POSTGRES_URL is not set: run the tests by `make test`, or `eval \"$(scripts/services env test)\"` after `scripts/services start test`")
	}
	return url
}

var counter atomic.Int64

// Config gives a migrated schema that is dropped when the test ends.
func Config(t testing.TB) postgres.Config {
	t.Helper()
	schema := fmt.Sprintf("t%d_%d_%s", os.Getpid(), counter.Add(1), strings.ReplaceAll(uuid.NewString()[:8], "-", ""))
	config := postgres.Config{URL: URL(t), Schema: schema, MaxConns: 8}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := postgres.Migrate(ctx, config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { drop(t, config) })
	return config
}

func drop(t testing.TB, config postgres.Config) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, config.URL)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, "DROP SCHEMA "+pgx.Identifier{config.Schema}.Sanitize()+" CASCADE"); err != nil {
		t.Error(err)
	}
}

// Registry registers every aggregate of the platform.
func Registry(t testing.TB) *eventstore.Registry {
	t.Helper()
	registry, err := catalogue.Registry()
	if err != nil {
		t.Fatal(err)
	}
	return registry
}

// Open opens the schema with a registry; it is closed when the test ends.
func Open(t testing.TB, config postgres.Config, registry *eventstore.Registry) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(context.Background(), config, registry)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// Store opens the schema and runs an executor on it until the test ends.
func Store(t testing.TB, config postgres.Config, registry *eventstore.Registry) *postgres.Store {
	t.Helper()
	db := Open(t, config, registry)
	settings := postgres.DefaultExecutorConfig()
	settings.Now = time.Now
	settings.NewID = func() string { return uuid.Must(uuid.NewV7()).String() }
	settings.Logger = slog.New(slog.DiscardHandler)
	executor, err := postgres.NewExecutor(db, settings)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		_ = executor.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-stopped })
	return &postgres.Store{Executor: executor, DB: db}
}
