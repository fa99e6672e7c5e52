package guard

import (
	"errors"
	"fmt"
	"time"

	"andes/tuning"
)

// System is the name of what is guarded.
func (g *Guard) System() string { return g.system }

// Tune implements tuning.Target.
func (g *Guard) Tune(patch tuning.Patch) error {
	settings, err := g.configured.With(patch)
	if err != nil {
		return fmt.Errorf("guard of %s: %w", g.system, err)
	}
	return g.Change(func(Settings) Settings { return settings })
}

// With gives the settings with what the patch says, if that makes sense as a whole.
func (s Settings) With(patch tuning.Patch) (Settings, error) {
	for _, field := range []struct {
		to   *int
		from *int
	}{
		{&s.Concurrency, patch.Concurrency},
		{&s.Rate, patch.Rate},
		{&s.Attempts, patch.Attempts},
		{&s.Breaker.Window, patch.Window},
		{&s.Breaker.MinCalls, patch.MinCalls},
		{&s.Breaker.FailPercent, patch.FailPercent},
		{&s.Breaker.SlowPercent, patch.SlowPercent},
		{&s.Breaker.Probes, patch.Probes},
	} {
		if field.from != nil {
			*field.to = *field.from
		}
	}
	var faults faults
	read := func(name, text string, to *time.Duration) {
		if text == "" {
			return
		}
		duration, err := time.ParseDuration(text)
		faults.require(err == nil, "%s %q is no duration, as 2s or 500ms", name, text)
		*to = duration
	}
	read("queue wait", patch.QueueWait, &s.QueueWait)
	read("timeout", patch.Timeout, &s.Timeout)
	read("longest Retry-After", patch.MaxRetryAfter, &s.MaxRetryAfter)
	read("slow after", patch.SlowAfter, &s.Breaker.SlowAfter)
	read("open for", patch.OpenFor, &s.Breaker.OpenFor)
	read("first open for", patch.OpenFirst, &s.Breaker.OpenFirst)
	read("probe wait", patch.ProbeWait, &s.Breaker.ProbeWait)
	faults.require(len(patch.Waits) <= len(s.Waits), "there are %d waits, more than %d", len(patch.Waits), len(s.Waits))
	for i := range s.Waits {
		if len(patch.Waits) > 0 { // fewer than there are: the last one repeats
			read("wait", patch.Waits[min(i, len(patch.Waits)-1)], &s.Waits[i])
		}
	}
	if len(faults) > 0 {
		return Settings{}, errors.Join(faults...)
	}
	if err := s.Validate(); err != nil {
		return Settings{}, err
	}
	return s, nil
}

// Longest is how long one call may take at the most, with all its attempts.
func (s Settings) Longest() time.Duration {
	longest := time.Duration(0)
	for n := 1; n <= s.Attempts; n++ {
		longest += s.QueueWait + s.Timeout
		if n > 1 {
			longest += max(time.Duration(float64(s.wait(n))*(1+s.Jitter)), s.MaxRetryAfter)
		}
	}
	return longest
}
