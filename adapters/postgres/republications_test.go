package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"andes/adapters/postgres"
	"andes/deadletters"
	"andes/eventstore"
	"andes/test/pgtest"
)

func TestOneOrderToPublishAgainIsOpenAndEachIsAudited(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	orders := postgres.Republications{DB: store.DB}
	if latest, err := orders.Latest(t.Context()); err != nil || latest.Open() {
		t.Fatalf("%+v, %v", latest, err)
	}
	order := func(id string, to int64) error {
		return orders.Order(t.Context(), eventstore.Republication{ID: id, After: 10, To: to, Reached: 10, Categories: []string{"stock"}}, "os:ada", "a trial", time.Now())
	}
	if err := order("a", 20); err != nil {
		t.Fatal(err)
	}
	if err := order("b", 30); !errors.Is(err, postgres.ErrRepublishing) {
		t.Errorf("a second one at once: %v", err)
	}
	if done, err := orders.Cancel(t.Context(), "other", "os:ada", "", time.Now()); err != nil || done {
		t.Errorf("another one was cancelled: %v, %v", done, err)
	}
	if done, err := orders.Cancel(t.Context(), "a", "os:ada", "too much", time.Now()); err != nil || !done {
		t.Errorf("%v, %v", done, err)
	}
	if latest, err := orders.Latest(t.Context()); err != nil || latest.Open() || !latest.Cancelled || latest.ID != "a" {
		t.Errorf("%+v, %v", latest, err)
	}
	if err := order("b", 30); err != nil {
		t.Errorf("after a cancelled one: %v", err)
	}
	entries, err := postgres.Settlements{DB: store.DB}.Audit(t.Context(), deadletters.AuditQuery{Subject: "relay", Limit: 10})
	if err != nil || len(entries) != 3 {
		t.Fatalf("%+v, %v", entries, err)
	}
	if first := entries[2]; first.Action != "events.republish" || first.Run != "a" || first.Actor != "os:ada" || first.Reason != "a trial" || first.Count != 10 || !strings.Contains(first.Detail, "stock") {
		t.Errorf("%+v", first)
	}
	if second := entries[1]; second.Action != "events.republish_cancel" || second.Run != "a" || second.Reason != "too much" {
		t.Errorf("%+v", second)
	}
}

func TestTheRelayIsToldWhatToPublishAgain(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	settings := postgres.DefaultRelayConfig()
	settings.Poll = time.Millisecond
	if active, err := store.RelayActive(t.Context()); err != nil || active {
		t.Errorf("active %v, %v", active, err)
	}
	session, err := postgres.NewRelayLog(store.DB, settings).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	if active, err := store.RelayActive(t.Context()); err != nil || !active {
		t.Errorf("active %v, %v", active, err)
	}
	orders := postgres.Republications{DB: store.DB}
	if err := orders.Order(t.Context(), eventstore.Republication{ID: "a", To: 20}, "os:ada", "", time.Now()); err != nil {
		t.Fatal(err)
	}
	told := func() (order eventstore.Republication) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && !order.Open(); {
			if order, err = session.Republication(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return order
	}
	order := told()
	order.Reached, order.Records = 12, 34
	if err := session.Republished(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	if order = told(); order.ID != "a" || order.Reached != 12 || order.Records != 34 || order.To != 20 {
		t.Errorf("%+v", order)
	}
	if _, err := orders.Cancel(t.Context(), "a", "os:ada", "", time.Now()); err != nil {
		t.Fatal(err)
	}
	order.Reached = 16
	if err := session.Republished(t.Context(), order); err != nil { // was under way
		t.Fatal(err)
	}
	if order, err = session.Republication(t.Context()); err != nil || order.Open() {
		t.Errorf("%+v, %v", order, err)
	}
	if latest, err := orders.Latest(t.Context()); err != nil || latest.Reached != 16 || !latest.Cancelled {
		t.Errorf("%+v, %v", latest, err)
	}
}

// Field case: gaps that rolled-back transactions and a jump of the sequence left stopped a reader.
func TestTheRelayReadsOverBurntPositions(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	session, err := postgres.NewRelayLog(store.DB, postgres.DefaultRelayConfig()).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	execute(t, store, level("A", 1))
	conn := sql(t, config)
	for _, burn := range []string{
		"BEGIN; SELECT count(nextval('position_0')) FROM generate_series(1, 10000); ROLLBACK",
		"SELECT setval('position_0', last_value + 1000000) FROM position_0",
	} {
		if _, err := conn.Exec(t.Context(), burn); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		execute(t, store, level(fmt.Sprint("B", i), 1))
	}
	var positions []int64
	for after := int64(0); len(positions) < 4; {
		records, _, err := session.Next(t.Context(), after)
		if err != nil || len(records) == 0 {
			t.Fatalf("after %d: %d records, %v", after, len(records), err)
		}
		for _, record := range records {
			positions = append(positions, record.Position)
		}
		after = positions[len(positions)-1]
	}
	if positions[1] < 1_010_000 || positions[3] != positions[1]+2 {
		t.Errorf("positions %v", positions)
	}
}
