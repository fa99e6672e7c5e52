package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"andes/adapters/postgres"
	"andes/eventstore"
)

// eventsShowCmd prints a stream and what its events fold to.
type eventsShowCmd struct {
	Stream string `arg:"" help:"The stream, as in order/01a22b5e-a490-70f0-bb4e-95bb3d4f6f6e."`
	At     string `help:"As it was at this version, time or age." placeholder:"VERSION|TIME|AGE"`
	Last   int    `default:"50" help:"Print at most so many of its last events; the state is that of all."`
	Wide   bool   `help:"Do not cut payloads in the table."`
	output
}

// until is the moment of a stream that is looked at; the zero value is now.
type until struct {
	version int64
	at      time.Time
}

func (u until) passed(record eventstore.Record) bool {
	return u.version > 0 && record.Version > u.version || !u.at.IsZero() && record.RecordedAt.After(u.at)
}

// Run implements the command.
func (c eventsShowCmd) Run(ctx context.Context, s *settings, _ *slog.Logger) error {
	if c.Last < 0 {
		return errors.New("--last is below zero")
	}
	reader, err := openEvents(ctx, s)
	if err != nil {
		return err
	}
	defer reader.close()
	stream, err := reader.stream(c.Stream)
	if err != nil {
		return err
	}
	at, err := parseUntil(c.At, reader.now)
	if err != nil {
		return err
	}
	shown, err := reader.fold(ctx, stream, at, c.Last)
	if err != nil {
		return err
	}
	out := newEventPrinter(os.Stdout, c.Output == "json", c.Wide)
	for _, event := range shown.last.list() {
		if err := out.print(event); err != nil {
			return err
		}
	}
	return errors.Join(out.state(shown), out.flush(), shown.fault)
}

func parseUntil(text string, now time.Time) (until, error) {
	if version, err := strconv.ParseInt(text, 10, 64); err == nil {
		if version < 1 {
			return until{}, errors.New("--at: versions start at 1")
		}
		return until{version: version}, nil
	}
	if text == "" {
		return until{}, nil
	}
	at, err := past("--at", text, now)
	return until{at: at}, err
}

// foldedStream is a stream at a moment.
type foldedStream struct {
	stream     eventstore.Stream
	version    int64
	position   int64
	recordedAt time.Time
	state      []byte // nil: deleted
	last       lastEvents
	fault      error // why the state could not be folded to its end
}

// fold reads the stream up to the moment. The state is folded from masked events, so that it holds nothing
// sensitive, wherever the events put their fields.
func (r *eventReader) fold(ctx context.Context, stream eventstore.Stream, at until, last int) (foldedStream, error) {
	folded := foldedStream{stream: stream, last: lastEvents{most: last}}
	folding, err := r.registry.Folding(stream.Category)
	if err != nil {
		return folded, err
	}
	end, err := r.log.End(ctx)
	if err != nil {
		return folded, err
	}
	var newest eventstore.Record // of the stream, at whatever moment
	var first time.Time
read:
	for page, err := range r.log.Walk(ctx, postgres.LogFilter{Stream: stream}, 0, end) {
		if err != nil {
			return folded, fmt.Errorf("stream %s can't be read after version %d: %w", stream, folded.version, err)
		}
		for _, record := range page.Records {
			newest = record
			if first.IsZero() {
				first = record.RecordedAt
			}
			if at.passed(record) {
				break read
			}
			masked, redacted := r.registry.Mask(record)
			folded.last.add(shownEvent{masked, redacted})
			folded.version, folded.position, folded.recordedAt = record.Version, record.Position, record.RecordedAt
			if folded.fault == nil {
				folded.fault = folding.Add(masked)
			}
		}
	}
	switch {
	case newest.Version == 0:
		return folded, noStream(stream)
	case folded.version < at.version:
		return folded, fmt.Errorf("stream %s is at version %d; there is no version %d yet", stream, newest.Version, at.version)
	case folded.version == 0:
		return folded, fmt.Errorf("there was no stream %s then: its first event is of %s", stream, first.UTC().Format(time.RFC3339Nano))
	}
	if folded.fault == nil {
		state, err := folding.State()
		folded.state, folded.fault = state.State, err
	}
	return folded, nil
}

// stateLine is the state as JSON.
type stateLine struct {
	Stream     string          `json:"stream"`
	Version    int64           `json:"version"`
	Position   int64           `json:"position"`
	RecordedAt time.Time       `json:"recordedAt"`
	State      json.RawMessage `json:"state"` // null: deleted
}

// state prints what the stream folds to, if it does.
func (p *eventPrinter) state(folded foldedStream) error {
	if folded.fault != nil {
		return nil
	}
	state := folded.state
	if state == nil {
		state = []byte("null")
	}
	if p.json {
		return p.encode(stateLine{folded.stream.String(), folded.version, folded.position, folded.recordedAt.UTC(), state})
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, state, "", "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintf(p.out, "\n%s at version %d, position %d, %s\n%s\n", harmless(folded.stream.String()), folded.version,
		folded.position, folded.recordedAt.UTC().Format(time.RFC3339Nano), harmlessLines(indented.String()))
	return err
}
