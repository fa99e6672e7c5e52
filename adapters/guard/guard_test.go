package guard_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"andes/adapters/guard"
	"andes/eventstore"
)

// system answers calls in order; the last answer repeats.
type system struct {
	calls   atomic.Int32
	answers []func(r *http.Request) (*http.Response, error)
}

func (s *system) RoundTrip(r *http.Request) (*http.Response, error) {
	n := int(s.calls.Add(1))
	if r.Body != nil {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
	}
	return s.answers[min(n, len(s.answers))-1](r)
}

func says(status int, contentType, body string, headers ...string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		header := http.Header{"Content-Type": {contentType}}
		for i := 0; i+1 < len(headers); i += 2 {
			header.Set(headers[i], headers[i+1])
		}
		return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

func ok(body string) func(*http.Request) (*http.Response, error) {
	return says(200, "application/json", body)
}

func cutOff(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }

func silent(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func slow(wait time.Duration) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(wait):
			return ok(`{"a":1}`)(r)
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

func guardOf(t *testing.T, s *system, change func(*guard.Settings)) (*guard.Guard, *[]guard.Outcome) {
	t.Helper()
	settings := guard.Defaults(10)
	settings.Jitter = 0
	if change != nil {
		change(&settings)
	}
	var mu sync.Mutex
	var seen []guard.Outcome
	g, err := guard.New(guard.Config{System: "erp", Settings: settings, Transport: s, Watch: func(o guard.Observation) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, o.Outcome)
	}})
	if err != nil {
		t.Fatal(err)
	}
	return g, &seen
}

func request(t *testing.T, ctx context.Context, method string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://legacy/x", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func TestAttempts(t *testing.T) {
	unavailable := says(503, "text/html", "<h1>busy</h1>")
	cases := map[string]struct {
		method  string
		headers []string
		answers []func(*http.Request) (*http.Response, error)
		calls   int32
		took    time.Duration
		status  int
		fault   guard.Outcome // "": none
	}{
		"an answer is an answer":                  {"GET", nil, list(ok(`{"a":1}`)), 1, 0, 200, ""},
		"a refusal is an answer":                  {"GET", nil, list(says(409, "text/plain", "no")), 1, 0, 409, ""},
		"a failing GET is repeated":               {"GET", nil, list(unavailable, cutOff, ok(`{"a":1}`)), 3, 1200 * time.Millisecond, 200, ""},
		"a GET is not repeated for ever":          {"GET", nil, list(cutOff), 3, 1200 * time.Millisecond, 0, guard.Failure},
		"the last status is told":                 {"GET", nil, list(unavailable), 3, 1200 * time.Millisecond, 503, guard.Failure},
		"a POST is sent once":                     {"POST", nil, list(cutOff), 1, 0, 0, guard.Failure},
		"a POST with a key is repeated":           {"POST", []string{"Idempotency-Key", "k"}, list(cutOff, ok(`{"a":1}`)), 2, 200 * time.Millisecond, 200, ""},
		"silence ends after the timeout":          {"POST", nil, list(silent), 1, 2 * time.Second, 0, guard.Timeout},
		"a login page is no answer":               {"POST", nil, list(says(200, "text/html", "<form>")), 1, 0, 200, guard.Failure},
		"truncated JSON is no answer":             {"POST", nil, list(ok(`{"a":`)), 1, 0, 200, guard.Failure},
		"JSON with something after it is none":    {"POST", nil, list(ok(`{"a":1} {}`)), 1, 0, 200, guard.Failure},
		"JSON of another shape is none":           {"POST", nil, list(ok(`{"a":"x"}`)), 1, 0, 200, guard.Failure},
		"an empty answer is none":                 {"POST", nil, list(ok(``)), 1, 0, 200, guard.Failure},
		"a proxy's 404 is not the system's":       {"GET", nil, list(says(404, "text/html", "nginx")), 3, 1200 * time.Millisecond, 404, guard.Failure},
		"the system's 404 is":                     {"GET", nil, list(says(404, "application/json", `{"error":"no such order"}`)), 1, 0, 404, ""},
		"a redirect is not followed":              {"GET", nil, list(says(307, "text/html", "", "Location", "http://elsewhere/")), 1, 0, 307, ""},
		"an endless body is cut":                  {"POST", nil, list(ok(strings.Repeat(" ", 1000) + "1")), 1, 0, 200, guard.Failure},
		"Retry-After is waited for":               {"GET", nil, list(says(429, "application/json", "{}", "Retry-After", "3"), ok(`{"a":1}`)), 2, 3 * time.Second, 200, ""},
		"Retry-After 0 does not shorten the wait": {"GET", nil, list(says(429, "application/json", "{}", "Retry-After", "0"), ok(`{"a":1}`)), 2, 200 * time.Millisecond, 200, ""},
		"a long Retry-After ends the attempts":    {"GET", nil, list(says(429, "application/json", "{}", "Retry-After", "120")), 1, 0, 429, guard.Throttled},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &system{answers: c.answers}
				g, _ := guardOf(t, s, func(s *guard.Settings) { s.MaxBody = 500 })
				var answer struct{ A int }
				begun := time.Now()
				status, err := g.Call(request(t, t.Context(), c.method, c.headers...), &answer)
				if took := time.Since(begun); took != c.took {
					t.Errorf("took %s, want %s", took, c.took)
				}
				if got := s.calls.Load(); got != c.calls {
					t.Errorf("%d calls, want %d", got, c.calls)
				}
				if status != c.status {
					t.Errorf("status %d, want %d", status, c.status)
				}
				fault, _ := errors.AsType[*guard.Fault](err)
				switch {
				case c.fault == "" && err != nil:
					t.Errorf("unexpected fault: %v", err)
				case c.fault != "" && (fault == nil || fault.Outcome != c.fault):
					t.Errorf("fault %v, want outcome %s", err, c.fault)
				case c.fault != "" && eventstore.Classify(err) != eventstore.Transient:
					t.Errorf("fault %v is %s, want transient", err, eventstore.Classify(err))
				case c.fault == "" && status == 200 && answer.A != 1:
					t.Errorf("answer %+v was not decoded", answer)
				}
			})
		})
	}
}

func list(answers ...func(*http.Request) (*http.Response, error)) []func(*http.Request) (*http.Response, error) {
	return answers
}

func TestBulkhead(t *testing.T) {
	t.Run("callers wait for a place, in order and not for ever", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &system{answers: list(slow(700 * time.Millisecond))}
			g, seen := guardOf(t, s, func(s *guard.Settings) { s.Concurrency, s.QueueWait = 2, time.Second })
			var done sync.WaitGroup
			var busy atomic.Int32
			for range 6 {
				done.Go(func() {
					if _, err := g.Call(request(t, t.Context(), "GET"), nil); errors.Is(err, guard.ErrBusy) {
						busy.Add(1)
					} else if err != nil {
						t.Error(err)
					}
				})
			}
			done.Wait()
			// Two at once, 0.7 s each: two more get in after 0.7 s, the last two would after 1.4 s.
			if busy.Load() != 2 || s.calls.Load() != 4 {
				t.Errorf("%d were turned away, %d calls were made; outcomes %v", busy.Load(), s.calls.Load(), *seen)
			}
		})
	})
	t.Run("a raised limit counts at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &system{answers: list(slow(time.Second))}
			g, _ := guardOf(t, s, func(s *guard.Settings) { s.Concurrency = 1 })
			raise := func(s guard.Settings) guard.Settings { s.Concurrency = 3; return s }
			if err := g.Change(raise); err != nil {
				t.Fatal(err)
			}
			var done sync.WaitGroup
			begun := time.Now()
			for range 3 {
				done.Go(func() {
					if _, err := g.Call(request(t, t.Context(), "GET"), nil); err != nil {
						t.Error(err)
					}
				})
			}
			done.Wait()
			if took := time.Since(begun); took != time.Second {
				t.Errorf("took %s", took)
			}
		})
	})
}

func TestAFaultTellsWhetherTheRequestMayHaveArrived(t *testing.T) {
	refused := func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	cases := map[string]struct {
		answer  func(*http.Request) (*http.Response, error)
		arrived bool
	}{
		"no connection":    {refused, false},
		"a cut connection": {cutOff, true},
		"silence":          {silent, true},
		"a failure":        {says(500, "application/json", "{}"), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, _ := guardOf(t, &system{answers: list(c.answer)}, nil)
				_, err := g.Call(request(t, t.Context(), "POST"), nil)
				if fault, is := errors.AsType[*guard.Fault](err); !is || fault.MayHaveArrived() != c.arrived {
					t.Errorf("error %v, want arrived %v", err, c.arrived)
				}
			})
		})
	}
}

func TestOwnCancellationIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, seen := guardOf(t, &system{answers: list(silent)}, nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("stopping")) })
		_, err := g.Call(request(t, ctx, "GET"), nil)
		if eventstore.Classify(err) != eventstore.Shutdown {
			t.Errorf("%v is %s", err, eventstore.Classify(err))
		}
		if len(*seen) != 1 || (*seen)[0] != guard.Ignored {
			t.Errorf("outcomes %v, want ignored", *seen)
		}
	})
}

func TestNoWaitBeyondTheCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &system{answers: list(cutOff)}
		g, _ := guardOf(t, s, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		begun := time.Now()
		_, err := g.Call(request(t, ctx, "GET"), nil)
		if fault, is := errors.AsType[*guard.Fault](err); !is || fault.Outcome != guard.Failure {
			t.Errorf("error %v, want the system's fault", err)
		}
		if took := time.Since(begun); took != 200*time.Millisecond || s.calls.Load() != 2 {
			t.Errorf("%d calls took %s", s.calls.Load(), took)
		}
	})
}

func TestSettingsAreChecked(t *testing.T) {
	s := guard.Defaults(10)
	s.Concurrency, s.Timeout, s.Attempts, s.Jitter, s.MaxBody = 0, -1, 0, 1, 0
	err := s.Validate()
	if err == nil || strings.Count(err.Error(), "\n") != 4 {
		t.Errorf("want five faults, got: %v", err)
	}
	if err := guard.Defaults(10).Validate(); err != nil {
		t.Error(err)
	}
}
