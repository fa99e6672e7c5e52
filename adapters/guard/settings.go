package guard

import (
	"errors"
	"fmt"
	"time"
)

// Settings are all that a guard can be told. A Settings value is never changed: a new one takes the
// place of the old one, and a call keeps those it began with.
type Settings struct {
	Concurrency   int              // calls in flight at once
	Rate          int              // calls a second
	QueueWait     time.Duration    // longest wait for a place and a turn
	Timeout       time.Duration    // of one attempt, reading the answer included
	Attempts      int              // of an idempotent call, the first one included
	Waits         [3]time.Duration // before the second, third and fourth attempt; the last one repeats
	Jitter        float64          // share by which a wait varies, both ways
	MaxRetryAfter time.Duration    // a system that asks for a longer pause ends the attempts
	MaxBody       int64            // bytes of an answer
	Breaker       Breaker
}

// Breaker are the settings of the breaker.
type Breaker struct {
	Window      int           // results that are judged, the last ones
	MinCalls    int           // no fewer are
	FailPercent int           // of failures, from which on it opens
	SlowAfter   time.Duration // an answer that takes as long is slow
	SlowPercent int           // of failures and slow answers, from which on it opens; 0: slowness opens nothing
	OpenFor     time.Duration // before the probes, at the most
	OpenFirst   time.Duration // before the first ones; it doubles up to OpenFor while they fail, so that a short outage is not made longer. 0: it is OpenFor at once
	Probes      int           // that a half-open breaker admits, and that have to succeed
	ProbeWait   time.Duration // for a probe's result; then it counts as a failure
}

// Defaults are the settings for a system that bears this many calls at once, and answers in 50 ms then. A
// slow system still does its work, where one whose breaker is open does none: so slowness opens nothing
// until it is a timeout.
func Defaults(concurrency int) Settings {
	return Settings{
		Concurrency:   concurrency,
		Rate:          20 * concurrency,
		QueueWait:     5 * time.Second,
		Timeout:       2 * time.Second,
		Attempts:      3,
		Waits:         [3]time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second},
		Jitter:        0.25,
		MaxRetryAfter: 5 * time.Second,
		MaxBody:       8 << 20,
		Breaker: Breaker{
			Window: 20, MinCalls: 20, FailPercent: 50,
			SlowAfter: 1500 * time.Millisecond, SlowPercent: 0,
			OpenFor: 30 * time.Second, Probes: 3, ProbeWait: 10 * time.Second,
		},
	}
}

// Bounds of the settings, whoever sets them.
const (
	maxConcurrency = 1000
	maxRate        = 10_000
	maxAttempts    = 10
	maxTimeout     = time.Minute
	maxWait        = 5 * time.Minute
	maxBodyBytes   = 256 << 20
	maxWindow      = 1000
	maxProbes      = 100
)

// Validate reports every fault of the settings.
func (s Settings) Validate() error {
	var faults faults
	require := faults.require
	require(s.Concurrency >= 1 && s.Concurrency <= maxConcurrency, "concurrency %d is not 1..%d", s.Concurrency, maxConcurrency)
	require(s.Rate >= 1 && s.Rate <= maxRate, "rate %d/s is not 1..%d", s.Rate, maxRate)
	require(s.QueueWait >= 0 && s.QueueWait <= maxWait, "queue wait %s is not 0..%s", s.QueueWait, maxWait)
	require(s.Timeout > 0 && s.Timeout <= maxTimeout, "timeout %s is not above 0 and up to %s", s.Timeout, maxTimeout)
	require(s.Attempts >= 1 && s.Attempts <= maxAttempts, "attempts %d is not 1..%d", s.Attempts, maxAttempts)
	for i, wait := range s.Waits {
		require(wait > 0 && wait <= maxWait, "wait %d of %s is not above 0 and up to %s", i+1, wait, maxWait)
	}
	require(s.Jitter >= 0 && s.Jitter < 1, "jitter %v is not from 0 to below 1", s.Jitter)
	require(s.MaxRetryAfter >= 0 && s.MaxRetryAfter <= maxWait, "longest Retry-After %s is not 0..%s", s.MaxRetryAfter, maxWait)
	require(s.MaxBody > 0 && s.MaxBody <= maxBodyBytes, "body limit %d is not 1..%d bytes", s.MaxBody, maxBodyBytes)
	s.Breaker.validate(&faults)
	require(s.Breaker.ProbeWait >= s.Timeout, "probe wait %s is below the timeout %s", s.Breaker.ProbeWait, s.Timeout)
	return errors.Join(faults...)
}

func (b Breaker) validate(faults *faults) {
	require := faults.require
	require(b.Window >= 1 && b.Window <= maxWindow, "window %d is not 1..%d", b.Window, maxWindow)
	require(b.MinCalls >= 1 && b.MinCalls <= b.Window, "minimum of calls %d is not 1..%d, the window", b.MinCalls, b.Window)
	require(b.FailPercent >= 1 && b.FailPercent <= 100, "failures %d%% are not 1..100", b.FailPercent)
	require(b.SlowAfter > 0 && b.SlowAfter <= maxTimeout, "slow after %s is not above 0 and up to %s", b.SlowAfter, maxTimeout)
	require(b.SlowPercent >= 0 && b.SlowPercent <= 100, "slow answers %d%% are not 0..100", b.SlowPercent)
	require(b.OpenFor > 0 && b.OpenFor <= maxWait, "open for %s is not above 0 and up to %s", b.OpenFor, maxWait)
	require(b.OpenFirst >= 0 && b.OpenFirst <= maxWait, "first open for %s is not 0..%s", b.OpenFirst, maxWait)
	require(b.Probes >= 1 && b.Probes <= maxProbes, "probes %d are not 1..%d", b.Probes, maxProbes)
	require(b.ProbeWait > 0 && b.ProbeWait <= maxWait, "probe wait %s is not above 0 and up to %s", b.ProbeWait, maxWait)
}

// faults collects what is wrong.
type faults []error

func (f *faults) require(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// wait is the pause before attempt n (the first repeat is 2), without jitter.
func (s *Settings) wait(n int) time.Duration {
	return s.Waits[min(max(n-2, 0), len(s.Waits)-1)]
}
