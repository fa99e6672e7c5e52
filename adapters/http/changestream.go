package httpapi

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"andes/changes"
)

// stream is one follower's server-sent events. It holds a cursor and the page that is being written, and
// nothing else: while a client reads slowly nothing piles up, and what changed meanwhile is one page.
type stream struct {
	call       *call
	follower   follower
	connection *http.ResponseController
	body       *page
	told       changes.Page // the last page
	id         int64        // position of the last id that was sent
	looked     time.Time    // when it was last looked for news, whatever came of it
}

// streamChanges opens a stream. A fault before the first page is a problem document, like any other.
func (c *call) streamChanges() error {
	f, err := c.followed("since", "kinds", "sku", "limit")
	if err != nil {
		return err
	}
	if text := c.request.Header.Get(resumeHeader); text != "" {
		if err := f.from(text, ""); err != nil {
			return err
		}
	}
	leave, err := c.api.followers.enter(c.principal.Partner, followsByStream)
	if err != nil {
		return err
	}
	defer leave()
	s := &stream{call: c, follower: f, connection: http.NewResponseController(c.inner), body: newPage()}
	defer s.body.keep()
	if s.told, err = c.tellChanges(s.body, f); err != nil {
		return err
	}
	c.api.followers.ended.WithLabelValues(s.run()).Inc()
	return nil
}

// run writes until there is a reason to end, and gives it.
func (s *stream) run() (why string) {
	bounds := s.call.api.Following
	_ = s.connection.SetReadDeadline(time.Time{}) // the client's leaving is heard of by reading
	header := s.call.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no")
	s.call.WriteHeader(http.StatusOK)
	if err := s.write(fmt.Appendf(nil, "retry: %d\n\n", s.retry().Milliseconds())); err != nil {
		return endOf(err)
	}
	age := time.NewTimer(bounds.MaxAge/2 + rand.N(bounds.MaxAge/2)) //nolint:gosec // only to part those that began together
	defer age.Stop()
	ends, expires := expiry(s.call.principal.Expires, s.call.api.Clock())
	defer ends.Stop()
	heartbeat := time.NewTicker(bounds.Heartbeat)
	defer heartbeat.Stop()
	for {
		if err := s.send(); err != nil {
			return endOf(err)
		}
		beat := false
		if !s.told.More {
			select {
			case <-s.call.api.Changes.News(s.told.Next.Position):
			case <-heartbeat.C:
				beat = true
			case <-age.C:
				return endedAge
			case <-expires:
				return endedToken
			case <-s.call.api.drained:
				return endedStop
			case <-s.call.request.Context().Done():
				return endedByClient
			}
		}
		if why := s.rest(bounds.Pace - time.Since(s.looked)); why != "" {
			return why
		}
		s.follower.since, s.looked = &s.told.Next, time.Now()
		var err error
		if s.told, err = s.call.tellChanges(s.body, s.follower); err != nil {
			s.call.fault = err
			return endedFault
		}
		if beat && s.told.Empty() {
			if err := s.beat(); err != nil {
				return endOf(err)
			}
		}
	}
}

// rest keeps the pace: what happens after a while of nothing is told at once, what happens then is the next page.
func (s *stream) rest(left time.Duration) (why string) {
	if left <= 0 {
		return ""
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ""
	case <-s.call.api.drained:
		return endedStop
	case <-s.call.request.Context().Done():
		return endedByClient
	}
}

// retry differs by stream, so that those that end together do not come back together.
func (s *stream) retry() time.Duration {
	retry := s.call.api.Following.Retry
	return retry/2 + rand.N(retry) //nolint:gosec // as above
}

// expiry tells when a token ends; one without an end never does.
func expiry(at, now time.Time) (*time.Timer, <-chan time.Time) {
	if at.IsZero() {
		timer := time.NewTimer(0)
		return timer, nil
	}
	timer := time.NewTimer(max(0, at.Sub(now)))
	return timer, timer.C
}

// send writes the page as an event, unless it is empty.
func (s *stream) send() error {
	if s.told.Empty() {
		return nil
	}
	event := "changes"
	if s.told.Resync != "" {
		event = "resync"
	}
	s.id = s.told.Next.Position
	text := fmt.Appendf(nil, "event: %s\nid: %s\ndata: ", event, s.told.Next.Encode())
	return s.write(append(append(text, s.body.b...), "\n\n"...))
}

// beat shows that the stream lives. An id without data moves the client's place on, so that one to which
// nothing happens for long need not begin anew.
func (s *stream) beat() error {
	if s.told.Next.Position == s.id {
		return s.write([]byte(":\n\n"))
	}
	s.id = s.told.Next.Position
	return s.write(fmt.Appendf(nil, ":\nid: %s\n\n", s.told.Next.Encode()))
}

func (s *stream) write(text []byte) error {
	if err := s.connection.SetWriteDeadline(time.Now().Add(s.call.api.Following.Stall)); err != nil {
		return err
	}
	if _, err := s.call.Write(text); err != nil {
		return err
	}
	return s.connection.Flush()
}

// endOf tells why a write failed.
func endOf(err error) string {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return endedSlow
	}
	return endedByClient
}
