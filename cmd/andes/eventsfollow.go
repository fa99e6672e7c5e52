package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"andes/eventstore"
)

const (
	// followPatience is how long the database may be away before following it is given up.
	followPatience   = 10 * time.Minute
	followBackoffMin = 250 * time.Millisecond
	followBackoffMax = 5 * time.Second
)

// follow prints the wanted events that come, until a signal ends it. A lost connection is made anew.
func (r *eventReader) follow(ctx context.Context, query eventQuery, out *eventPrinter) error {
	stream := query.Stream
	if stream != (eventstore.Stream{}) { // by position: what comes is few, what was may be many
		query.Stream, query.Category = eventstore.Stream{}, stream.Category
	}
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		end, err := r.log.End(ctx)
		if err == nil {
			query.after, query.to = query.to, end
			step := walk{query: query}
			err = r.walk(ctx, &step, func(event shownEvent) (bool, error) {
				if stream != (eventstore.Stream{}) && event.Stream != stream {
					return false, nil
				}
				return true, out.print(event)
			})
			if err != nil {
				query.to = step.reached
			}
			if told := out.flush(); told != nil {
				return told
			}
		}
		if errors.Is(err, eventstore.ErrUnavailable) {
			err = r.reconnect(ctx, query.to, err)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// reconnect opens the log anew, with growing pauses.
func (r *eventReader) reconnect(ctx context.Context, reached int64, why error) error {
	fmt.Fprintf(os.Stderr, "the log can't be followed after position %d, connecting again: %v\n", reached, why)
	r.log.Close()
	pause := followBackoffMin
	for began := time.Now(); ; pause = min(2*pause, followBackoffMax) {
		log, err := r.reopen(ctx)
		if err == nil {
			r.log = log
			fmt.Fprintf(os.Stderr, "connected again; it goes on after position %d\n", reached)
			return nil
		}
		if time.Since(began) > followPatience {
			return fmt.Errorf("the log can't be followed after position %d: %w", reached, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
