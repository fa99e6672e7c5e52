package main

import (
	"strings"
	"testing"
)

func TestATrytonThatIsAllThreeIsLeftBelowItsLimit(t *testing.T) {
	s := defaultSettings()
	s.ERPKind, s.WMSKind, s.OMSKind = trytonKind, trytonKind, trytonKind
	const limit = 40 // calls a second, at which it saturates
	sum := 0
	for _, system := range []string{"erp", "wms", "oms"} {
		sum += s.guard(system).Rate
		if s.transport(system) == nil {
			t.Errorf("failures of the %s are not seen", system)
		}
	}
	if sum > limit {
		t.Errorf("%d calls a second", sum)
	}
	s.WMSKind, s.OMSRate = "", 5
	if got := s.guard("wms").Rate; got != defaultSettings().WMSRate || s.transport("wms") != nil {
		t.Errorf("a WMS of the simulators' kind is asked %d times a second", got)
	}
	if got := s.guard("oms").Rate; got != 5 {
		t.Errorf("a lower rate is not kept to: %d", got)
	}
}

func TestATrytonNeedsItsSettings(t *testing.T) {
	s := defaultSettings()
	s.Env, s.ERPKind, s.WMSKind = development, "sap", trytonKind
	err := s.check()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"ANDES_ERP_KIND", "ANDES_WMS_KIND", "tryton_password"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named: %v", want, err)
		}
	}
	s.ERPKind, s.TrytonDatabase, s.TrytonUser, s.TrytonPassword = "", "d", "u", "p"
	if err := s.check(); err != nil {
		t.Error(err)
	}
}
