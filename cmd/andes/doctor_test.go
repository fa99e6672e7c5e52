package main

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"andes/commands/source"
	"andes/polling"
)

func TestTheDoctorLooksAtAndesItself(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("asked for %s", r.URL)
		}
		w.WriteHeader(status)
	}))
	at := server.Listener.Addr().String()
	if f := checkAndes(t.Context(), &settings{HTTPAddr: at}); f.remedy != "" {
		t.Errorf("ready: %+v", f)
	}
	status = http.StatusServiceUnavailable
	if f := checkAndes(t.Context(), &settings{HTTPAddr: at}); f.remedy == "" {
		t.Errorf("not ready: %+v", f)
	}
	server.Close()
	for _, address := range []string{at, "", "nowhere", "127.0.0.1:x"} {
		if f := checkAndes(t.Context(), &settings{HTTPAddr: address}); f.remedy == "" {
			t.Errorf("%q: %+v", address, f)
		}
	}
}

func TestTheDoctorLooksAtBreakersThroughTheOpsAPI(t *testing.T) {
	state, status := "open", http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ops/guards" || r.Header.Get("Authorization") != "Bearer t" {
			t.Errorf("asked for %s with %s", r.URL, r.Header)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"items":[{"system":"erp","breaker":{"state":"` + state + `","since":"2026-11-30T22:41:07Z"}},{"system":"wms","breaker":{"state":"closed"}}]}`))
	}))
	defer server.Close()
	look := throughOps("breakers", lookAtGuards)
	s := &settings{OpsURL: server.URL, OpsToken: "t"}
	if f := look(t.Context(), s); f.mark != wrongMark || f.remedy == "" || !strings.HasPrefix(f.state, "erp: the breaker is open since 2026-11-30T22:41:07") {
		t.Errorf("open: %+v", f)
	}
	state = "closed"
	if f := look(t.Context(), s); f.mark != "" || f.remedy != "" || f.state != "closed: erp, wms" {
		t.Errorf("closed: %+v", f)
	}
	status = http.StatusForbidden
	unseen := map[string]finding{"forbidden": look(t.Context(), s), "no token": look(t.Context(), &settings{OpsURL: server.URL}), "no address": look(t.Context(), &settings{OpsToken: "t"})}
	server.Close()
	unseen["no answer"] = look(t.Context(), s)
	for name, f := range unseen {
		if f.mark != unknownMark || f.remedy != "" || !strings.HasPrefix(f.state, "could not look: ") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestTheDoctorTellsWhichFeedsAreBehind(t *testing.T) {
	now := time.Date(2026, 11, 30, 22, 41, 7, 0, time.UTC)
	s := &settings{StockStale: 5 * time.Minute, PriceStale: 30 * time.Minute}
	prices, stock := polling.FeedStanding{Feed: source.ERPPrices, SyncedAt: now.Add(-6 * time.Minute)}, polling.FeedStanding{Feed: source.WMSStock, SyncedAt: now.Add(-time.Second)}
	if f := s.judgeFeeds([]polling.FeedStanding{prices, stock}, now); f.remedy != "" || f.mark != "" {
		t.Errorf("in step: %+v", f)
	}
	stock.SyncedAt, stock.Rejects = now.Add(-6*time.Minute), 2
	f := s.judgeFeeds([]polling.FeedStanding{prices, stock, {Feed: source.WMSShipments}}, now)
	want := "erp.prices: in step 6m0s ago\nwms.stock: in step 6m0s ago, above 5m0s; 2 records can't be used\nwms.shipments: was never in step"
	if f.state != want || f.mark != wrongMark || f.remedy == "" {
		t.Errorf("%+v, want %q", f, want)
	}
}

func TestDurationsAreLoggedWithTheirUnit(t *testing.T) {
	var out bytes.Buffer
	newLog(&out, slog.LevelInfo).Info("done", "took", 4270812*time.Nanosecond, slog.Group("of", slog.Duration("wait", time.Minute)), "count", 3)
	if got := out.String(); !strings.Contains(got, `"took":"4.270812ms","of":{"wait":"1m0s"},"count":3`) {
		t.Error(got)
	}
}
