// Package sagas holds the process managers: each reacts to events of several aggregates, decides what has
// to happen next, and remembers where it stands in a stream of its own.
//
// A reaction is one command: the process manager's own event, what it tells other aggregates to do,
// requests to legacy systems (which are events too) and deadlines are appended in one transaction. So a
// process that is killed between two steps has done a step completely or not at all. A redelivered event
// finds the process manager in a later phase, where the table has no row for it, and changes nothing.
package sagas

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"andes/eventstore"
)

// All lists every process manager's aggregate. A new saga is one file and one line here.
func All() []eventstore.Kind {
	return []eventstore.Kind{
		Fulfilment,
	}
}

// Deadlines tells process managers that a deadline was reached.
type Deadlines struct {
	Source   eventstore.Deadlines
	Executor eventstore.Executor
	Reached  map[string]func(eventstore.Deadline) eventstore.Command // by saga
	Now      func() time.Time
	Logger   *slog.Logger
	Poll     time.Duration // default 500 ms
}

// Bounds of the deadline loop.
const (
	defaultPoll    = 500 * time.Millisecond
	deadlineLease  = 30 * time.Second
	deadlinesAtOne = 200
)

// Run hands out deadlines until ctx ends. Any number of instances may run: each deadline is claimed by
// one of them, and by another if that one dies.
func (d Deadlines) Run(ctx context.Context) error {
	poll := d.Poll
	if poll <= 0 {
		poll = defaultPoll
	}
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		if err := d.once(ctx); err != nil && ctx.Err() == nil {
			d.Logger.Warn("deadlines", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (d Deadlines) once(ctx context.Context) error {
	due, err := d.Source.ClaimDue(ctx, d.Now().UTC(), deadlineLease, deadlinesAtOne)
	if err != nil {
		return err
	}
	for _, deadline := range due {
		command, known := d.Reached[deadline.Saga]
		if !known {
			d.Logger.Error("deadline of an unknown saga", "deadline", deadline.ID())
			continue
		}
		meta := deadline.Meta
		meta.Actor = deadline.Saga
		if _, err := d.Executor.Execute(ctx, eventstore.Request{Command: command(deadline), Meta: meta}); err != nil {
			return fmt.Errorf("deadline %s: %w", deadline.ID(), err)
		}
	}
	return nil
}
