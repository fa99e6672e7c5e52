package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"andes/adapters/postgres"
	"andes/eventstore"
	"andes/test/pgtest"
)

// TestASlowTransactionIsNotOvertaken: positions are drawn under the lock, so a transaction that is slow
// to commit holds the later ones back instead of being passed by them and skipped by a reader.
func TestASlowTransactionIsNotOvertaken(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	slow, err := sql(t, config).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Exec(t.Context(), "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/shard', 0))"); err != nil {
		t.Fatal(err)
	}
	_, err = slow.Exec(t.Context(), `INSERT INTO events (shard, position, stream, version, id, type, schema, data, meta, recorded_at)
		VALUES (0, nextval('position_0'), 'stock/SLOW', 1, $1, 'stock.level_reported', 1, '{}', '{}', now())`, uuid.NewString())
	if err != nil {
		t.Fatal(err)
	}
	var others sync.WaitGroup
	for i := range 10 {
		others.Go(func() { execute(t, store, level(fmt.Sprint("FAST", i), 1)) })
	}
	checkpoint := int64(0)
	var seen []eventstore.Record
	read := func() {
		page, err := store.ReadAll(t.Context(), checkpoint, 100)
		if err != nil {
			t.Fatal(err)
		}
		if seen = append(seen, page...); len(page) > 0 {
			checkpoint = page[len(page)-1].Position
		}
	}
	for deadline := time.Now().Add(200 * time.Millisecond); time.Now().Before(deadline); {
		if read(); len(seen) > 0 {
			t.Fatalf("%s was visible before the transaction that came first", seen[0].Stream)
		}
	}
	if err := slow.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	others.Wait()
	read()
	if len(seen) != 11 || seen[0].Stream.Key != "SLOW" {
		t.Errorf("the reader saw %d events, first %v", len(seen), seen[0].Stream)
	}
}

// TestAForeignTransactionHoldsNobodyBack: what else is open in the database does not matter to readers.
func TestAForeignTransactionHoldsNobodyBack(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	foreign, err := sql(t, config).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = foreign.Rollback(t.Context()) }()
	if _, err := foreign.Exec(t.Context(), "CREATE TABLE foreign_work AS SELECT 1 AS n"); err != nil {
		t.Fatal(err)
	}
	execute(t, store, level("A", 1))
	if records, err := store.ReadAll(t.Context(), 0, 10); err != nil || len(records) != 1 {
		t.Errorf("%d records, %v", len(records), err)
	}
}

// TestTheRelayReadsWhatWasCommittedHoweverSlowly: many writers draw positions and take their time to commit.
func TestTheRelayReadsWhatWasCommittedHoweverSlowly(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	session, err := postgres.NewRelayLog(store.DB, postgres.DefaultRelayConfig()).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	const writers, each = 20, 5
	var writing sync.WaitGroup
	for writer := range writers {
		conn := sql(t, config)
		writing.Go(func() {
			for version := range each {
				_, err := conn.Exec(t.Context(), fmt.Sprintf(`BEGIN;
					SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/shard', 0));
					INSERT INTO events (shard, position, stream, version, id, type, schema, data, meta, recorded_at)
					VALUES (0, nextval('position_0'), 'stock/W%d', %d, '%s', 'stock.level_reported', 1, '{}', '{}', now());
					SELECT pg_sleep(random() * 0.02); COMMIT`, writer, version+1, uuid.NewString()))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	versions := map[string]int64{}
	seen, last := 0, int64(0)
	for seen < writers*each && !t.Failed() {
		records, _, err := session.Next(t.Context(), last)
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range records {
			if record.Version != versions[record.Stream.Key]+1 || record.Position <= last {
				t.Errorf("%s version %d at %d comes after version %d and position %d", record.Stream, record.Version, record.Position, versions[record.Stream.Key], last)
			}
			versions[record.Stream.Key], last = record.Version, record.Position
			seen++
		}
	}
	writing.Wait()
	if all, err := store.ReadAll(t.Context(), 0, 2*writers*each); err != nil || len(all) != seen {
		t.Errorf("%d are committed, %d were seen: %v", len(all), seen, err)
	}
}
