package load_test

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"andes/test/lab/labtest"
	"andes/test/load"
)

// server answers in a millisecond, but for one stall.
type server struct {
	began      time.Time
	from, to   time.Duration // of the stall
	calls      atomic.Int64
	status     func(n int64) int
	mostAtOnce atomic.Int64
	underWay   atomic.Int64
}

const answerTime = time.Millisecond

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := s.calls.Add(1)
	s.mostAtOnce.Store(max(s.mostAtOnce.Load(), s.underWay.Add(1)))
	defer s.underWay.Add(-1)
	wait := answerTime
	if now := time.Since(s.began); now >= s.from && now < s.to {
		wait = s.to - now
	}
	select {
	case <-time.After(wait):
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	}
	if s.status != nil {
		w.WriteHeader(s.status(n))
	}
}

// right takes any answer for right.
func right(int, []byte) load.Verdict { return load.Verdict{Outcome: load.Right} }

func stream(rate int, workers uint64) load.Stream {
	return load.Stream{
		Name: "s", Rate: rate, Workers: workers, Judge: right,
		Next: func(uint64) load.Target {
			return load.Target{Method: http.MethodGet, URL: "http://example.org/"}
		},
	}
}

// measured runs a stream against a server without a network, in a bubble where waits take no time.
func measured(ctx context.Context, s *server, patience, duration time.Duration, streams ...load.Stream) *load.Recording {
	s.began = time.Now()
	recording := load.NewRecording(s.began)
	load.Run(ctx, &http.Client{Timeout: patience, Transport: labtest.Transport{Handler: s}}, recording, nil, duration, streams...)
	return recording
}

const all = time.Hour

func TestAStallIsFeltByAllWhoWereDueInIt(t *testing.T) {
	for name, workers := range map[string]uint64{"with workers for all": 0, "with one worker, as a closed loop": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// 300 reads, of which those of a third of the time are due in the stall.
				s := &server{from: time.Second, to: 2 * time.Second}
				shots := measured(t.Context(), s, 5*time.Second, 3*time.Second, stream(100, workers)).Shots("s", 0, all)
				sum := load.Summarise(shots)
				if sum.Sent != 300 || sum.P99 < 900*time.Millisecond || sum.P50 > 10*time.Millisecond {
					t.Errorf("%+v", sum)
				}
				waited := 0
				for _, shot := range shots {
					if shot.Took > 10*answerTime {
						waited++
					}
				}
				if waited < 95 {
					t.Errorf("%d waited", waited)
				}
				// What is measured from the moment of sending does not show it, where nobody sent.
				var naive []time.Duration
				for _, shot := range shots {
					naive = append(naive, shot.Took-shot.Late)
				}
				slices.Sort(naive)
				if hidden := load.Quantile(naive, 0.99) < 10*time.Millisecond; hidden != (workers == 1) {
					t.Errorf("p99 from sending %s", load.Quantile(naive, 0.99))
				}
			})
		})
	}
}

func TestReadsAreSentWhenTheyAreDueWhateverBecomesOfThoseBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{from: 0, to: time.Second}
		shots := measured(t.Context(), s, 5*time.Second, time.Second, stream(100, 0)).Shots("s", 0, all)
		if s.mostAtOnce.Load() != 100 {
			t.Errorf("%d at once", s.mostAtOnce.Load())
		}
		for i, shot := range shots {
			if due := time.Duration(i) * 10 * time.Millisecond; shot.Due != due || shot.Late != 0 {
				t.Errorf("read %d was due at %s and late by %s", i, shot.Due, shot.Late)
			}
		}
	})
}

func TestStreamsOfOneRateTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := stream(10, 0), stream(10, 0)
		first.Name, second.Name = "first", "second"
		recording := measured(t.Context(), &server{}, time.Second, time.Second, first, second)
		a, b := recording.Shots("first", 0, all), recording.Shots("second", 0, all)
		if len(a) != 10 || len(b) != 10 || b[3].Due-a[3].Due != 50*time.Millisecond {
			t.Errorf("%d, %d reads, %v", len(a), len(b), b)
		}
	})
}

func TestWhatBecomesOfReads(t *testing.T) {
	for name, c := range map[string]struct {
		s       *server
		judge   func(int, []byte) load.Verdict
		want    load.Outcome
		isError bool
	}{
		"the right answer":           {&server{}, right, load.Right, false},
		"refused":                    {&server{status: func(int64) int { return http.StatusTooManyRequests }}, right, load.Refused, false},
		"an error":                   {&server{status: func(int64) int { return http.StatusInternalServerError }}, right, load.Failed, true},
		"another success than asked": {&server{status: func(int64) int { return http.StatusNoContent }}, right, load.Failed, true},
		"no answer in time":          {&server{to: time.Minute}, right, load.TimedOut, true},
		"the wrong answer":           {&server{}, func(int, []byte) load.Verdict { return load.Verdict{Outcome: load.Wrong} }, load.Wrong, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reads := stream(20, 0)
				reads.Judge = c.judge
				sum := load.Summarise(measured(t.Context(), c.s, time.Second, time.Second, reads).Shots("", 0, all))
				if sum.Sent != 20 || sum.Outcomes[c.want] != 20 || sum.Errors() > 0 != c.isError {
					t.Errorf("%+v", sum)
				}
				if c.want == load.TimedOut && sum.P50 != time.Second {
					t.Errorf("given up after %s", sum.P50)
				}
			})
		})
	}
}

func TestAnInterruptedRunKeepsWhatWasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		time.AfterFunc(time.Second, interrupt)
		s := &server{from: 500 * time.Millisecond, to: time.Minute}
		begun := time.Now()
		sum := load.Summarise(measured(ctx, s, 3*time.Second, time.Hour, stream(100, 0)).Shots("", 0, all))
		if sum.Sent != 50 || sum.Errors() > 0 {
			t.Errorf("%+v", sum)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("it ended after %s", took)
		}
	})
}
