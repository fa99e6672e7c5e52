package sagas_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"andes/eventstore"
	"andes/sagas"
	"andes/test/memtest"
)

// named is a command that is known by its name only.
type named string

func (c named) Needs() []eventstore.Stream           { return nil }
func (c named) Decide(*eventstore.Unit) (any, error) { return nil, nil }

// told is an executor that notes what it is told, and fails at some of it.
type told struct {
	names   []string
	fails   map[string]error
	actor   string
	stopsAt string // told this, it ends the work
	stop    context.CancelFunc
}

func (e *told) Execute(_ context.Context, request eventstore.Request) (eventstore.Outcome, error) {
	name := string(request.Command.(named))
	e.names, e.actor = append(e.names, name), request.Meta.Actor
	if name == e.stopsAt {
		e.stop()
	}
	return eventstore.Outcome{}, e.fails[name]
}

// source hands out the same deadlines at each poll; the first polls fail.
type source struct {
	due   []string
	saga  string
	polls int
	fails int
}

func (s *source) ClaimDue(context.Context, time.Time, time.Duration, int) ([]eventstore.Deadline, error) {
	s.polls++
	if s.polls <= s.fails {
		return nil, eventstore.ErrUnavailable
	}
	var due []eventstore.Deadline
	for _, name := range s.due {
		due = append(due, eventstore.Deadline{Saga: s.saga, Key: "k", Name: name})
	}
	return due, nil
}

// poll runs the loop for so many polls.
func poll(t *testing.T, from *source, to *told, polls int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		to.stop = stop
		loop := sagas.Deadlines{
			Source: from, Executor: to, Poll: time.Second, Logger: slog.New(slog.DiscardHandler),
			Now: func() time.Time { return memtest.Start },
			Reached: map[string]func(eventstore.Deadline) eventstore.Command{
				"known": func(d eventstore.Deadline) eventstore.Command { return named(d.Name) },
			},
		}
		ended := make(chan error, 1)
		go func() { ended <- loop.Run(ctx) }()
		time.Sleep(time.Duration(polls-1) * time.Second)
		synctest.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestADeadlineThatFailsHoldsUpNoOther(t *testing.T) {
	executor := &told{fails: map[string]error{"first": errors.New("always fails"), "third": eventstore.ErrVersion}}
	poll(t, &source{saga: "known", due: []string{"first", "second", "third", "fourth"}}, executor, 1)
	if !slices.Equal(executor.names, []string{"first", "second", "third", "fourth"}) || executor.actor != "known" {
		t.Errorf("told %v as %q", executor.names, executor.actor)
	}
}

func TestDeadlinesOfAnUnknownSagaAreLeftAlone(t *testing.T) {
	executor := &told{}
	poll(t, &source{saga: "unheard of", due: []string{"first"}}, executor, 2)
	if len(executor.names) != 0 {
		t.Errorf("told %v", executor.names)
	}
}

func TestAStoreThatWasAwayIsAskedAgain(t *testing.T) {
	executor, from := &told{}, &source{saga: "known", due: []string{"first"}, fails: 2}
	poll(t, from, executor, 3)
	if from.polls != 3 || len(executor.names) != 1 {
		t.Errorf("%d polls, told %v", from.polls, executor.names)
	}
}

func TestTheLoopStopsBetweenTwoDeadlines(t *testing.T) {
	executor := &told{stopsAt: "first"}
	poll(t, &source{saga: "known", due: []string{"first", "second"}}, executor, 1)
	if !slices.Equal(executor.names, []string{"first"}) {
		t.Errorf("told %v", executor.names)
	}
}
