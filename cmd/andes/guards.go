package main

import (
	"fmt"
	"time"

	"andes/adapters/guard"
	"andes/adapters/postgres"
	"andes/tuning"
)

// guardedSystems are those that have a guard in the processes that call them.
var guardedSystems = []string{"erp", "wms", "oms", "payment"}

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
	if system == "erp" || system == "wms" { // what is polled is stale until it is asked again; a consumer's work waits anyway
		settings.Breaker.OpenFirst = s.BreakerOpenFirst
	}
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
func (p *platform) guardStates() []tuning.Guard {
	states := make([]tuning.Guard, len(p.guards))
	for i, each := range p.guards {
		states[i] = guardState(each.Snapshot())
	}
	return states
}

func guardState(now guard.Snapshot) tuning.Guard {
	settings, breaker := now.Settings, now.Breaker
	state := tuning.Guard{
		System: now.System, InFlight: now.InFlight, Waiting: now.Waiting,
		Breaker: tuning.GuardBreaker{
			State: string(breaker.State), Since: breaker.Since.UTC(), Results: breaker.Results, Failures: breaker.Failures, Slow: breaker.Slow,
			Probing: breaker.Probing, Recovered: breaker.Recovered, Opened: breaker.Opened, Late: breaker.Late,
		},
		Settings: tuning.GuardSettings{
			Concurrency: settings.Concurrency, Rate: settings.Rate, QueueWait: settings.QueueWait.String(), Timeout: settings.Timeout.String(),
			Attempts: settings.Attempts, Waits: []string{}, Window: settings.Breaker.Window, MinCalls: settings.Breaker.MinCalls,
			FailPercent: settings.Breaker.FailPercent, OpenFor: settings.Breaker.OpenFor.String(), OpenFirst: settings.Breaker.OpenFirst.String(), Probes: settings.Breaker.Probes,
			MaxRetryAfter: settings.MaxRetryAfter.String(), SlowAfter: settings.Breaker.SlowAfter.String(),
			SlowPercent: settings.Breaker.SlowPercent, ProbeWait: settings.Breaker.ProbeWait.String(),
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

// tuned checks what an operator sets for the guard of a system, as a whole.
func (s *settings) tuned(system string, patch tuning.Patch) error {
	settings, err := s.guard(system).With(patch)
	if err != nil {
		return err
	}
	if longest := settings.Longest(); longest > legacyTimeout {
		return fmt.Errorf("one call may take %s with all its attempts and waits, above the %s of its consumer, which would hide from the breaker that the system hangs", longest, legacyTimeout)
	}
	return nil
}

// guardDesk lets operators change the settings of the guards of all processes.
func (p *platform) guardDesk() *tuning.Desk {
	if p.tuning == nil {
		p.tuning = tuning.NewDesk(tuning.Config{
			Systems: guardedSystems, Store: postgres.Settings{DB: p.store.DB}, Check: p.settings.tuned,
			Guards: func() []tuning.Target {
				targets := make([]tuning.Target, len(p.guards))
				for i, each := range p.guards {
					targets[i] = each
				}
				return targets
			},
			Every: settingsLook, Now: time.Now, Logger: p.logger,
		})
	}
	return p.tuning
}
