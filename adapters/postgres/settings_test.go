package postgres_test

import (
	"testing"
	"time"

	"andes/adapters/postgres"
	"andes/deadletters"
	"andes/quota"
	"andes/test/pgtest"
)

func TestLimitsAreSetForAllInstancesAndAudited(t *testing.T) {
	db := pgtest.Open(t, pgtest.Config(t), pgtest.Registry(t))
	settings := postgres.Settings{DB: db}
	if text, err := settings.Tiers(t.Context()); text != "" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	for _, text := range []string{"bronze=40/4,silver=100/10,gold=500/50", ""} {
		if err := settings.SetTiers(t.Context(), quota.Change{Tiers: text, Actor: "ada", Reason: "a promotion", At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if kept, err := settings.Tiers(t.Context()); kept != text || err != nil {
			t.Errorf("%q, %v", kept, err)
		}
	}
	entries, err := postgres.Settlements{DB: db}.Audit(t.Context(), deadletters.AuditQuery{Subject: "quota.tiers", Limit: 10})
	if err != nil || len(entries) != 2 || entries[1].Actor != "ada" || entries[1].Action != "quota.set" || entries[1].Reason != "a promotion" || entries[1].Detail != "bronze=40/4,silver=100/10,gold=500/50" {
		t.Errorf("%+v, %v", entries, err)
	}
}
