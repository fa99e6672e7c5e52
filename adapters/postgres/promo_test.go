package postgres_test

import (
	"reflect"
	"testing"
	"time"

	"andes/adapters/postgres"
	"andes/deadletters"
	"andes/promo"
	"andes/test/pgtest"
)

func TestAPromoIsKeptWithItsSamplesAndReport(t *testing.T) {
	db := pgtest.Open(t, pgtest.Config(t), pgtest.Registry(t))
	store := postgres.Settings{DB: db}
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	if text, err := store.Promo(t.Context()); text != "" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	for _, c := range []struct {
		old, new string
		made     bool
	}{{"", "one", true}, {"", "two", false}, {"one", "two", true}} {
		made, err := store.SwapPromo(t.Context(), promo.Swap{Old: c.old, New: c.new, Action: "promo.on", Detail: "a detail", Actor: "ada", Reason: "r", At: at})
		if made != c.made || err != nil {
			t.Errorf("%+v: %t, %v", c, made, err)
		}
	}
	if text, err := store.Promo(t.Context()); text != "two" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	entries, err := postgres.Settlements{DB: db}.Audit(t.Context(), deadletters.AuditQuery{Subject: "promo", Limit: 10})
	if err != nil || len(entries) != 2 || entries[0].Action != "promo.on" || entries[0].Detail != "a detail" {
		t.Errorf("%+v, %v", entries, err)
	}
	for i, process := range []string{"b", "a", "a", "a"} {
		slot := at.Add(time.Duration(max(0, i-1)) * promo.SlotLength)
		sample := promo.Sample{Refused: int64(i), Answers: map[string]int64{"200": 7}, Ages: map[string]float64{"wms.stock": 1.5}}
		if err := store.AddSample(t.Context(), "p", slot, process, sample); err != nil {
			t.Fatal(err)
		}
	}
	again := promo.Sample{Refused: 9}
	if err := store.AddSample(t.Context(), "p", at.Add(promo.SlotLength), "a", again); err != nil { // in the place of the one before
		t.Fatal(err)
	}
	var seen []string
	err = store.Samples(t.Context(), "p", at.Add(time.Second), func(slot time.Time, process string, sample promo.Sample) {
		seen = append(seen, slot.Format("05")+process)
		if slot.Equal(at.Add(promo.SlotLength)) && !reflect.DeepEqual(sample, again) {
			t.Errorf("%+v", sample)
		}
	})
	if err != nil || !reflect.DeepEqual(seen, []string{"10a", "20a"}) {
		t.Errorf("%v, %v", seen, err)
	}
	report := promo.Report{State: promo.State{ID: "p", Until: at}, Final: true, Window: promo.Window{Reads: 5}}
	for _, reads := range []int64{5, 6} { // the first one stays
		report.Reads = reads
		if err := store.KeepReport(t.Context(), report); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"p", ""} {
		if kept, there, err := store.Report(t.Context(), id); err != nil || !there || kept.Reads != 5 || kept.State.ID != "p" {
			t.Errorf("%q: %+v, %t, %v", id, kept, there, err)
		}
	}
	if _, there, err := store.Report(t.Context(), "q"); there || err != nil {
		t.Errorf("%t, %v", there, err)
	}
	err = store.Samples(t.Context(), "p", time.Time{}, func(time.Time, string, promo.Sample) { t.Error("a sample is left") })
	if err != nil {
		t.Error(err)
	}
	if head, err := store.Head(t.Context()); head != 0 || err != nil {
		t.Errorf("%d, %v", head, err)
	}
}
