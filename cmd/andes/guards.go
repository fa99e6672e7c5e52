package main

import "andes/adapters/guard"

// guard gives the settings with which the guard of a system starts.
func (s *settings) guard(system string) guard.Settings {
	of := map[string]struct{ calls, rate int }{
		"erp": {s.ERPCalls, s.ERPRate}, "wms": {s.WMSCalls, s.WMSRate},
		"oms": {s.OMSCalls, s.OMSRate}, "payment": {s.PaymentCalls, s.PaymentRate},
	}[system]
	settings := guard.Defaults(of.calls)
	settings.Rate, settings.Timeout, settings.Breaker.OpenFor = of.rate, s.CallTimeout, s.BreakerOpenFor
	settings.Breaker.ProbeWait = max(settings.Breaker.ProbeWait, s.CallTimeout)
	return settings
}
