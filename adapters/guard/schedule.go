package guard

import (
	"context"
	"errors"
	"math"
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

// asked reads the header Retry-After, in seconds or as a date, and takes the longest pause if it is there
// more than once; 0: not given, past, or unreadable. A date is compared with the system's own clock where
// the answer tells it. The schedule gives the pause a floor, its own wait, and a cap.
func asked(header http.Header, now time.Time) (longest time.Duration) {
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		now = date
	}
	for _, text := range header.Values("Retry-After") {
		if at, err := http.ParseTime(text); err == nil {
			longest = max(longest, at.Sub(now))
			continue
		}
		// What is out of range comes as infinity, and means it.
		seconds, err := strconv.ParseFloat(text, 64)
		if (err == nil || errors.Is(err, strconv.ErrRange)) && !math.IsNaN(seconds) {
			longest = max(longest, time.Duration(max(0, min(seconds, farAway.Seconds()))*float64(time.Second)))
		}
	}
	return longest
}

// farAway is a pause beyond any cap.
const farAway = 10 * 365 * 24 * time.Hour
