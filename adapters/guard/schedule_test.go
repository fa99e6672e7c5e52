package guard_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"andes/adapters/guard"
)

func TestRetryAfterHasAFloorAndACap(t *testing.T) {
	date := func(after time.Duration) string { return time.Now().Add(after).UTC().Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		headers func() []string // names and values of the first answer
		took    time.Duration
		calls   int32
	}{
		"none":              {func() []string { return nil }, 200 * time.Millisecond, 2},
		"zero":              {func() []string { return []string{"Retry-After", "0"} }, 200 * time.Millisecond, 2},
		"negative":          {func() []string { return []string{"Retry-After", "-5"} }, 200 * time.Millisecond, 2},
		"negative and huge": {func() []string { return []string{"Retry-After", "-" + strings.Repeat("9", 400)} }, 200 * time.Millisecond, 2},
		"below the floor":   {func() []string { return []string{"Retry-After", "0.05"} }, 200 * time.Millisecond, 2},
		"whole":             {func() []string { return []string{"Retry-After", "3"} }, 3 * time.Second, 2},
		"fractional":        {func() []string { return []string{"Retry-After", "1.5"} }, 1500 * time.Millisecond, 2},
		"the cap itself":    {func() []string { return []string{"Retry-After", "5"} }, 5 * time.Second, 2},
		"above the cap":     {func() []string { return []string{"Retry-After", "6"} }, 0, 1},
		"huge":              {func() []string { return []string{"Retry-After", strings.Repeat("9", 30)} }, 0, 1},
		"beyond any number": {func() []string { return []string{"Retry-After", strings.Repeat("9", 400)} }, 0, 1},
		"no number":         {func() []string { return []string{"Retry-After", "soon"} }, 200 * time.Millisecond, 2},
		"not a number":      {func() []string { return []string{"Retry-After", "NaN"} }, 200 * time.Millisecond, 2},
		"empty":             {func() []string { return []string{"Retry-After", ""} }, 200 * time.Millisecond, 2},
		"a past date":       {func() []string { return []string{"Retry-After", date(-time.Hour)} }, 200 * time.Millisecond, 2},
		"a date to come":    {func() []string { return []string{"Retry-After", date(4 * time.Second)} }, 4 * time.Second, 2},
		"a far date":        {func() []string { return []string{"Retry-After", date(time.Hour)} }, 0, 1},
		"a date by a clock that is ahead": {func() []string {
			return []string{"Date", date(time.Hour), "Retry-After", date(time.Hour + 2*time.Second)}
		}, 2 * time.Second, 2},
		"a date by a clock that is behind": {func() []string {
			return []string{"Date", date(-time.Hour), "Retry-After", date(2*time.Second - time.Hour)}
		}, 2 * time.Second, 2},
		"twice in an answer: the longest":    {func() []string { return []string{"Retry-After", "1", "Retry-After", "3"} }, 3 * time.Second, 2},
		"twice in an answer, one unreadable": {func() []string { return []string{"Retry-After", "x", "Retry-After", "2"} }, 2 * time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				headers := c.headers()
				s := &system{answers: list(func(r *http.Request) (*http.Response, error) {
					response, err := says(429, "application/json", "{}")(r)
					for i := 0; i < len(headers); i += 2 {
						response.Header.Add(headers[i], headers[i+1])
					}
					return response, err
				}, ok(`{"a":1}`))}
				g, _ := guardOf(t, s, nil)
				begun := time.Now()
				_, err := g.Call(request(t, t.Context(), http.MethodGet), nil)
				if got := s.calls.Load(); got != c.calls || (err == nil) != (c.calls == 2) {
					t.Errorf("%d calls, want %d; error %v", got, c.calls, err)
				}
				if took := time.Since(begun); took != c.took {
					t.Errorf("took %s, want %s", took, c.took)
				}
			})
		})
	}
}

func TestEachAnswerAsksForItsOwnPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := func(pause string) func(*http.Request) (*http.Response, error) {
			return says(503, "application/json", "{}", "Retry-After", pause)
		}
		s := &system{answers: list(again("2"), again("3"), ok(`{}`))}
		g, _ := guardOf(t, s, nil)
		begun := time.Now()
		if _, err := g.Call(request(t, t.Context(), http.MethodGet), nil); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("took %s", took)
		}
		// The pause of an answer from before is not kept for an attempt that got none.
		s = &system{answers: list(again("4"), cutOff, ok(`{}`))}
		g, _ = guardOf(t, s, nil)
		begun = time.Now()
		if _, err := g.Call(request(t, t.Context(), http.MethodGet), nil); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != 5*time.Second { // 4 s, and the second wait's 1 s
			t.Errorf("took %s", took)
		}
	})
}

func TestWaitsVaryByTheJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[time.Duration]bool{}
		for range 100 {
			g, _ := guardOf(t, &system{answers: list(cutOff, ok(`{}`))}, func(s *guard.Settings) { s.Jitter = 0.25 })
			begun := time.Now()
			if _, err := g.Call(request(t, t.Context(), http.MethodGet), nil); err != nil {
				t.Error(err)
			}
			took := time.Since(begun)
			if took < 150*time.Millisecond || took > 250*time.Millisecond {
				t.Errorf("waited for %s", took)
			}
			seen[took] = true
		}
		if len(seen) < 50 {
			t.Errorf("%d different waits of 100", len(seen))
		}
	})
}

func TestThePauseOfACallThatIsGivenUpEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &system{answers: list(says(429, "application/json", "{}", "Retry-After", "4"))}
		g, _ := guardOf(t, s, nil)
		ctx, cancel := contextFor(t, time.Second)
		defer cancel()
		begun := time.Now()
		if _, err := g.Call(request(t, ctx, http.MethodGet), nil); err == nil || errors.Is(err, guard.ErrOpen) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("took %s", took)
		}
	})
}
