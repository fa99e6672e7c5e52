package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"andes/test/bench/measure"
)

// plainSchema has the same rows, columns and indexes as the event store, with a position from a
// sequence: what one transaction per append gives without a total order of commits.
const plainSchema = `
CREATE SCHEMA IF NOT EXISTS plain;
DROP TABLE IF EXISTS plain.events, plain.states;
CREATE TABLE plain.events (
    shard smallint NOT NULL, position bigserial NOT NULL, stream text NOT NULL COLLATE "C", version bigint NOT NULL CHECK (version > 0),
    id uuid NOT NULL, type text NOT NULL COLLATE "C", schema smallint NOT NULL, data json NOT NULL, meta json NOT NULL,
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (shard, position), UNIQUE (stream, version), UNIQUE (id));
CREATE TABLE plain.states (
    category text NOT NULL COLLATE "C", key text NOT NULL COLLATE "C", version bigint NOT NULL, position bigint NOT NULL,
    owner text NOT NULL COLLATE "C", state json, PRIMARY KEY (category, key)) WITH (fillfactor = 70);`

const (
	plainInsert = `INSERT INTO plain.events (shard, stream, version, id, type, schema, data, meta, recorded_at) VALUES (0, $1, $2, $3, 'blob.written', 1, $4, '{"correlationId":"bench"}', now())`
	plainUpdate = `UPDATE plain.states SET version = $2, position = lastval(), state = '{}' WHERE category = 'blob' AND key = $1 AND version = $2 - 1`
)

func preparePlain(ctx context.Context, url string, callers int) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, plainSchema); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `INSERT INTO plain.states SELECT 'blob', i::text, 0, 0, '', '{}' FROM generate_series(0, $1::int - 1) AS i`, callers)
	return err
}

// appendOne appends in a transaction of its own.
type appendOne func(ctx context.Context, conn *pgx.Conn, key, id, data string, version int64) error

// transaction is how an application does it: begin, the event and its stream's version, commit.
func transaction(ctx context.Context, conn *pgx.Conn, key, id, data string, version int64) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(plainInsert, "blob/"+key, version, id, data)
		batch.Queue(plainUpdate, key, version)
		return tx.SendBatch(ctx, batch).Close()
	})
}

// pipelined is the least that a transaction can be: all of it in one round trip.
func pipelined(ctx context.Context, conn *pgx.Conn, key, id, data string, version int64) error {
	batch := &pgx.Batch{} // a pipeline outside a transaction block is one transaction
	batch.Queue(plainInsert, "blob/"+key, version, id, data)
	batch.Queue(plainUpdate, key, version)
	return conn.SendBatch(ctx, batch).Close()
}

// plain appends with one transaction each, over a connection per caller.
func plain(ctx context.Context, url string, callers int, duration time.Duration, one appendOne) (measure.Load, error) {
	if err := preparePlain(ctx, url, callers); err != nil {
		return measure.Load{}, err
	}
	conns := make([]*pgx.Conn, callers)
	for i := range conns {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return measure.Load{}, err
		}
		defer func() { _ = conn.Close(ctx) }()
		conns[i] = conn
	}
	data := fmt.Sprintf(`{"payload":%q}`, event.Payload)
	versions := make([]int64, callers)
	load := measure.Closed(callers, duration, func(caller, _ int) error {
		err := one(ctx, conns[caller], strconv.Itoa(caller), uuid.Must(uuid.NewV7()).String(), data, versions[caller]+1)
		if err == nil {
			versions[caller]++
		}
		return err
	})
	if load.Failed > 0 {
		return load, fmt.Errorf("%d appends failed: %w", load.Failed, load.First)
	}
	return load, nil
}

// pgbenchScript writes the same rows. The first and the last line are left out without a pipeline.
const pgbenchScript = `\set v :v + 1
\startpipeline
BEGIN;
INSERT INTO plain.events (shard, stream, version, id, type, schema, data, meta, recorded_at) VALUES (0, 'blob/' || :client_id::text, :v, gen_random_uuid(), 'blob.written', 1, '%s', '{"correlationId":"bench"}', now());
UPDATE plain.states SET version = :v, position = lastval(), state = '{}' WHERE category = 'blob' AND key = :client_id::text AND version = :v - 1;
COMMIT;
\endpipeline
`

var pgbenchTPS = regexp.MustCompile(`tps = ([0-9.]+)`)

// pgbench runs the same transaction with PostgreSQL's own load generator.
func pgbench(ctx context.Context, url string, callers int, duration time.Duration, pipeline bool) (float64, error) {
	if err := preparePlain(ctx, url, callers); err != nil {
		return 0, err
	}
	tool, err := findPgbench()
	if err != nil {
		return 0, err
	}
	folder, err := os.MkdirTemp("", "pgbench")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	text := fmt.Sprintf(pgbenchScript, fmt.Sprintf(`{"payload":%q}`, event.Payload))
	if !pipeline {
		text = strings.NewReplacer("\\startpipeline\n", "", "\\endpipeline\n", "").Replace(text)
	}
	script := filepath.Join(folder, "append.sql")
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		return 0, err
	}
	seconds := strconv.Itoa(max(1, int(duration.Seconds())))
	out, err := exec.CommandContext(ctx, tool, "-n", "-M", "prepared", "-c", strconv.Itoa(callers), "-j", "2", "-T", seconds, "-D", "v=0", "-f", script, url).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("pgbench: %w: %s", err, out)
	}
	found := pgbenchTPS.FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("pgbench printed no rate: %s", out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

func findPgbench() (string, error) {
	if tool, err := exec.LookPath("pgbench"); err == nil {
		return tool, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench")
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("pgbench is not installed (it comes with the PostgreSQL server packages): %s", strings.Join(found, " "))
	}
	return found[len(found)-1], nil
}
