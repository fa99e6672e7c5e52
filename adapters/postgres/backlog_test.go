package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"andes/adapters/postgres"
	"andes/test/pgtest"
)

func measured(t *testing.T, db *postgres.DB) postgres.Backlog {
	t.Helper()
	backlog, err := db.Backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return backlog
}

// about tells whether something has waited for so long, as far as a slow machine can tell.
func about(w postgres.Waiting, count int64, oldest time.Duration) bool {
	return w.Count == count && w.Oldest >= oldest && w.Oldest < oldest+time.Minute
}

func TestABacklogIsWhatWaitsAndForHowLong(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	conn := sql(t, config)
	db := pgtest.Open(t, config, pgtest.Registry(t))
	if got := measured(t, db); got != (postgres.Backlog{}) {
		t.Errorf("of an empty database: %+v", got)
	}
	for _, statement := range []string{
		// Published up to 2, with a burned position behind it.
		"INSERT INTO checkpoints (name, shard, position) VALUES ('relay', 0, 2), ('other', 0, 0)",
		`INSERT INTO events SELECT 0, p, 'stock/A', p, gen_random_uuid(), 'stock.reserved', 1, '{}', '{}', now() - p * interval '1 hour' FROM unnest(ARRAY[1, 2, 4]) AS p`,
		// The oldest by its last change waits the longest; those that are cancelled or registered do not wait.
		`INSERT INTO states SELECT 'order', key, 1, position, 'p', state FROM (VALUES
			('a', 7, json_build_object('status', 'CONFIRMED', 'omsSync', 'pending', 'updatedAt', now() - interval '2 hours')),
			('b', 5, json_build_object('status', 'CONFIRMED', 'omsSync', 'pending', 'updatedAt', now() - interval '3 hours')),
			('c', 1, json_build_object('status', 'CANCELLED', 'omsSync', 'pending', 'updatedAt', now() - interval '9 hours')),
			('d', 2, json_build_object('status', 'CONFIRMED', 'omsSync', 'registered', 'updatedAt', now() - interval '9 hours')),
			('e', 3, json_build_object('status', 'PENDING_PAYMENT', 'updatedAt', now() - interval '9 hours'))) AS o (key, position, state)`,
		`INSERT INTO deadlines SELECT i::text, 's', i::text, 'n', now() - i * interval '1 minute', '{}' FROM generate_series(-2, 5) AS i WHERE i <> 0`,
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	got := measured(t, db)
	if !about(got.Events, 2, 4*time.Hour) || !about(got.Orders, 2, 3*time.Hour) || !about(got.Deadlines, 5, 5*time.Minute) {
		t.Errorf("%+v", got)
	}
	if _, err := conn.Exec(t.Context(), "UPDATE checkpoints SET position = 4; DELETE FROM deadlines; DELETE FROM states"); err != nil {
		t.Fatal(err)
	}
	if got := measured(t, db); got != (postgres.Backlog{}) {
		t.Errorf("of work that is done: %+v", got)
	}
}

func TestACheckpointThatIsNotOfTheLogIsNotTakenForDone(t *testing.T) {
	t.Parallel()
	config := pgtest.Config(t)
	if _, err := sql(t, config).Exec(t.Context(), "INSERT INTO checkpoints (name, shard, position) VALUES ('relay', 0, 40)"); err != nil {
		t.Fatal(err)
	}
	if got := measured(t, pgtest.Open(t, config, pgtest.Registry(t))); got.Events.Count != -40 || !got.Refused {
		t.Errorf("%+v", got)
	}
}

func TestWaitingOrdersAreFoundWithoutLookingAtTheOthers(t *testing.T) {
	t.Parallel()
	conn := sql(t, pgtest.Config(t))
	_, err := conn.Exec(t.Context(), `INSERT INTO states SELECT 'order', i::text, 1, i, 'p', json_build_object('status', 'DELIVERED', 'omsSync', 'registered') FROM generate_series(1, 5000) AS i`)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), `EXPLAIN SELECT FROM states WHERE category = 'order' AND state ->> 'omsSync' = 'pending' AND state ->> 'status' = 'CONFIRMED' ORDER BY position LIMIT 1`)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || !strings.Contains(strings.Join(plan, "\n"), "states_order_unregistered") {
		t.Errorf("%v:\n%s", err, strings.Join(plan, "\n"))
	}
}
