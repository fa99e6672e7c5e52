package postgres_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"andes/adapters/postgres"
	"andes/commands/stock"
	"andes/deadletters"
	"andes/eventstore"
	"andes/test/pgtest"
)

func claimOf(run string) deadletters.Claim {
	return deadletters.Claim{Consumer: "oms", Partition: 2, Run: run, Action: deadletters.Replayed, Actor: "ada", Reason: "r"}
}

func entryOf(count int) *deadletters.AuditEntry {
	return &deadletters.AuditEntry{At: time.Now(), Actor: "ada", Action: "dlq.replay", Subject: "oms", Count: int64(count), Reason: "r", Detail: "{}"}
}

func TestALetterIsClaimedOnce(t *testing.T) {
	db := pgtest.Open(t, pgtest.Config(t), pgtest.Registry(t))
	ledger := postgres.Settlements{DB: db}
	offsets := make([]int64, 200)
	for i := range offsets {
		offsets[i] = int64(i)
	}
	var claimants sync.WaitGroup
	var mu sync.Mutex
	got := map[int64]int{}
	for range 8 {
		claimants.Go(func() {
			run := uuid.NewString()
			mine := slices.Clone(offsets)
			claimed, err := ledger.Claim(t.Context(), claimOf(run), mine)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, offset := range claimed {
				got[offset]++
			}
		})
	}
	claimants.Wait()
	for _, offset := range offsets {
		if got[offset] != 1 {
			t.Errorf("offset %d was claimed %d times", offset, got[offset])
		}
	}
}

func TestWhatIsClaimedIsNotSettledUntilItIsFinished(t *testing.T) {
	db := pgtest.Open(t, pgtest.Config(t), pgtest.Registry(t))
	ledger := postgres.Settlements{DB: db}
	if claimed, err := ledger.Claim(t.Context(), claimOf("run-1"), []int64{5, 6, 7, 9}); err != nil || len(claimed) != 4 {
		t.Fatalf("%v, %v", claimed, err)
	}
	if settled, err := db.Settled(t.Context(), "oms"); err != nil || len(settled) != 0 {
		t.Errorf("%v, %v", settled, err)
	}
	if err := ledger.Finish(t.Context(), claimOf("run-1"), []int64{5, 6, 9}, entryOf(3)); err != nil {
		t.Fatal(err)
	}
	if err := ledger.Release(t.Context(), claimOf("run-1"), []int64{7, 9}); err != nil { // 9 is done: it stays
		t.Fatal(err)
	}
	settled, err := db.Settled(t.Context(), "oms")
	if err != nil || len(settled) != 1 || !slices.Equal(settled[2], []int64{5, 6, 9}) {
		t.Errorf("%v, %v", settled, err)
	}
	for from, want := range map[int64]int64{4: 4, 5: 7, 6: 7, 7: 7, 9: 10} {
		if first, err := ledger.FirstOutstanding(t.Context(), "oms", 2, from); err != nil || first != want {
			t.Errorf("from %d: %d, want %d, %v", from, first, want, err)
		}
	}
	if count, err := ledger.SettledCount(t.Context(), "oms", 2, 6); err != nil || count != 2 {
		t.Errorf("%d, %v", count, err)
	}
	found, err := ledger.Settlements(t.Context(), "oms", 2, 0, 9)
	if s := found[5]; err != nil || len(found) != 2 || !s.Done || s.Free || s.Run != "run-1" || s.Actor != "ada" || s.Action != deadletters.Replayed || s.At.IsZero() {
		t.Errorf("%+v, %v", found, err)
	}
	if err := ledger.Forget(t.Context(), "oms", 2, 6); err != nil {
		t.Fatal(err)
	}
	if settled, err := db.Settled(t.Context(), "oms"); err != nil || !slices.Equal(settled[2], []int64{6, 9}) {
		t.Errorf("%v, %v", settled, err)
	}
}

func TestAClaimOfARunThatDiedIsFreeAgain(t *testing.T) {
	db := pgtest.Open(t, pgtest.Config(t), pgtest.Registry(t))
	patient, hasty := postgres.Settlements{DB: db}, postgres.Settlements{DB: db, TakeOver: time.Nanosecond}
	offsets := []int64{1}
	if _, err := patient.Claim(t.Context(), claimOf("dead"), offsets); err != nil {
		t.Fatal(err)
	}
	if claimed, err := patient.Claim(t.Context(), claimOf("next"), offsets); err != nil || len(claimed) != 0 {
		t.Errorf("%v, %v", claimed, err)
	}
	if claimed, err := hasty.Claim(t.Context(), claimOf("next"), offsets); err != nil || len(claimed) != 1 {
		t.Errorf("%v, %v", claimed, err)
	}
	if err := patient.Finish(t.Context(), claimOf("next"), offsets, entryOf(1)); err != nil {
		t.Fatal(err)
	}
	if claimed, err := hasty.Claim(t.Context(), claimOf("third"), offsets); err != nil || len(claimed) != 0 {
		t.Errorf("what is done was claimed: %v, %v", claimed, err)
	}
}

func TestTheAuditLogIsNeverChanged(t *testing.T) {
	config := pgtest.Config(t)
	ledger := postgres.Settlements{DB: pgtest.Open(t, config, pgtest.Registry(t))}
	for i := range 3 {
		if err := ledger.Finish(t.Context(), claimOf("run"), []int64{int64(i)}, entryOf(i)); err != nil {
			t.Fatal(err)
		}
	}
	conn := sql(t, config)
	for _, statement := range []string{"UPDATE audit_log SET actor = 'nobody'", "DELETE FROM audit_log", "TRUNCATE audit_log"} {
		_, err := conn.Exec(t.Context(), statement)
		if fault, is := errors.AsType[*pgconn.PgError](err); !is || fault.Code != "AN003" {
			t.Errorf("%s: %v", statement, err)
		}
	}
	entries, err := ledger.Audit(t.Context(), deadletters.AuditQuery{Limit: 2})
	if err != nil || len(entries) != 2 || entries[0].Count != 2 || entries[0].Run != "run" {
		t.Errorf("%+v, %v", entries, err)
	}
	older, err := ledger.Audit(t.Context(), deadletters.AuditQuery{Limit: 2, Before: entries[1].ID})
	if err != nil || len(older) != 1 || older[0].Count != 0 {
		t.Errorf("%+v, %v", older, err)
	}
}

func TestAPreviewDecidesAndWritesNothing(t *testing.T) {
	store := pgtest.Store(t, pgtest.Config(t), pgtest.Registry(t))
	execute(t, store, level("A", 5))
	preview := postgres.NewPreview(store.DB, time.Now, uuid.NewString)
	for i := range 2 {
		report := stock.Report{SKU: "A", OnHand: int64(10 + i), SourceVersion: int64(2 + i), At: time.Now()}
		if _, err := preview.Execute(t.Context(), eventstore.Request{Command: report}); err != nil {
			t.Fatal(err)
		}
	}
	events := preview.Take()
	if len(events) != 2 || events[0].Version != 2 || events[1].Version != 3 {
		t.Errorf("one decision does not see the one before: %+v", events)
	}
	stream := stock.Aggregate.Stream("A")
	states, err := preview.States(t.Context(), []eventstore.Stream{stream})
	if err != nil || states[stream].Version != 3 {
		t.Errorf("%+v, %v", states, err)
	}
	if stored, err := store.States(t.Context(), []eventstore.Stream{stream}); err != nil || stored[stream].Version != 1 {
		t.Errorf("%+v, %v", stored, err)
	}
	if again := preview.Take(); len(again) != 0 {
		t.Errorf("%d events are told twice", len(again))
	}
}

func TestEventsAreFoundByTheirIDs(t *testing.T) {
	store := pgtest.Store(t, pgtest.Config(t), pgtest.Registry(t))
	execute(t, store, level("A", 5))
	records, err := store.ReadAll(t.Context(), 0, 10)
	if err != nil || len(records) == 0 {
		t.Fatalf("%d, %v", len(records), err)
	}
	id := records[0].ID
	found, err := store.EventsByID(t.Context(), []string{id, uuid.NewString(), "no id", ""})
	if err != nil || len(found) != 1 || string(found[id].Data) != string(records[0].Data) {
		t.Errorf("%+v, %v", found, err)
	}
	if owners, err := store.Owners(t.Context(), []string{"nobody"}); err != nil || len(owners) != 0 {
		t.Errorf("%v, %v", owners, err)
	}
}
