package main

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"andes/test/pgtest"
)

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
		checks, closeDB, err := openInvariants(ctx, config.URL, config.Schema)
		if err != nil {
			t.Fatal(err)
		}
		defer closeDB()
		var all []string
		for _, c := range checks {
			found, err := c.find(ctx)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			all = append(all, found...)
		}
		return strings.Join(all, "\n")
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
