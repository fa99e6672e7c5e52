package invariants

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"andes/adapters/postgres"
	"andes/commands/partner"
	"andes/eventstore"
	"andes/test/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// violations of the invariants that are wanted.
func violations(t *testing.T, config postgres.Config, wanted func(Invariant) bool) []string {
	t.Helper()
	db, err := Open(t.Context(), config.URL, config.Schema)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.WithoutCancel(t.Context())) }()
	var all []string
	for _, invariant := range All {
		if !wanted(invariant) {
			continue
		}
		found, err := invariant.Violations(t.Context(), db)
		if err != nil {
			t.Errorf("%s: %v", invariant.Name, err)
		}
		all = append(all, found...)
	}
	return all
}

// Each invariant is silent about a good history and speaks of a broken one.
func TestInvariantsFindWhatIsBroken(t *testing.T) {
	config := pgtest.Config(t)
	ctx := t.Context()
	db, err := pgx.Connect(ctx, config.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	if _, err := db.Exec(ctx, "SET search_path TO "+pgx.Identifier{config.Schema}.Sanitize()); err != nil {
		t.Fatal(err)
	}
	put := func(category, key, state string) {
		t.Helper()
		_, err := db.Exec(ctx, `INSERT INTO states (category, key, version, position, owner, state) VALUES ($1, $2, 1, 1, 'demo', $3)
			ON CONFLICT (category, key) DO UPDATE SET state = excluded.state`, category, key, state)
		if err != nil {
			t.Fatal(err)
		}
	}
	find := func() string {
		t.Helper()
		return strings.Join(violations(t, config, func(i Invariant) bool { return i.find == nil }), "\n")
	}
	order := func(status, total, sync string) string {
		return `{"status":"` + status + `","omsSync":"` + sync + `","total":{"amount":"` + total + `","currency":"GBP"},
			"lines":[{"sku":"A","quantity":2,"amount":{"amount":"5.10","currency":"GBP"}}]}`
	}
	reservation := func(status string) string { return `{"status":"` + status + `","lines":[{"sku":"A","quantity":2}]}` }

	put("stock", "A", `{"onHand":5,"reserved":2}`)
	put("order", "o-1", order("CONFIRMED", "5.10", "pending"))
	put("reservation", "o-1", reservation("HELD"))
	put("order", "o-2", order("DELIVERED", "5.10", "registered"))
	put("reservation", "o-2", reservation("CONSUMED"))
	put("payment", "o-2", `{"status":"APPROVED","amount":{"amount":"5.10","currency":"GBP"}}`)
	put("order", "o-3", order("CANCELLED", "5.10", ""))
	put("reservation", "o-3", reservation("RELEASED"))
	if found := find(); found != "" {
		t.Fatalf("a good history: %s", found)
	}
	for name, c := range map[string]struct{ category, key, state, told string }{
		"reserved without reservation": {"stock", "B", `{"onHand":5,"reserved":1}`, "B: 1 reserved, 0 held"},
		"oversold":                     {"stock", "A", `{"onHand":1,"reserved":2}`, "A: 1 on hand, 2 reserved"},
		"reservation of a cancelled":   {"reservation", "o-3", reservation("HELD"), "order o-3 is CANCELLED, its reservation HELD"},
		"wrong total":                  {"order", "o-1", order("CONFIRMED", "5.11", "pending"), "order o-1: total 5.11"},
		"delivered unregistered":       {"order", "o-2", order("DELIVERED", "5.10", "pending"), "order o-2: payment APPROVED, OMS pending"},
		"payment anomaly":              {"payment", "o-2", `{"status":"APPROVED","anomalies":1}`, "1 anomalies"},
	} {
		put(c.category, c.key, c.state)
		if found := find(); !strings.Contains(found, c.told) {
			t.Errorf("%s: %q is not told in %q", name, c.told, found)
		}
	}
}

// What only events show: a hole, an ending that came twice, a state that is not what the events say.
func TestInvariantsCompareStatesAndEvents(t *testing.T) {
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	everything := func(Invariant) bool { return true }
	for range 2 {
		configured := partner.State{ID: "acme", Name: "Acme", Tier: "gold", Policy: partner.Policy{PriceList: "retail", Currency: "GBP"}}
		if _, err := store.Execute(t.Context(), eventstore.Request{Command: partner.Configure{Partner: configured}}); err != nil {
			t.Fatal(err)
		}
	}
	if found := violations(t, config, everything); len(found) > 0 {
		t.Fatalf("a good history: %q", found)
	}
	db, err := pgx.Connect(t.Context(), config.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.WithoutCancel(t.Context())) }()
	const event = "INSERT INTO events VALUES (0, nextval('position_0'), '%s', %d, gen_random_uuid(), '%s', 1, '{}', '{}', now())"
	for _, c := range []struct{ name, sql, told string }{
		{"another state", "UPDATE states SET state = '{\"id\":\"other\"}' WHERE key = 'acme'", "partner/acme: the state is {\"id\":\"other\"}"},
		{"an event more", "UPDATE states SET version = 7 WHERE key = 'acme'", "partner/acme: head 7, last event"},
		{"no state", "DELETE FROM states WHERE key = 'acme'", "partner/acme has events and no state"},
		{"no event", "INSERT INTO states VALUES ('order', 'o-1', 1, 1, 'acme', '{}')", "order/o-1 has a state and no event"},
		{"a hole", fmt.Sprintf(event, "source/s", 2, "source.synced"), "source/s: version 2 at position"},
		{"ended twice", fmt.Sprintf(event, "reservation/o-1", 1, "reservation.released") + ";" + fmt.Sprintf(event, "reservation/o-1", 2, "reservation.expired"),
			"reservation/o-1: 2 events that end it or happen once: reservation.released, reservation.expired"},
		{"a deadline too many", "INSERT INTO states VALUES ('fulfilment', 'o-1', 1, 1, '', '{\"phase\":\"CLOSED\"}'); INSERT INTO deadlines VALUES ('fulfilment/o-1/x', 'fulfilment', 'o-1', 'x', now(), '{}')",
			"fulfilment/o-1/x is left"},
	} {
		if _, err := db.Exec(t.Context(), "SET search_path TO "+pgx.Identifier{config.Schema}.Sanitize()+";"+c.sql); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if found := strings.Join(violations(t, config, everything), "\n"); !strings.Contains(found, c.told) {
			t.Errorf("%s: %q is not told in %q", c.name, c.told, found)
		}
	}
}
