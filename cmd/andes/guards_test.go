package main

import (
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
	}
}

func TestGuardsThatWouldNotWorkAreRefusedAtTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*settings)
		want string
	}{
		"no calls":                {func(s *settings) { s.ERPCalls = 0 }, "ANDES_ERP_*: concurrency 0"},
		"negative":                {func(s *settings) { s.WMSRate = -1 }, "ANDES_WMS_*: rate -1/s"},
		"huge":                    {func(s *settings) { s.OMSCalls = math.MaxInt }, "ANDES_OMS_*: concurrency"},
		"a wait without a bound":  {func(s *settings) { s.CallTimeout = 24 * time.Hour }, "ANDES_PAYMENT_*: timeout 24h0m0s"},
		"longer than a handler":   {func(s *settings) { s.CallTimeout = 11 * time.Second }, "ANDES_CALL_TIMEOUT must not be above 10s"},
		"a breaker that is never": {func(s *settings) { s.BreakerOpenFor = 0 }, "ANDES_OMS_*: open for 0s"},
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
	if got := line.Guards.Set.patch().Text(); got != `{"queueWait":"0s","timeout":"1s","waits":["100ms","1s"],"slowPercent":0}` {
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
