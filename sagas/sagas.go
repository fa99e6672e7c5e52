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
	"errors"
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
	var failed []error
	for _, deadline := range due {
		if err := d.tell(ctx, deadline); err != nil {
			failed = append(failed, fmt.Errorf("deadline %s: %w", deadline.ID(), err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// tell hands one deadline to its process manager. One that fails does not hold up those behind it; it is
// claimed again after its lease.
func (d Deadlines) tell(ctx context.Context, deadline eventstore.Deadline) error {
	command, known := d.Reached[deadline.Saga]
	if !known {
		return fmt.Errorf("there is no saga %q", deadline.Saga)
	}
	meta := deadline.Meta
	meta.Actor = deadline.Saga
	if _, err := d.Executor.Execute(ctx, eventstore.Request{Command: command(deadline), Meta: meta}); err != nil {
		return err
	}
	d.Logger.InfoContext(ctx, "deadline reached", "deadline", deadline.ID(), "correlationId", meta.CorrelationID)
	return nil
}
