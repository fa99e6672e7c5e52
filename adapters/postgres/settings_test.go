package postgres_test

import (
	"testing"
	"time"

	"andes/adapters/postgres"
	"andes/deadletters"
	"andes/quota"
	"andes/test/pgtest"
	"andes/tuning"
)

func TestLimitsAreSetForAllInstancesAndAudited(t *testing.T) {
	db := pgtest.Open(t, pgtest.Config(t), pgtest.Registry(t))
	settings := postgres.Settings{DB: db}
	if kept, err := settings.Tiers(t.Context()); kept != (quota.Kept{}) || err != nil {
		t.Errorf("%+v, %v", kept, err)
	}
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	raised := "bronze=40/4,silver=100/10,gold=500/50"
	for _, c := range []struct {
		old, new string
		made     bool
	}{{"", raised, true}, {"", "gold", false}, {"gold", "silver", false}, {raised, "", true}} {
		made, err := settings.SwapTiers(t.Context(), quota.Swap{Old: c.old, New: c.new, Actor: "ada", Reason: "a promotion", At: at})
		if err != nil || made != c.made {
			t.Errorf("%+v: %t, %v", c, made, err)
		}
		want := quota.Kept{Tiers: c.new, By: "ada", At: at}
		if kept, err := settings.Tiers(t.Context()); err != nil || (kept == want) != c.made {
			t.Errorf("%+v: %+v, %v", c, kept, err)
		}
	}
	entries, err := postgres.Settlements{DB: db}.Audit(t.Context(), deadletters.AuditQuery{Subject: "quota.tiers", Limit: 10})
	if err != nil || len(entries) != 2 || entries[1].Actor != "ada" || entries[1].Action != "quota.set" || entries[1].Reason != "a promotion" || entries[1].Detail != raised ||
		entries[0].Action != "quota.reset" {
		t.Errorf("%+v, %v", entries, err)
	}
}

func TestASettingIsChangedOnlyByWhoKnowsWhatItIs(t *testing.T) {
	db := pgtest.Open(t, pgtest.Config(t), pgtest.Registry(t))
	settings := postgres.Settings{DB: db}
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		old, new string
		reset    bool
		made     bool
	}{
		{"{\"rate\":1}", "{\"rate\":2}", false, false}, // nothing is set yet
		{"", "{\"rate\":3}", false, true},
		{"", "{\"rate\":4}", false, false},
		{"{\"rate\":2}", "{\"rate\":4}", false, false},
		{"{\"rate\":3}", "{\"rate\":5}", false, true},
		{"{\"rate\":5}", "", true, true},
		{"", "{\"rate\":6}", false, true},
	} {
		made, err := settings.SwapGuard(t.Context(), tuning.Swap{System: "erp", Old: c.old, New: c.new, Reset: c.reset, Actor: "ada", Reason: "a peak", At: at})
		if err != nil || made != c.made {
			t.Errorf("%+v: %t, %v", c, made, err)
		}
	}
	kept, err := settings.Guards(t.Context(), []string{"erp", "wms"})
	if err != nil || len(kept) != 1 || kept["erp"] != (tuning.Kept{Text: "{\"rate\":6}", By: "ada", At: at}) {
		t.Errorf("%+v, %v", kept, err)
	}
	entries, err := postgres.Settlements{DB: db}.Audit(t.Context(), deadletters.AuditQuery{Subject: "guard.erp", Limit: 10})
	if err != nil || len(entries) != 4 || entries[1].Action != "guard.reset" || entries[0].Action != "guard.set" ||
		entries[0].Detail != "{\"rate\":6}" || entries[0].Actor != "ada" || entries[0].Reason != "a peak" {
		t.Errorf("%+v, %v", entries, err)
	}
}
