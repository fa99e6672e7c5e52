package postgres_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"andes/adapters/postgres"
	"andes/commands/source"
	"andes/deadletters"
	"andes/eventstore"
	"andes/polling"
	"andes/test/pgtest"
)

func TestRecordsThatCantBeUsedAreKeptUntilTheyCan(t *testing.T) {
	config := pgtest.Config(t)
	db := pgtest.Open(t, config, pgtest.Registry(t))
	feeds := postgres.Feeds{DB: db}
	reject := func(id string, version int64, code eventstore.Code) {
		t.Helper()
		if err := feeds.Reject(t.Context(), polling.Reject{Feed: source.ERPPrices, ID: id, Version: version, Code: code, Detail: "price " + id}); err != nil {
			t.Fatal(err)
		}
	}
	reject("retail|A", 3, "PRICE_INVALID")
	reject("retail|A", 4, "PRICE_NOT_POSITIVE")
	reject("retail|B", 0, "RECORD_INVALID")
	reject("x\x00y\xff", 1, "SKU_INVALID")
	reject(strings.Repeat("é", 400), 1, "SKU_INVALID")
	open, err := feeds.Open(t.Context(), source.ERPPrices, 10)
	if err != nil || open["retail|A"] != 4 || open["x\uFFFDy\uFFFD"] != 1 || len(open) != 4 {
		t.Errorf("open %v, %v", open, err)
	}
	if other, err := feeds.Open(t.Context(), source.WMSStock, 10); len(other) != 0 || err != nil {
		t.Errorf("of another feed %v, %v", other, err)
	}
	list, err := feeds.Rejects(t.Context(), source.ERPPrices, "", 1)
	if err != nil || len(list) != 1 || list[0].ID != "retail|A" || list[0].Times != 2 || list[0].Code != "PRICE_NOT_POSITIVE" || list[0].Last.Before(list[0].First) {
		t.Errorf("%+v, %v", list, err)
	}
	if rest, err := feeds.Rejects(t.Context(), source.ERPPrices, "retail|A", 10); len(rest) != 3 || err != nil {
		t.Errorf("behind it %+v, %v", rest, err)
	}
	count, err := feeds.Reread(t.Context(), source.ERPPrices, []string{"retail|A", "retail|none"}, "ada", "put right")
	if err != nil || count != 1 {
		t.Errorf("%d, %v", count, err)
	}
	for _, want := range [][]string{{"retail|A"}, nil} {
		if again, err := feeds.Again(t.Context(), source.ERPPrices, 10); err != nil || !slices.Equal(again, want) {
			t.Errorf("again %v, want %v, %v", again, want, err)
		}
	}
	entries, err := postgres.Settlements{DB: db}.Audit(t.Context(), deadletters.AuditQuery{Subject: source.ERPPrices, Limit: 10})
	if err != nil || len(entries) != 1 || entries[0].Action != "feed.reread" || entries[0].Actor != "ada" || entries[0].Count != 1 {
		t.Errorf("audit %+v, %v", entries, err)
	}
	count, err = feeds.Discard(t.Context(), source.ERPPrices, []string{"retail|B", "retail|none"}, "ada", "no such price there")
	if err != nil || count != 1 {
		t.Errorf("%d, %v", count, err)
	}
	if open, err := feeds.Open(t.Context(), source.ERPPrices, 10); len(open) != 3 || open["retail|B"] != 0 || err != nil {
		t.Errorf("after one was discarded %v, %v", open, err)
	}
	if count, err = feeds.Discard(t.Context(), source.ERPPrices, []string{"retail|B"}, "ada", "again"); count != 0 || err != nil {
		t.Errorf("again: %d, %v", count, err)
	}
	entries, err = postgres.Settlements{DB: db}.Audit(t.Context(), deadletters.AuditQuery{Subject: source.ERPPrices, Limit: 10})
	if err != nil || len(entries) != 2 || entries[0].Action != "feed.discard" || entries[0].Actor != "ada" || entries[0].Count != 1 || entries[0].Reason != "no such price there" || entries[0].Detail != "retail|B" {
		t.Errorf("audit %+v, %v", entries, err)
	}
	if err := feeds.Mend(t.Context(), source.ERPPrices, slices.Collect(maps.Keys(open))); err != nil {
		t.Fatal(err)
	}
	if open, err := feeds.Open(t.Context(), source.ERPPrices, 10); len(open) != 0 || err != nil {
		t.Errorf("after they were mended %v, %v", open, err)
	}
}

func TestOperatorsSeeHowFeedsStand(t *testing.T) {
	config := pgtest.Config(t)
	store := pgtest.Store(t, config, pgtest.Registry(t))
	feeds := postgres.Feeds{DB: store.DB}
	at := time.Now().UTC().Truncate(time.Millisecond)
	if _, err := store.Execute(t.Context(), eventstore.Request{Command: source.Advance{Feed: source.WMSStock, SyncedAt: at, Cursor: "c"}}); err != nil {
		t.Fatal(err)
	}
	if err := feeds.Reject(t.Context(), polling.Reject{Feed: source.WMSStock, ID: "A", Code: "RECORD_INVALID"}); err != nil {
		t.Fatal(err)
	}
	standings, err := feeds.Standings(t.Context())
	want := []polling.FeedStanding{{Feed: source.ERPProducts}, {Feed: source.ERPPrices}, {Feed: source.WMSStock, SyncedAt: at, Rejects: 1}, {Feed: source.WMSShipments}}
	if err != nil || !slices.Equal(standings, want) {
		t.Errorf("%+v, want %+v, %v", standings, want, err)
	}
}
