// Package postgres makes the event store durable: the log, the states and the answers in one
// transaction a batch, with a total order of commits.
//
//	callers ──► queue ──► committer A ──┐  in turn: while one commits,
//	                      committer B ──┘  the other collects what arrived
//
// A batch takes one or two round trips. One, when its commands load nothing: lock, writes and commit go
// out together and the writes check the expected versions. Two otherwise: lock and loads, then, after
// the commands were decided, writes and commit. There is no timed linger: a lonely command is a batch of
// one, and under load a batch is what came while the one before was being committed.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"andes/eventstore"
)

// Config says where the database is.
type Config struct {
	URL      string // libpq URL or keywords
	Schema   string // everything lies in this schema
	MaxConns int32  // of the pool for reads; committers, relay and leases have connections of their own
}

// DefaultSchema holds the tables when nothing else is configured.
const DefaultSchema = "andes"

// Bounds of waiting, on the server's side too, so that no session is left hanging.
const (
	connectTimeout = 5 * time.Second
	lockTimeout    = 5 * time.Second
	statementLimit = 15 * time.Second
	idleInTxLimit  = 10 * time.Second

	// answerLimit bounds the wait for an answer on this side: a server that has gone without a word, as in
	// a failover, must not be waited for until TCP gives up.
	answerLimit = statementLimit + lockTimeout
	pingLimit   = 5 * time.Second

	// The server finds out in the same way that an instance has gone, and frees the locks that it held.
	keepAliveIdle     = 5 * time.Second
	keepAliveInterval = 5 * time.Second
	keepAliveCount    = 3
)

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// errURL does not say what is wrong: the driver's error quotes what it does not understand, and that may be a part of
// the password.
var errURL = errors.New("postgres: the URL can't be read; in a user or password, % and / and @ are written as %25, %2F and %40")

// connConfig gives the settings of every connection. Sessions fetch by key lists, which the planner
// can't know to be short: without these settings a plan made for an empty table would scan a full one.
func (c Config) connConfig() (*pgx.ConnConfig, error) {
	if !schemaName.MatchString(c.Schema) {
		return nil, fmt.Errorf("postgres: schema %q is not a lower-case name", c.Schema)
	}
	cfg, err := pgx.ParseConfig(c.URL)
	if err != nil {
		return nil, errURL
	}
	c.apply(cfg)
	return cfg, nil
}

func (c Config) apply(cfg *pgx.ConnConfig) {
	cfg.ConnectTimeout = connectTimeout
	cfg.Tracer = bounded{}
	for name, value := range map[string]string{
		"application_name":                    "andes/" + c.Schema,
		"search_path":                         c.Schema,
		"lock_timeout":                        milliseconds(lockTimeout),
		"statement_timeout":                   milliseconds(statementLimit),
		"idle_in_transaction_session_timeout": milliseconds(idleInTxLimit),
		"tcp_keepalives_idle":                 seconds(keepAliveIdle),
		"tcp_keepalives_interval":             seconds(keepAliveInterval),
		"tcp_keepalives_count":                strconv.Itoa(keepAliveCount),
		"tcp_user_timeout":                    milliseconds(answerLimit),
		"enable_hashjoin":                     "off",
		"enable_mergejoin":                    "off",
		"enable_seqscan":                      "off",
		"plan_cache_mode":                     "force_generic_plan",
		"jit":                                 "off",
	} {
		cfg.RuntimeParams[name] = value
	}
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%d", d.Milliseconds()) }
func seconds(d time.Duration) string      { return fmt.Sprintf("%d", int64(d/time.Second)) }

// DB is the pool for reads and all that needs no order.
type DB struct {
	config   Config
	pool     *pgxpool.Pool
	registry *eventstore.Registry
}

// Open connects and makes sure that the schema is there and migrated.
func Open(ctx context.Context, config Config, registry *eventstore.Registry) (*DB, error) {
	if _, err := config.connConfig(); err != nil {
		return nil, err
	}
	poolConfig, err := pgxpool.ParseConfig(config.URL)
	if err != nil {
		return nil, errURL
	}
	config.apply(poolConfig.ConnConfig)
	poolConfig.PingTimeout = pingLimit
	if config.MaxConns > 0 {
		poolConfig.MaxConns = config.MaxConns
	}
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	db := &DB{config: config, pool: pool, registry: registry}
	var migrated bool
	if err := pool.QueryRow(ctx, "SELECT to_regclass('events') IS NOT NULL").Scan(&migrated); err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if !migrated {
		pool.Close()
		return nil, ErrNotMigrated
	}
	return db, nil
}

// ErrNotMigrated says that `andes migrate` has not been run on this schema.
var ErrNotMigrated = errors.New("postgres: the schema is not there yet: run `andes migrate`")

// Close closes the pool.
func (db *DB) Close() { db.pool.Close() }

// Ping tells whether the database answers.
func (db *DB) Ping(ctx context.Context) error { return db.pool.Ping(ctx) }

// Migrate creates or upgrades the schema. Several instances may run it at once.
func Migrate(ctx context.Context, config Config) error {
	cfg, err := config.connConfig()
	if err != nil {
		return err
	}
	handle := stdlib.OpenDB(*cfg)
	defer func() { _ = handle.Close() }()
	if err := createSchema(ctx, handle, config.Schema); err != nil {
		return fmt.Errorf("postgres: create schema %s: %w", config.Schema, err)
	}
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, handle, files)
	if err != nil {
		return fmt.Errorf("postgres: migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	return nil
}

// createSchema tolerates another instance that creates it at the same moment.
func createSchema(ctx context.Context, handle *sql.DB, schema string) error {
	_, err := handle.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{schema}.Sanitize())
	if fault, ok := errors.AsType[*pgconn.PgError](err); ok && fault.Code == "23505" {
		return nil
	}
	return err
}

// connect opens a connection outside the pool, for one that keeps session state.
func (db *DB) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg, err := db.config.connConfig()
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", eventstore.ErrUnavailable, err)
	}
	return conn, nil
}
