package guard

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// schedule is the backoff.BackOff of one call: the settings' waits with jitter, or longer when the system
// asks for it. It stops early when the caller's deadline would end the wait anyway.
type schedule struct {
	settings   *Settings
	ctx        context.Context
	attempts   int
	done       int
	retryAfter time.Duration // as the last answer asked
}

// Reset implements backoff.BackOff.
func (s *schedule) Reset() { s.done = 0 }

// NextBackOff implements backoff.BackOff.
func (s *schedule) NextBackOff() time.Duration {
	s.done++
	if s.done >= s.attempts || s.retryAfter > s.settings.MaxRetryAfter {
		return backoff.Stop
	}
	wait := max(spread(s.settings.wait(s.done+1), s.settings.Jitter), s.retryAfter)
	if deadline, limited := s.ctx.Deadline(); limited && time.Until(deadline) <= wait {
		return backoff.Stop
	}
	return wait
}

// spread varies a wait by up to the share jitter, so that callers who failed together don't return together.
func spread(wait time.Duration, jitter float64) time.Duration {
	return time.Duration(float64(wait) * (1 + jitter*(2*rand.Float64()-1)))
}

// retryAfter reads the header in seconds or as a date; 0: not given, or past.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
