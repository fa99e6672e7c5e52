package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"andes/eventstore"
	"andes/promo"
	"andes/quota"
)

func TestProductsAreNamedOneByOneOrInAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "skus.txt")
	if err := os.WriteFile(file, []byte("\uFEFF# the promo\nA\n  B,1 \n\nC\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := skusOf([]string{"X, Y", "@" + file, "Z"}); err != nil || !slices.Equal(got, []string{"X", "Y", "A", "B,1", "C", "Z"}) {
		t.Errorf("%q, %v", got, err)
	}
	for _, texts := range [][]string{nil, {""}, {"@"}, {"@" + file + ".gone"}, {"A,,B"}, {"A,"}, {"@" + filepath.Dir(file)}, {"@/dev/zero"}} {
		if got, err := skusOf(texts); err == nil || !strings.HasPrefix(err.Error(), "--skus") {
			t.Errorf("%q: %q, %v", texts, got, err)
		}
	}
}

func TestThePromosBoardSteersNoTerminalAndBreaksAtNoFigure(t *testing.T) {
	evil := "a\x1b[31mred\a\u202e"
	window := promo.Window{
		Processes: 2, CacheHits: 150, Answers: map[string]int64{"200": 1}, Partners: map[string]int64{evil: 3}, Cache: map[string]int64{"hit": 1},
		Freshness: map[string]promo.Aged{"wms.stock": {Last: promo.NeverInStep, Worst: 2}}, Legacy: map[string]promo.Calls{"wms": {}},
		Timeline: []promo.Point{{}, {P95: 7, ReadsRate: 1200}},
	}
	for _, phase := range []promo.Phase{promo.Off, promo.Waiting, promo.On, promo.Over} {
		var out bytes.Buffer
		status := promo.Status{
			Phase: phase, Promo: promo.State{ID: "p", SKUs: append([]string{evil}, make([]string, 20)...), Actor: evil, Reason: evil, EndedBy: evil, Degraded: promo.Degraded{Cap: 5}},
			Board: window, Look: &promo.Look{}, Warnings: []string{evil},
		}
		if err := printPromo(&out, status); err != nil || strings.ContainsAny(out.String(), "\x1b\a\u202e") || out.Len() == 0 {
			t.Errorf("%s: %q, %v", phase, out.String(), err)
		}
		if phase == promo.On && (!strings.Contains(out.String(), "never in step") || !strings.Contains(out.String(), "▁█") || !strings.Contains(out.String(), "ON: at most 5")) {
			t.Errorf("%s", out.String())
		}
	}
	var out bytes.Buffer
	if err := printPromoReport(&out, promo.Report{Window: promo.Window{}}); err != nil || !strings.Contains(out.String(), "no process has told") {
		t.Errorf("%s, %v", out.String(), err)
	}
	out.Reset()
	if err := printPromoReport(&out, promo.Report{State: promo.State{Reason: evil}, Final: true, Window: window, Before: &window}); err != nil || strings.ContainsAny(out.String(), "\x1b\a\u202e") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestAReportTellsEachFigureWithTheOneBefore(t *testing.T) {
	now := promo.Window{
		Processes: 2, Reads: 900, ReadsRate: 300, Orders: map[string]int64{"202": 30}, Events: map[string]int64{"order.placed": 29}, Refused: 5,
		Legacy: map[string]promo.Calls{"wms": {PerSecond: 6}, "erp": {PerSecond: 3}}, Freshness: map[string]promo.Aged{"wms.stock": {Last: 2}},
	}
	before := promo.Window{Processes: 1, Reads: 300, ReadsRate: 100, Orders: map[string]int64{"202": 10}, Refused: 1, Legacy: map[string]promo.Calls{"wms": {PerSecond: 2}}}
	for name, c := range map[string]struct {
		before *promo.Window
		lines  []string
	}{
		"known": {&before, []string{
			"in all 900 reads", "before 300 reads", "reads 300/s", "before 100/s", "legacy calls erp 3.0/s", "before unknown", "legacy calls wms 6.0/s", "before wms 2.0/s",
			"freshness wms.stock 2.0 s", "before unknown", "quotas 5 requests refused", "before 1 requests refused", "orders sent: 202 30", "before sent: 202 10",
			"what became of orders: order.placed 29", "before what became of orders: unknown", "told by 2 processes", "before 1 processes",
		}},
		"unknown": {nil, []string{"before unknown, as", "in all 900 reads", "reads 300/s"}},
	} {
		var out bytes.Buffer
		if err := printPromoReport(&out, promo.Report{Window: now, Before: c.before}); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(out.String()), " ")
		for _, line := range c.lines {
			if !strings.Contains(text, line) {
				t.Errorf("%s: %q is not in\n%s", name, line, out.String())
			}
		}
	}
}

func TestWhatAProcessDidIsCountedFromItsMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := func(name string, labels prometheus.Labels, value float64) {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, ConstLabels: labels})
		registry.MustRegister(c)
		c.Add(value)
	}
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "andes_http_request_seconds", Buckets: []float64{.001, .01}}, []string{"route"})
	registry.MustRegister(took)
	for _, seconds := range []float64{.0005, .0005, .005, .5} {
		took.WithLabelValues("GET /v1/stock").Observe(seconds)
		took.WithLabelValues("POST /v1/prices/query").Observe(seconds)
		took.WithLabelValues("GET /v1/orders").Observe(seconds)
	}
	counter("andes_http_requests_total", prometheus.Labels{"route": "GET /v1/stock", "status": "200"}, 3)
	counter("andes_http_requests_total", prometheus.Labels{"route": "GET /v1/prices", "status": "503"}, 2)
	counter("andes_http_requests_total", prometheus.Labels{"route": "POST /v1/orders", "status": "202"}, 5)
	counter("andes_legacy_calls_total", prometheus.Labels{"system": "wms", "outcome": "success"}, 7)
	counter("andes_legacy_calls_total", prometheus.Labels{"system": "wms", "outcome": "timeout"}, 1)
	counter("andes_legacy_calls_total", prometheus.Labels{"system": "wms", "outcome": "refused"}, 100) // not sent
	counter("andes_quota_decisions_total", prometheus.Labels{"outcome": "refused", "by": "known"}, 4)
	counter("andes_quota_decisions_total", prometheus.Labels{"outcome": "allowed", "by": "lease"}, 40)
	counter("andes_microcache_requests_total", prometheus.Labels{"outcome": "hit"}, 6)
	p := &platform{metrics: registry}
	for range 3 {
		p.refusals.add("acme")
	}
	got, err := newPromoCounter(p).count(t.Context(), promo.State{})
	if err != nil || !slices.Equal(got.Reads.Counts, []int64{4, 2, 2}) || !slices.Equal(got.Reads.Bounds, []float64{.001, .01}) ||
		got.Answers["200"] != 3 || got.Answers["503"] != 2 || got.Orders["202"] != 5 || got.Legacy["wms"] != 8 || got.Refused != 4 || got.Cache["hit"] != 6 || got.Partners["acme"] != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestThePartnersWhoseRefusalsAreCountedAreBounded(t *testing.T) {
	var r refusals
	for i := range maxRefused + 5 {
		r.add(strings.Repeat("x", i%7) + time.Duration(i).String())
	}
	r.add("0s")
	if counts := r.counts(); len(counts) != maxRefused || counts["0s"] != 2 {
		t.Errorf("%d partners, %d", len(counts), counts["0s"])
	}
}

func TestWhatIsWrongWithAPromoIsToldByItsFlags(t *testing.T) {
	refused := &eventstore.Refusal{Code: promo.CodeInvalid, Detail: "see errors", Problems: []eventstore.Problem{
		{Pointer: "/for", Code: promo.CodeInvalid, Detail: "too long"}, {Pointer: "/degraded/cap", Code: promo.CodeInvalid, Detail: "too small"}, {Pointer: "/new", Detail: "odd"},
	}}
	if got := byFlags(refused).Error(); got != "PROMO_INVALID: --for: too long\ncap: too small\n/new: odd" {
		t.Errorf("%q", got)
	}
	limits := &eventstore.Refusal{Code: quota.CodeInvalid, Problems: []eventstore.Problem{{Pointer: "/tiers", Detail: "gold is there twice"}}}
	if got := byFlags(limits).Error(); got != "QUOTA_INVALID: tiers: gold is there twice" {
		t.Errorf("%q", got)
	}
	other := eventstore.Refuse(promo.CodeOff, "none is on")
	if byFlags(other) != error(other) || byFlags(nil) != nil {
		t.Error("another error was changed")
	}
}

func TestAReportThatIsNotFinalSaysWhenItIs(t *testing.T) {
	from := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	plan := promo.State{ID: "p", From: from, Until: from.Add(time.Hour)}
	off := plan
	off.Until, off.EndedBy = from.Add(time.Minute), "ada"
	for _, c := range []struct {
		state promo.State
		until time.Time
		final bool
		want  string
	}{
		{plan, from.Add(time.Minute), false, "so far; "},
		{plan, plan.Until, false, "over; final once every process has told, within a minute; "},
		{off, off.Until, false, "over; final once every process has told, within a minute; "},
		{off, off.Until, true, "final; "},
	} {
		var out bytes.Buffer
		report := promo.Report{State: c.state, Final: c.final, Window: promo.Window{From: from, Until: c.until}}
		if err := printPromoReport(&out, report); err != nil || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %s, %v", c.want, out.String(), err)
		}
	}
}
