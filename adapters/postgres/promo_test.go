package postgres_test

import (
	"reflect"
	"strings"
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
}

func TestSamplesOfNoPromoAreLetGo(t *testing.T) {
	store := postgres.Settings{DB: pgtest.Open(t, pgtest.Config(t), pgtest.Registry(t))}
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for _, id := range []string{promo.Quiet, "p"} {
		for _, slot := range []time.Time{at, at.Add(promo.SlotLength)} {
			if err := store.AddSample(t.Context(), id, slot, "a", promo.Sample{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := store.ForgetSamples(t.Context(), at.Add(promo.SlotLength)); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]int{promo.Quiet: 1, "p": 2} {
		count := 0
		if err := store.Samples(t.Context(), id, time.Time{}, func(time.Time, string, promo.Sample) { count++ }); err != nil || count != want {
			t.Errorf("%q: %d samples, %v", id, count, err)
		}
	}
}

func TestEventsOfOrdersAreCountedByTime(t *testing.T) {
	store := pgtest.Store(t, pgtest.Config(t), pgtest.Registry(t))
	settings := postgres.Settings{DB: store.DB}
	day := 24 * time.Hour
	if counts, err := settings.OrderEvents(t.Context(), time.Now().Add(-day), time.Now().Add(day)); err != nil || counts == nil || len(counts) != 0 {
		t.Errorf("an empty log: %v, %v", counts, err)
	}
	shop(t, store, 5, "A")
	execute(t, store, place("o1", 1, "A"))
	execute(t, store, place("o2", 1, "A"))
	for name, c := range map[string]struct {
		from, until time.Duration
		placed      int64
	}{"before": {-2 * day, -day, 0}, "after": {day, 2 * day, 0}, "all": {-day, day, 2}} {
		counts, err := settings.OrderEvents(t.Context(), time.Now().Add(c.from), time.Now().Add(c.until))
		if err != nil || counts["order.placed"] != c.placed || counts["stock.reported"] != 0 {
			t.Errorf("%s: %v, %v", name, counts, err)
		}
		for kind := range counts {
			if !strings.HasPrefix(kind, "order.") {
				t.Errorf("%s is counted", kind)
			}
		}
	}
	counts := map[string]int64{}
	reached, err := store.CountOrderEvents(t.Context(), 0, 1, counts)
	if again, err2 := store.CountOrderEvents(t.Context(), reached, 1, counts); err != nil || err2 != nil || reached != 1 || again != 1 || len(counts) != 0 {
		t.Errorf("%d, %d, %v, %v, %v", reached, again, counts, err, err2)
	}
}
