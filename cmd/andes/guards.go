package main

import (
	"andes/adapters/guard"
	httpapi "andes/adapters/http"
)

// guard gives the settings with which the guard of a system starts.
func (s *settings) guard(system string) guard.Settings {
	of := map[string]struct{ calls, rate int }{
		"erp": {s.ERPCalls, s.ERPRate}, "wms": {s.WMSCalls, s.WMSRate},
		"oms": {s.OMSCalls, s.OMSRate}, "payment": {s.PaymentCalls, s.PaymentRate},
	}[system]
	if s.kind(system) == trytonKind {
		of.rate = min(of.rate, trytonRates[system])
	}
	settings := guard.Defaults(of.calls)
	settings.Rate, settings.Timeout, settings.Breaker.OpenFor = of.rate, s.CallTimeout, s.BreakerOpenFor
	settings.Breaker.ProbeWait = max(settings.Breaker.ProbeWait, s.CallTimeout)
	return settings
}

// guarded gives the only way to a legacy system.
func (p *platform) guarded(system string) (*guard.Guard, error) {
	if p.guardMetrics == nil {
		metrics, err := guard.NewMetrics(p.metrics)
		if err != nil {
			return nil, err
		}
		p.guardMetrics = metrics
	}
	made, err := guard.New(guard.Config{System: system, Settings: p.settings.guard(system), Transport: p.settings.transport(system), Metrics: p.guardMetrics, Log: p.logger})
	if err != nil {
		return nil, err
	}
	p.guards = append(p.guards, made)
	return made, nil
}

// guardStates tells operators how the guards of this process stand.
func (p *platform) guardStates() []httpapi.Guard {
	states := make([]httpapi.Guard, len(p.guards))
	for i, each := range p.guards {
		states[i] = guardState(each.Snapshot())
	}
	return states
}

func guardState(now guard.Snapshot) httpapi.Guard {
	settings, breaker := now.Settings, now.Breaker
	state := httpapi.Guard{
		System: now.System, InFlight: now.InFlight, Waiting: now.Waiting,
		Breaker: httpapi.GuardBreaker{
			State: string(breaker.State), Since: breaker.Since.UTC(), Results: breaker.Results, Failures: breaker.Failures, Slow: breaker.Slow,
			Probing: breaker.Probing, Recovered: breaker.Recovered, Opened: breaker.Opened, Late: breaker.Late,
		},
		Settings: httpapi.GuardSettings{
			Concurrency: settings.Concurrency, Rate: settings.Rate, QueueWait: settings.QueueWait.String(), Timeout: settings.Timeout.String(),
			Attempts: settings.Attempts, Waits: []string{}, Window: settings.Breaker.Window, MinCalls: settings.Breaker.MinCalls,
			FailPercent: settings.Breaker.FailPercent, OpenFor: settings.Breaker.OpenFor.String(), Probes: settings.Breaker.Probes,
		},
	}
	if !breaker.ProbesAt.IsZero() {
		state.Breaker.ProbesAt = breaker.ProbesAt.UTC()
	}
	for _, wait := range settings.Waits[:min(settings.Attempts-1, len(settings.Waits))] {
		state.Settings.Waits = append(state.Settings.Waits, wait.String())
	}
	return state
}
