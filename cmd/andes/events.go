package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"andes/adapters/postgres"
	"andes/catalogue"
	"andes/eventstore"
)

// eventsCmd looks into the event log, and can have it published again. It changes no event, and shows no
// personal data and no payment token: the events' declarations say what is sensitive.
type eventsCmd struct {
	Cat   eventsCatCmd   `cmd:"" help:"Print events in the order of the log."`
	Tail  eventsTailCmd  `cmd:"" help:"Print the last events, and those that come."`
	Grep  eventsGrepCmd  `cmd:"" help:"Find events by a regular expression in their stream, payload or metadata."`
	Stats eventsStatsCmd `cmd:"" help:"Count events by type and time, and name the largest streams."`
	Show  eventsShowCmd  `cmd:"" help:"Print one stream and the state that its events fold to, now or at an earlier moment."`

	Republish eventsRepublishCmd `cmd:"" help:"Publish a part of the log to Kafka again, as after the loss of a topic. Consumers recognise what they have seen."`
	Restored  eventsRestoredCmd  `cmd:"" help:"Have the relay go on after PostgreSQL was restored to an earlier time. Stop every process first."`
}

// eventFilter says which events are wanted.
type eventFilter struct {
	Category    string   `help:"Only events of this category, as in order." placeholder:"NAME"`
	Type        []string `help:"Only events of these types, as in order.placed." placeholder:"TYPE,…"`
	Without     []string `help:"No events of these types, as in source.synced." placeholder:"TYPE,…"`
	Correlation string   `help:"Only events of this conversation (X-Correlation-Id)." placeholder:"ID"`
}

// eventSpan says which part of the log is looked at.
type eventSpan struct {
	From string `help:"Start at this position, time (2026-11-30, 2026-11-30T18:00, RFC 3339; UTC) or age (15m, 36h, 7d)." placeholder:"MOMENT"`
	To   string `help:"End at this position, time or age, included." placeholder:"MOMENT"`
}

// eventReader is what the commands look with.
type eventReader struct {
	log      *postgres.Log
	reopen   func(context.Context) (*postgres.Log, error)
	registry *eventstore.Registry
	now      time.Time
}

func openEvents(ctx context.Context, s *settings) (*eventReader, error) {
	if err := s.required("postgres_url"); err != nil {
		return nil, err
	}
	registry, err := catalogue.Registry()
	if err != nil {
		return nil, err
	}
	log, err := postgres.OpenLog(ctx, s.postgres())
	if err != nil {
		return nil, err
	}
	reopen := func(ctx context.Context) (*postgres.Log, error) { return postgres.OpenLog(ctx, s.postgres()) }
	return &eventReader{log: log, reopen: reopen, registry: registry, now: time.Now()}, nil
}

func (r *eventReader) close() { r.log.Close() }

// eventQuery is a checked question to the log.
type eventQuery struct {
	postgres.LogFilter
	after, to int64 // positions in (after, to]
}

// query checks what was asked for. stream may be empty.
func (r *eventReader) query(ctx context.Context, f eventFilter, span eventSpan, stream string) (eventQuery, error) {
	q := eventQuery{LogFilter: postgres.LogFilter{Category: f.Category, Types: f.Type, Without: f.Without, Correlation: f.Correlation}}
	var faults []error
	if f.Category != "" && !slices.Contains(r.registry.Categories(), f.Category) {
		faults = append(faults, fmt.Errorf("there is no category %q; there are: %s", f.Category, strings.Join(r.registry.Categories(), ", ")))
	}
	for _, name := range slices.Concat(f.Type, f.Without) {
		if _, known := r.registry.Declaration(name); !known {
			faults = append(faults, fmt.Errorf("there is no event type %q; %s", name, r.typesLike(name)))
		}
	}
	if stream != "" {
		var err error
		if q.Stream, err = r.stream(stream); err != nil {
			faults = append(faults, err)
		}
	}
	from, err := parseMoment("--from", span.From, r.now)
	faults = append(faults, err)
	to, err := parseMoment("--to", span.To, r.now)
	faults = append(faults, err)
	if err := errors.Join(faults...); err != nil {
		return q, err
	}
	q.Since, q.Until = from.at, to.at
	if q.after, q.to, err = r.log.Between(ctx, from.at, to.at); err != nil {
		return q, err
	}
	return q, q.narrow(from, to)
}

// narrow takes the positions that were given; they have to be in the log.
func (q *eventQuery) narrow(from, to moment) error {
	end := q.to
	for _, given := range []moment{from, to} {
		if given.position > end && q.Until.IsZero() {
			return fmt.Errorf("position %d is beyond the end of the log, which is at %d", given.position, end)
		}
	}
	if from.position > 0 {
		q.after = max(q.after, from.position-1)
	}
	if to.position > 0 {
		q.to = min(q.to, to.position)
	}
	if from.position > 0 && to.position > 0 && from.position > to.position ||
		!q.Since.IsZero() && !q.Until.IsZero() && q.Since.After(q.Until) {
		return errors.New("--from is behind --to")
	}
	return nil
}

func (r *eventReader) stream(name string) (eventstore.Stream, error) {
	stream, err := eventstore.ParseStream(name)
	if err != nil {
		return stream, fmt.Errorf("%q is no stream: it has to be category/key, as in order/01a22b5e-a490-70f0-bb4e-95bb3d4f6f6e", name)
	}
	if !slices.Contains(r.registry.Categories(), stream.Category) {
		return stream, fmt.Errorf("stream %s: there is no category %q; there are: %s", name, stream.Category, strings.Join(r.registry.Categories(), ", "))
	}
	return stream, nil
}

// typesLike lists the types that could have been meant.
func (r *eventReader) typesLike(name string) string {
	category, _, _ := strings.Cut(name, ".")
	var types []string
	for _, declaration := range r.registry.Declarations(category) {
		types = append(types, declaration.Name)
	}
	if len(types) == 0 {
		return "a type starts with its category: " + strings.Join(r.registry.Categories(), ", ")
	}
	return "those of " + category + ": " + strings.Join(types, ", ")
}

// moment is a place in the log: a position or a time; the zero value is none.
type moment struct {
	position int64
	at       time.Time
}

// parseMoment reads a position, a time or an age.
func parseMoment(flag, text string, now time.Time) (moment, error) {
	if text == "" {
		return moment{}, nil
	}
	if position, err := strconv.ParseInt(text, 10, 64); err == nil {
		if position < 1 {
			return moment{}, fmt.Errorf("%s: positions start at 1", flag)
		}
		return moment{position: position}, nil
	}
	at, err := past(flag, text, now)
	return moment{at: at}, err
}

// past reads a time that has come, or an age.
func past(flag, text string, now time.Time) (time.Time, error) {
	at, err := instant(flag, text, now)
	if err == nil && at.After(now) {
		return at, fmt.Errorf("%s: %s is in the future", flag, text)
	}
	return at, err
}
