package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"andes/tuning"
)

func TestGuardsStartWithWhatIsSet(t *testing.T) {
	s := defaultSettings()
	for system, calls := range map[string]int{"erp": 10, "wms": 10, "oms": 20, "payment": 20} {
		got := s.guard(system)
		if err := got.Validate(); err != nil {
			t.Errorf("%s: %v", system, err)
		}
		if got.Concurrency != calls || got.Timeout != 2*time.Second || got.Attempts != 3 || got.Breaker.Window != 20 ||
			got.Breaker.MinCalls != 20 || got.Breaker.FailPercent != 50 || got.Breaker.OpenFor != 30*time.Second {
			t.Errorf("%s: %+v", system, got)
		}
		polled := system == "erp" || system == "wms"
		if want := map[bool]time.Duration{true: 2 * time.Second}[polled]; got.Breaker.OpenFirst != want {
			t.Errorf("%s: the first pause is %s, want %s", system, got.Breaker.OpenFirst, want)
		}
	}
}

func TestGuardsThatWouldNotWorkAreRefusedAtTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*settings)
		want string
	}{
		"no calls":                {func(s *settings) { s.ERPCalls = 0 }, "ANDES_ERP_CALLS is 0, but must be above zero"},
		"negative":                {func(s *settings) { s.WMSRate = -1 }, "ANDES_WMS_RATE is -1, but must be above zero"},
		"huge":                    {func(s *settings) { s.OMSCalls = math.MaxInt }, "ANDES_OMS_CALLS is 9223372036854775807, but must be at most 1000000"},
		"many":                    {func(s *settings) { s.OMSCalls = 1001 }, "ANDES_OMS_*: concurrency 1001 is not 1..1000"},
		"a wait without a bound":  {func(s *settings) { s.CallTimeout = 24 * time.Hour }, "ANDES_PAYMENT_*: timeout 24h0m0s"},
		"longer than a handler":   {func(s *settings) { s.CallTimeout = 11 * time.Second }, "ANDES_CALL_TIMEOUT must not be above 10s"},
		"a first pause below 0":   {func(s *settings) { s.BreakerOpenFirst = -1 }, "ANDES_BREAKER_OPEN_FIRST is -1ns, but must not be below zero"},
		"a breaker that is never": {func(s *settings) { s.BreakerOpenFor = 0 }, "ANDES_BREAKER_OPEN_FOR is 0s, but must be above zero"},
	} {
		t.Run(name, func(t *testing.T) {
			s := defaultSettings()
			s.Env = development
			if err := s.check(); err != nil {
				t.Fatal(err)
			}
			c.set(&s)
			if err := s.check(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestWhatAnOperatorSetsIsCheckedLikeTheConfiguration(t *testing.T) {
	s := defaultSettings()
	ten := 10
	for fault, patch := range map[string]tuning.Patch{
		"":                            {Timeout: "1s", Rate: &ten},
		"failures":                    {FailPercent: new(int)},
		"above the 1m0s of its consu": {Timeout: "10s", Attempts: &ten},
		"probe wait":                  {Timeout: "30s"},
	} {
		for _, system := range guardedSystems {
			err := s.tuned(system, patch)
			if (fault == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), fault) {
				t.Errorf("%s %s: %v", system, patch, err)
			}
		}
	}
}

func TestFlagsOfAGuardBecomeAPatch(t *testing.T) {
	var line cli
	if _, err := newParser(&line).Parse(strings.Fields("guards set erp --timeout 1s --slow-percent 0 --waits 100ms,1s --queue-wait 0s --reason slow")); err != nil {
		t.Fatal(err)
	}
	patch, err := line.Guards.Set.patch()
	if got := patch.Text(); err != nil || got != `{"queueWait":"0s","timeout":"1s","waits":["100ms","1s"],"slowPercent":0}` {
		t.Error(got)
	}
	for _, words := range []string{"guards set erp --timeout 1s", "guards set", "guards reset erp", "guards set erp --rate x --reason r"} {
		if _, err := newParser(&cli{}).Parse(strings.Fields(words)); err == nil {
			t.Errorf("%s is taken", words)
		}
	}
	if _, err := newParser(&cli{}).Parse([]string{"guards"}); err != nil {
		t.Error(err)
	}
}

func TestTheGuardsAreToldWithWhatIsSetOfThem(t *testing.T) {
	rate := 7
	guards := []tuning.Guard{{System: "erp", Breaker: tuning.GuardBreaker{State: "open"}}}
	for want, overview := range map[string]tuning.Overview{
		"nothing is set": {Items: guards, Set: []tuning.GuardStanding{{System: "erp"}}},
		`erp: set: {"rate":7}, by ada at 2026-11-27T12:00:00.000Z`:             {Items: guards, Set: []tuning.GuardStanding{{System: "erp", Set: tuning.Patch{Rate: &rate}, ChangedBy: "a\x1bda", ChangedAt: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}}},
		"WARNING: what is set can't be read now: the database does not answer": {Items: guards, Unread: "the database does\x1b not answer"},
	} {
		var out bytes.Buffer
		if err := printGuards(&out, overview); err != nil || !strings.Contains(out.String(), "open") || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%q, %v", out.String(), err)
		}
		if got := out.String(); !strings.Contains(strings.ReplaceAll(got, "\ufffd", ""), want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

func TestAListWithAnEmptyItemIsASlip(t *testing.T) {
	for _, waits := range []string{"200ms,,1s", ",", "1s,"} {
		if _, err := (guardsSetCmd{Waits: waits}).patch(); err == nil || !strings.Contains(err.Error(), "--waits") {
			t.Errorf("%q: %v", waits, err)
		}
	}
	if patch, err := (guardsSetCmd{Waits: "200ms, 1s"}).patch(); err != nil || patch.Text() != `{"waits":["200ms","1s"]}` {
		t.Errorf("%+v, %v", patch, err)
	}
}
