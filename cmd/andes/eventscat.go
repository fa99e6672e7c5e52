package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"andes/adapters/postgres"
	"andes/eventstore"
)

// eventsCatCmd prints a part of the log.
type eventsCatCmd struct {
	eventSpan
	eventFilter
	Stream string `help:"Only events of this stream, as in stock/10002." placeholder:"CATEGORY/KEY"`
	Limit  limit  `help:"Stop after so many events; 0: no limit."`
	Wide   bool   `help:"Do not cut payloads in the table."`
	output
}

// Run implements the command.
func (c eventsCatCmd) Run(ctx context.Context, s *settings, _ *slog.Logger) error {
	reader, err := openEvents(ctx, s)
	if err != nil {
		return err
	}
	defer reader.close()
	query, err := reader.query(ctx, c.eventFilter, c.eventSpan, c.Stream)
	if err != nil {
		return err
	}
	out := newEventPrinter(os.Stdout, c.Output == "json", c.Wide)
	walked := walk{query: query, limit: c.Limit}
	err = reader.walk(ctx, &walked, func(event shownEvent) (bool, error) { return true, out.print(event) })
	return errors.Join(err, out.flush())
}

// walk is the way through the events that are wanted.
type walk struct {
	query    eventQuery
	limit    limit         // of the events that count
	progress *scanProgress // nil: is not told

	reached int64 // position
	seen    int64 // events that were wanted
	counted int64 // events that counted
}

// shownEvent is an event as it may be shown.
type shownEvent struct {
	eventstore.Record
	redacted []string // JSON pointers
}

// walk gives every wanted event, masked, to visit, which tells whether it counts against the limit.
func (r *eventReader) walk(ctx context.Context, w *walk, visit func(shownEvent) (bool, error)) error {
	w.reached = w.query.after
	for page, err := range r.log.Walk(ctx, w.query.LogFilter, w.query.after, w.query.to) {
		if err != nil {
			return w.broken(ctx, err)
		}
		for _, record := range page.Records {
			w.seen++
			masked, redacted := r.registry.Mask(record)
			counts, err := visit(shownEvent{masked, redacted})
			if err != nil {
				return err
			}
			w.reached = record.Position
			if counts {
				w.counted++
			}
			if counts && w.limit.reached(int(w.counted)) {
				return nil
			}
		}
		w.reached = page.Reached
		w.progress.at(page.Reached)
	}
	if w.query.Stream != (eventstore.Stream{}) && w.reached == w.query.after && w.seen == 0 {
		return r.missing(ctx, w.query.Stream)
	}
	return nil
}

// broken says where to go on.
func (w *walk) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted; go on with --from %d", w.reached+1)
	}
	return fmt.Errorf("the log can't be read after position %d: %w", w.reached, err)
}

// missing tells a stream that does not exist from one without events in the part that is looked at.
func (r *eventReader) missing(ctx context.Context, stream eventstore.Stream) error {
	end, err := r.log.End(ctx)
	if err != nil {
		return err
	}
	for _, err := range r.log.Walk(ctx, postgres.LogFilter{Stream: stream}, 0, end) {
		return err
	}
	return noStream(stream)
}

func noStream(stream eventstore.Stream) error { return fmt.Errorf("there is no stream %s", stream) }

// eventsTailCmd follows the log.
type eventsTailCmd struct {
	eventFilter
	Stream string `help:"Only events of this stream." placeholder:"CATEGORY/KEY"`
	Lines  int    `short:"n" default:"10" help:"Start with so many of the last events; 0: none."`
	Wide   bool   `help:"Do not cut payloads in the table."`
	output
}

const (
	// lookBack bounds how far back the first lines are looked for, in events.
	lookBack = 10_000
	// followEvery is how late an event may be shown.
	followEvery = 250 * time.Millisecond
)

// Run implements the command. It ends by a signal.
func (c eventsTailCmd) Run(ctx context.Context, s *settings, _ *slog.Logger) error {
	if c.Lines < 0 || c.Lines > lookBack {
		return fmt.Errorf("--lines has to be in 0..%d", lookBack)
	}
	reader, err := openEvents(ctx, s)
	if err != nil {
		return err
	}
	defer reader.close()
	query, err := reader.query(ctx, c.eventFilter, eventSpan{}, c.Stream)
	if err != nil {
		return err
	}
	out := newEventPrinter(os.Stdout, c.Output == "json", c.Wide)
	if err := reader.lastLines(ctx, query, c.Lines, out); err != nil {
		return err
	}
	return reader.follow(ctx, query, out)
}

// lastLines prints the last of the wanted events, as far as they are not too far back.
func (r *eventReader) lastLines(ctx context.Context, query eventQuery, lines int, out *eventPrinter) error {
	var err error
	if query.Stream == (eventstore.Stream{}) {
		if query.after, err = r.log.Behind(ctx, lookBack); err != nil {
			return err
		}
	}
	last := lastEvents{most: lines}
	err = r.walk(ctx, &walk{query: query}, func(event shownEvent) (bool, error) {
		last.add(event)
		return false, nil
	})
	for _, event := range last.list() {
		err = errors.Join(err, out.print(event))
	}
	return errors.Join(err, out.flush())
}

// lastEvents keeps the last of many events.
type lastEvents struct {
	most   int
	events []shownEvent
}

func (l *lastEvents) add(event shownEvent) {
	l.events = append(l.events, event)
	if len(l.events) >= 2*l.most+1 {
		l.events = append(l.events[:0], l.list()...)
	}
}

func (l *lastEvents) list() []shownEvent { return l.events[max(0, len(l.events)-l.most):] }
