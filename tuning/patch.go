package tuning

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Patch is what of a guard's settings is to be other than the configuration has it. A field that is nil or empty
// is as configured. Durations are in Go's notation, as 2s.
type Patch struct {
	Concurrency   *int     `json:"concurrency,omitempty" doc:"Calls at once"`
	Rate          *int     `json:"rate,omitempty" doc:"Calls a second"`
	QueueWait     string   `json:"queueWait,omitempty" minLength:"1" maxLength:"40" example:"5s" doc:"Longest wait of a call for its place and turn"`
	Timeout       string   `json:"timeout,omitempty" minLength:"1" maxLength:"40" example:"2s" doc:"Of one attempt"`
	Attempts      *int     `json:"attempts,omitempty" doc:"Of an idempotent call, the first one included"`
	Waits         []string `json:"waits,omitempty" minItems:"1" maxItems:"3" doc:"Before the second, third and fourth attempt; the last one repeats"`
	MaxRetryAfter string   `json:"maxRetryAfter,omitempty" minLength:"1" maxLength:"40" example:"5s" doc:"A system that asks for a longer pause ends the attempts"`
	Window        *int     `json:"window,omitempty" doc:"Results that the breaker judges"`
	MinCalls      *int     `json:"minCalls,omitempty" doc:"No fewer are judged"`
	FailPercent   *int     `json:"failPercent,omitempty" doc:"Of failures, from which on the breaker opens"`
	SlowAfter     string   `json:"slowAfter,omitempty" minLength:"1" maxLength:"40" example:"1.5s" doc:"An answer that takes as long is slow"`
	SlowPercent   *int     `json:"slowPercent,omitempty" doc:"Of failures and slow answers, from which on it opens; 0: slowness opens nothing"`
	OpenFor       string   `json:"openFor,omitempty" minLength:"1" maxLength:"40" example:"30s" doc:"Before an open breaker lets probes through"`
	OpenFirst     string   `json:"openFirst,omitempty" minLength:"1" maxLength:"40" example:"2s" doc:"The same for the first time; it doubles up to openFor while the probes fail. 0s: it is openFor at once"`
	Probes        *int     `json:"probes,omitempty" doc:"That have to succeed before it closes"`
	ProbeWait     string   `json:"probeWait,omitempty" minLength:"1" maxLength:"40" example:"10s" doc:"For a probe's result; then it counts as a failure"`
}

// Empty tells whether everything is as configured.
func (p Patch) Empty() bool { return p.Text() == "" }

// Text is the patch as it is kept: JSON, or nothing.
func (p Patch) Text() string {
	text, err := json.Marshal(p)
	if err != nil { // a struct of numbers and texts
		panic(err)
	}
	if string(text) == "{}" {
		return ""
	}
	return string(text)
}

// Parse is the inverse of Text.
func Parse(text string) (Patch, error) {
	var p Patch
	if text == "" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return Patch{}, fmt.Errorf("tuning: what is set can't be read: %w", err)
	}
	return p, nil
}

// Merge gives the patch with what the other one says in the place of what it says itself.
func (p Patch) Merge(other Patch) Patch {
	for _, field := range []struct{ own, others **int }{
		{&p.Concurrency, &other.Concurrency},
		{&p.Rate, &other.Rate},
		{&p.Attempts, &other.Attempts},
		{&p.Window, &other.Window},
		{&p.MinCalls, &other.MinCalls},
		{&p.FailPercent, &other.FailPercent},
		{&p.SlowPercent, &other.SlowPercent},
		{&p.Probes, &other.Probes},
	} {
		if *field.others != nil {
			*field.own = *field.others
		}
	}
	for _, field := range []struct{ own, others *string }{
		{&p.QueueWait, &other.QueueWait},
		{&p.Timeout, &other.Timeout},
		{&p.MaxRetryAfter, &other.MaxRetryAfter},
		{&p.SlowAfter, &other.SlowAfter},
		{&p.OpenFor, &other.OpenFor},
		{&p.OpenFirst, &other.OpenFirst},
		{&p.ProbeWait, &other.ProbeWait},
	} {
		if *field.others != "" {
			*field.own = *field.others
		}
	}
	if len(other.Waits) > 0 {
		p.Waits = slices.Clone(other.Waits)
	}
	return p
}
