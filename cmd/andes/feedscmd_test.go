package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"andes/commands/source"
	"andes/eventstore"
	"andes/polling"
)

// ledgerOf is a ledger with so many records of each feed.
type ledgerOf map[string]int

func (l ledgerOf) Standings(context.Context) ([]polling.FeedStanding, error) { return nil, nil }

func (l ledgerOf) Rejects(_ context.Context, feed, after string, limit int) (page []polling.Rejected, err error) {
	if limit > rejectsPage {
		return nil, eventstore.Refuse("PARAMETER_INVALID", "too many")
	}
	for n := range l[feed] {
		if id := fmt.Sprintf("%05d", n); id > after && len(page) < limit {
			page = append(page, polling.Rejected{ID: id})
		}
	}
	return page, nil
}

func (l ledgerOf) Reread(context.Context, string, []string, string, string) (int, error) {
	return 0, nil
}

func (l ledgerOf) Discard(context.Context, string, []string, string, string) (int, error) {
	return 0, nil
}

func TestRejectsOfAllFeedsAreListedUpToALimit(t *testing.T) {
	ledger := ledgerOf{source.ERPPrices: 2500, source.WMSStock: 3}
	for limit, c := range map[int]struct {
		listed int
		more   bool
	}{1: {1, true}, 1000: {1000, true}, 2500: {2500, true}, 2502: {2502, true}, 2503: {2503, false}, 9000: {2503, false}} {
		list, more, err := rejectsOf(t.Context(), ledger, source.Feeds, limit)
		if err != nil || len(list) != c.listed || more != c.more {
			t.Errorf("up to %d: %d, more %t, %v; want %d, %t", limit, len(list), more, err, c.listed, c.more)
		}
		if !slices.IsSortedFunc(list, func(a, b rejectOf) int { return strings.Compare(a.Feed+a.ID, b.Feed+b.ID) }) {
			t.Errorf("up to %d: not each once, in order", limit)
		}
	}
}

func TestFeedsAreNamedByTheirSystemOrByThemselves(t *testing.T) {
	for asked, want := range map[[2]string][]string{
		{"", ""}: source.Feeds, {"erp", ""}: {source.ERPProducts, source.ERPPrices}, {"wms", ""}: {source.WMSStock, source.WMSShipments},
		{"", "wms.stock"}: {source.WMSStock}, {"erp", "wms.stock"}: nil, {"", "nothing"}: nil,
	} {
		got, err := feedsOf(asked[0], asked[1])
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%v: %v, %v", asked, got, err)
		}
	}
	for line, good := range map[string]bool{
		"feeds": true, "feeds --output json": true, "feeds rejects --system erp": true, "feeds rejects": true, "feeds rejects --system oms": false,
		"feeds reread wms.stock 85123A 10002 --reason mended": true, "feeds reread wms.stock --reason r": false, "feeds reread wms.stock 85123A": false,
		"feeds discard wms.stock 85123A 10002 --reason gone": true, "feeds discard wms.stock --reason r": false, "feeds discard wms.stock 85123A": false,
	} {
		if _, err := newParser(&cli{}).Parse(strings.Fields(line)); (err == nil) != good {
			t.Errorf("andes %s: %v", line, err)
		}
	}
}

func TestARejectIsPrintedSafely(t *testing.T) {
	at := time.Date(2026, 11, 30, 22, 41, 7, 0, time.UTC)
	list := []rejectOf{{source.ERPPrices, polling.Rejected{ID: "retail|A\x1b[2J", Version: 7, Code: "PRICE_NOT_POSITIVE", Detail: "price 0.00\n" + strings.Repeat("x", 5000), Times: 2, First: at, Last: at, Again: true}}}
	var out bytes.Buffer
	if err := printRejects(&out, "table", list, true); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.ContainsRune(text, '\x1b') || strings.Count(text, "\n") != 3 || len(text) > 600 || !strings.Contains(text, "will be read once more") || !strings.Contains(text, "there are more") {
		t.Errorf("%q", text)
	}
	out.Reset()
	if err := printRejects(&out, "json", list[:1], true); err != nil || !strings.HasPrefix(out.String(), `{"feed":"erp.prices","id":"retail|A\u001b[2J","version":7,"code":"PRICE_NOT_POSITIVE"`) {
		t.Errorf("%v %s", err, out.String())
	}
	out.Reset()
	if err := printRejects(&out, "table", nil, false); err != nil || out.String() != "all records can be used\n" {
		t.Errorf("%v %q", err, out.String())
	}
	out.Reset()
	standings := []polling.FeedStanding{{Feed: source.ERPPrices, SyncedAt: at, Rejects: 1}, {Feed: source.WMSStock}}
	if err := printStandings(&out, standings, at.Add(61*time.Second+time.Millisecond)); err != nil || !strings.Contains(out.String(), "1m1s") || !strings.Contains(out.String(), "never") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
