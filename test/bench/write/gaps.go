package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"andes/adapters/postgres"
	"andes/eventstore"
	"andes/test/bench/measure"
)

// measureGaps polls the log while two processes write to it with 64 callers, a foreign transaction stays
// open, and one of the writers is killed with SIGKILL and started again. Everything that the poller saw is compared
// with the whole log at the end.
func measureGaps(ctx context.Context, url string, duration time.Duration, report measure.Report) error {
	schema := freshSchema("gaps")
	store, closeStore, err := open(ctx, url, schema)
	if err != nil {
		return err
	}
	defer closeStore()
	foreign, err := openForeign(ctx, url, schema)
	if err != nil {
		return err
	}
	defer func() { _ = foreign.Close(ctx) }()

	polling, stopPolling := context.WithCancel(ctx)
	var seen []eventstore.Record
	var poller sync.WaitGroup
	poller.Go(func() { seen = poll(polling, store.DB) })

	total := 3 * duration
	killed := make(chan error, 1)
	go func() { killed <- killAndRestart(ctx, schema, total) }()
	load := batched(store, 0, manyCallers/2, total)
	if err := <-killed; err != nil {
		stopPolling()
		return err
	}
	if load.Failed > 0 {
		stopPolling()
		return fmt.Errorf("%d appends failed: %w", load.Failed, load.First)
	}
	caughtUp(ctx, store.DB, &poller, stopPolling)
	gaps, all, err := compare(ctx, store.DB, seen)
	if err != nil {
		return err
	}
	report.Note("order: %d events of 2 processes (one killed with SIGKILL and started again), a foreign transaction open all the time; the poller saw %d", all, len(seen))
	report.Result("order_gaps", measure.Series{float64(gaps)}, "events")
	return nil
}

// openForeign opens a transaction that has written and stays open: it would stall readers that wait for
// a snapshot horizon.
func openForeign(ctx context.Context, url, schema string) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	for _, statement := range []string{
		"CREATE TABLE " + schema + ".foreign_work (n int)", "BEGIN", "INSERT INTO " + schema + ".foreign_work VALUES (1)",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	return conn, nil
}

const pollPage = 1000

// poll is the reader under test: it knows nothing but its checkpoint.
func poll(ctx context.Context, db *postgres.DB) []eventstore.Record {
	var seen []eventstore.Record
	checkpoint := int64(0)
	for ctx.Err() == nil {
		page, err := db.ReadAll(context.WithoutCancel(ctx), checkpoint, pollPage)
		if err != nil {
			continue
		}
		for i := range page {
			page[i].Data = nil // only identity and order matter
		}
		if len(page) > 0 {
			checkpoint = page[len(page)-1].Position
			seen = append(seen, page...)
		}
	}
	return seen
}

// caughtUp gives the poller time to reach the end, then stops it.
func caughtUp(ctx context.Context, db *postgres.DB, poller *sync.WaitGroup, stop context.CancelFunc) {
	select {
	case <-ctx.Done():
	case <-time.After(2 * time.Second):
	}
	stop()
	poller.Wait()
	_ = db
}

// compare counts the events that the poller missed or saw out of order.
func compare(ctx context.Context, db *postgres.DB, seen []eventstore.Record) (gaps, all int, err error) {
	ids := make(map[string]bool, len(seen))
	versions := map[eventstore.Stream]int64{}
	last := int64(0)
	for _, record := range seen {
		ids[record.ID] = true
		if record.Position <= last || record.Version != versions[record.Stream]+1 {
			gaps++
		}
		last, versions[record.Stream] = record.Position, record.Version
	}
	checkpoint := int64(0)
	for {
		page, err := db.ReadAll(ctx, checkpoint, pollPage)
		if err != nil {
			return 0, 0, err
		}
		if len(page) == 0 {
			return gaps, all, nil
		}
		for _, record := range page {
			all++
			if !ids[record.ID] {
				gaps++
			}
		}
		checkpoint = page[len(page)-1].Position
	}
}

// killAndRestart runs the second writing process, kills it half-way and starts it again.
func killAndRestart(ctx context.Context, schema string, total time.Duration) error {
	for range 2 {
		second := exec.CommandContext(ctx, os.Args[0], "-writer", schema)
		second.Env, second.Stderr = os.Environ(), os.Stderr
		if err := second.Start(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(total / 2):
		}
		if err := second.Process.Kill(); err != nil {
			return err
		}
		_ = second.Wait() // it was killed
	}
	return nil
}

// writeUntilKilled is the second process.
func writeUntilKilled(ctx context.Context, url, schema string) error {
	store, closeStore, err := open(ctx, url, schema)
	if err != nil {
		return err
	}
	defer closeStore()
	run := int(uuid.New().ID())
	load := batched(store, run, manyCallers/2, time.Hour)
	return load.First
}
