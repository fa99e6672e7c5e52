package postgres_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"andes/adapters/postgres"
	"andes/deadletters"
	"andes/test/pgtest"
)

// relayed is a log with n events, published up to the last one, and no relay.
type relayed struct {
	*testing.T
	store *postgres.Store
	relay *postgres.RelayLog
	conn  *pgx.Conn
}

func relay(t *testing.T, n int) *relayed {
	t.Helper()
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	r := &relayed{t, store, postgres.NewRelayLog(store.DB, postgres.DefaultRelayConfig()), sql(t, config)}
	r.record("A", n)
	r.publish(0)
	return r
}

// record puts events of a stream into the log.
func (r *relayed) record(sku string, n int) {
	r.Helper()
	for i := range n {
		execute(r.T, r.store, level(fmt.Sprint(sku, i), 1))
	}
}

// publish is a relay that publishes all there is behind a position; it gives the streams.
func (r *relayed) publish(after int64) (keys []string) {
	r.Helper()
	session, err := r.relay.Acquire(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	if session.Checkpoint() != after {
		r.Fatalf("the relay goes on after %d, want %d", session.Checkpoint(), after)
	}
	records, _, err := session.Next(r.Context(), after)
	if err != nil {
		r.Fatal(err)
	}
	for _, record := range records {
		keys = append(keys, record.Stream.Key)
		after = record.Position
	}
	if err := session.Save(r.Context(), after); err != nil {
		r.Fatal(err)
	}
	return keys
}

func (r *relayed) exec(statement string) {
	r.Helper()
	if _, err := r.conn.Exec(r.Context(), statement); err != nil {
		r.Fatal(err)
	}
}

// refuses tells whether everything says that the relay refuses, or does not.
func (r *relayed) refuses(want bool) {
	r.Helper()
	told := r.store.CheckRelay(r.Context())
	if measured(r.T, r.store.DB).Refused != want || errors.Is(told, postgres.ErrForeignCheckpoint) != want {
		r.Errorf("refused: want %t, told %v", want, told)
	}
	if published, err := r.store.Published(r.Context()); err != nil || (published == 0) != want {
		r.Errorf("published up to %d, %v", published, err)
	}
	session, err := r.relay.Acquire(r.Context())
	if errors.Is(err, postgres.ErrForeignCheckpoint) != want {
		r.Errorf("the relay says %v", err)
	}
	if session != nil {
		_ = session.Close()
	}
}

func (r *relayed) restored(known postgres.Restoration, want error) (goesBehind, goesOn int64) {
	r.Helper()
	known.Actor, known.Reason, known.At = "os:ada", "a disk was lost", time.Now()
	goesBehind, goesOn, err := r.store.Restored(r.Context(), known)
	if !errors.Is(err, want) {
		r.Fatalf("error %v, want %v", err, want)
	}
	return goesBehind, goesOn
}

// Field case OUTBOX-07: a reader went on from a position that was not of its data any more, and lost what lay between.
func TestARelayRefusesAForeignCheckpointUntilAnOperatorMendsIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		astray string // 10 events are published
		known  *int64
		behind int64 // new positions come behind it
		on     int64 // the relay goes on
	}{
		"moved ahead":                         {"UPDATE checkpoints SET position = position + 5", nil, 20, 10},
		"of a log that went on":               {"UPDATE checkpoints SET position = 15, event = gen_random_uuid()", new(int64(10)), 20, 10},
		"far beyond the log":                  {"UPDATE checkpoints SET position = 5000, event = gen_random_uuid()", new(int64(10)), 5000, 10},
		"at another event":                    {"UPDATE checkpoints SET event = gen_random_uuid()", new(int64(8)), 20, 8},
		"ahead, written by an older release":  {"UPDATE checkpoints SET position = 15, event = NULL", new(int64(10)), 20, 10},
		"restored to a time before any event": {"UPDATE checkpoints SET position = 15, event = NULL", new(int64(0)), 20, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := relay(t, 10)
			r.refuses(false)
			r.exec(test.astray)
			r.refuses(true)
			r.record("B", 10) // the log grows past the checkpoint
			r.refuses(true)
			if test.known != nil {
				r.restored(postgres.Restoration{}, postgres.ErrSinceNeeded)
				r.refuses(true)
			}
			if behind, on := r.restored(postgres.Restoration{KnownTo: test.known}, nil); behind != test.behind || on != test.on {
				t.Errorf("new positions behind %d, want %d; goes on after %d, want %d", behind, test.behind, on, test.on)
			}
			if keys := r.publish(test.on); len(keys) != int(20-test.on) || keys[len(keys)-1] != "B9" {
				t.Errorf("published %v", keys)
			}
			r.refuses(false)
			entries, err := postgres.Settlements{DB: r.store.DB}.Audit(t.Context(), deadletters.AuditQuery{Subject: "relay", Limit: 10})
			if err != nil || len(entries) != 1 || entries[0].Action != "events.restored" || entries[0].Reason != "a disk was lost" {
				t.Errorf("%+v, %v", entries, err)
			}
		})
	}
}

func TestARelayGoesOnFromACheckpointOfTheLog(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change string
		after  int64
	}{
		"as it was left":                {"SELECT", 10},
		"set back":                      {"UPDATE checkpoints SET position = position - 7", 3},
		"set back to the beginning":     {"UPDATE checkpoints SET position = 0", 0},
		"written by an older release":   {"UPDATE checkpoints SET event = NULL", 10},
		"of an older release's new log": {"UPDATE checkpoints SET position = 0, event = NULL", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := relay(t, 10)
			r.exec(test.change)
			r.record("B", 1)
			if keys := r.publish(test.after); len(keys) != int(11-test.after) {
				t.Errorf("published %v", keys)
			}
			var named bool
			err := r.conn.QueryRow(t.Context(), "SELECT e.position = c.position AND e.position = 11 FROM checkpoints c JOIN events e ON e.id = c.event").Scan(&named)
			if err != nil || !named {
				t.Errorf("the checkpoint does not name its event: %v", err)
			}
		})
	}
}

// A checkpoint of an older release names its event once a relay has begun, though nothing is new.
func TestACheckpointWithoutItsEventIsTakenOnce(t *testing.T) {
	t.Parallel()
	r := relay(t, 10)
	r.exec("UPDATE checkpoints SET event = NULL")
	r.refuses(false)
	r.exec("UPDATE checkpoints SET position = 15")
	r.record("B", 10)
	r.refuses(true)
}

// A consistent backup brings back log and checkpoint: only what others know can tell what was lost.
func TestAConsistentBackupGoesOnBehindWhatOthersKnow(t *testing.T) {
	t.Parallel()
	r := relay(t, 10)
	r.restored(postgres.Restoration{}, postgres.ErrNothingToMend)
	r.restored(postgres.Restoration{Published: 10}, postgres.ErrNothingToMend)
	session, err := r.relay.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.restored(postgres.Restoration{Published: 5000}, postgres.ErrRelayActive)
	if err := session.Close(); err != nil {
		t.Fatal(err)
	}
	if behind, on := r.restored(postgres.Restoration{Published: 5000}, nil); behind != 5000 || on != 10 {
		t.Errorf("new positions behind %d, goes on after %d", behind, on)
	}
	r.record("B", 1)
	if keys := r.publish(10); len(keys) != 1 || keys[0] != "B0" {
		t.Errorf("published %v", keys)
	}
	r.exec("DO $$ BEGIN ASSERT (SELECT max(position) FROM events) = 5001; END $$")
}

func TestThereIsNothingToMendWhereNoRelayEverRan(t *testing.T) {
	t.Parallel()
	store := pgtest.Store(t, pgtest.Config(t), pgtest.Registry(t))
	(&relayed{T: t, store: store}).restored(postgres.Restoration{Published: 5}, postgres.ErrNothingToMend)
}
