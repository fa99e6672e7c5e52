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
	QueueWait     time.Duration    // longest wait for a place among them
	Timeout       time.Duration    // of one attempt, reading the answer included
	Attempts      int              // of an idempotent call, the first one included
	Waits         [3]time.Duration // before the second, third and fourth attempt; the last one repeats
	Jitter        float64          // share by which a wait varies, both ways
	MaxRetryAfter time.Duration    // a system that asks for a longer pause ends the attempts
	MaxBody       int64            // bytes of an answer
}

// Defaults are the settings for a system that bears this many calls at once.
func Defaults(concurrency int) Settings {
	return Settings{
		Concurrency:   concurrency,
		QueueWait:     5 * time.Second,
		Timeout:       2 * time.Second,
		Attempts:      3,
		Waits:         [3]time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second},
		Jitter:        0.25,
		MaxRetryAfter: 5 * time.Second,
		MaxBody:       8 << 20,
	}
}

// Bounds of the settings, whoever sets them.
const (
	maxConcurrency = 1000
	maxAttempts    = 10
	maxTimeout     = time.Minute
	maxWait        = 5 * time.Minute
	maxBodyBytes   = 256 << 20
)

// Validate reports every fault of the settings.
func (s Settings) Validate() error {
	var faults []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	require(s.Concurrency >= 1 && s.Concurrency <= maxConcurrency, "concurrency %d is not 1..%d", s.Concurrency, maxConcurrency)
	require(s.QueueWait >= 0 && s.QueueWait <= maxWait, "queue wait %s is not 0..%s", s.QueueWait, maxWait)
	require(s.Timeout > 0 && s.Timeout <= maxTimeout, "timeout %s is not above 0 and up to %s", s.Timeout, maxTimeout)
	require(s.Attempts >= 1 && s.Attempts <= maxAttempts, "attempts %d is not 1..%d", s.Attempts, maxAttempts)
	for i, wait := range s.Waits {
		require(wait > 0 && wait <= maxWait, "wait %d of %s is not above 0 and up to %s", i+1, wait, maxWait)
	}
	require(s.Jitter >= 0 && s.Jitter < 1, "jitter %v is not from 0 to below 1", s.Jitter)
	require(s.MaxRetryAfter >= 0 && s.MaxRetryAfter <= maxWait, "longest Retry-After %s is not 0..%s", s.MaxRetryAfter, maxWait)
	require(s.MaxBody > 0 && s.MaxBody <= maxBodyBytes, "body limit %d is not 1..%d bytes", s.MaxBody, maxBodyBytes)
	return errors.Join(faults...)
}

// wait is the pause before attempt n (the first repeat is 2), without jitter.
func (s *Settings) wait(n int) time.Duration {
	return s.Waits[min(max(n-2, 0), len(s.Waits)-1)]
}
