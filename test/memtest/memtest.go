// Package memtest gives tests an event store in memory, with a clock that only the test moves and ids
// that are counted. So a run is the same each time and nothing waits.
package memtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"andes/catalogue"
	"andes/eventstore"
)

// T is what a test has to offer: a *testing.T or a *rapid.T.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Start is when every test begins.
var Start = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// Store is the event store of one test.
type Store struct {
	*eventstore.Memory
	Registry *eventstore.Registry
	Now      time.Time // moved by the test
	ids      int
}

// Open makes an empty store with these aggregates, or with those of the platform if none are given.
func Open(t T, aggregates ...eventstore.Kind) *Store {
	t.Helper()
	registry, err := catalogue.Registry()
	if len(aggregates) > 0 {
		registry, err = eventstore.NewRegistry(aggregates...)
	}
	if err != nil {
		t.Fatalf("registry: %v", err)
	}
	s := &Store{Registry: registry, Now: Start}
	s.Memory = eventstore.NewMemory(registry, func() time.Time { return s.Now }, s.NewID)
	return s
}

// NewID gives the next id; ids have the form of UUIDs.
func (s *Store) NewID() string {
	s.ids++
	return fmt.Sprintf("00000000-0000-7000-8000-%012d", s.ids)
}

// Do runs a command that has to succeed, and gives its result.
func (s *Store) Do(t T, command eventstore.Command) any {
	t.Helper()
	outcome, err := s.Execute(context.Background(), eventstore.Request{Command: command})
	if err != nil {
		t.Fatalf("%#v: %v", command, err)
	}
	return outcome.Result
}

// Refused runs a command that has to be refused with the code, and to leave nothing behind.
func (s *Store) Refused(t T, command eventstore.Command, code eventstore.Code) *eventstore.Refusal {
	t.Helper()
	before := len(s.Log(t))
	_, err := s.Execute(context.Background(), eventstore.Request{Command: command})
	refusal, refused := errors.AsType[*eventstore.Refusal](err)
	if !refused || refusal.Code != code {
		t.Fatalf("%#v: %v, want the refusal %s", command, err, code)
	}
	if after := s.Log(t); len(after) != before {
		t.Fatalf("%#v was refused but left %s", command, after[before].Type)
	}
	return refusal
}

// Log gives all records, in order.
func (s *Store) Log(t T) []eventstore.Record { return s.Since(t, 0) }

// Since gives the records after a position, in order.
func (s *Store) Since(t T, position int64) []eventstore.Record {
	t.Helper()
	const all = 1 << 30
	records, err := s.ReadAll(context.Background(), position, all)
	if err != nil {
		t.Fatalf("read the log: %v", err)
	}
	return records
}

// Events gives the types of a stream's events, in order.
func (s *Store) Events(t T, stream eventstore.Stream) []string {
	t.Helper()
	var types []string
	for _, record := range s.Log(t) {
		if record.Stream == stream {
			types = append(types, record.Type)
		}
	}
	return types
}

// Waiting gives the deadlines that are set, soonest first, and leaves them as they are.
func (s *Store) Waiting(t T) []eventstore.Deadline {
	t.Helper()
	const ages, all = 100 * 365 * 24 * time.Hour, 1 << 30
	// A lease that ends now keeps nobody from claiming them.
	set, err := s.ClaimDue(context.Background(), s.Now.Add(ages), -ages, all)
	if err != nil {
		t.Fatalf("read the deadlines: %v", err)
	}
	return set
}

// State gives the state and the version of an aggregate.
func State[S any](t T, s *Store, aggregate *eventstore.Aggregate[S], key string) (S, int64) {
	t.Helper()
	stream := aggregate.Stream(key)
	states, err := s.States(context.Background(), []eventstore.Stream{stream})
	if err != nil {
		t.Fatalf("read the state of %s: %v", stream, err)
	}
	state, err := aggregate.Decode(states[stream].State)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return state, states[stream].Version
}

// CheckFolds fails unless every stored state is the fold of its stream's events, and their versions and
// positions have no holes.
func (s *Store) CheckFolds(t T) {
	t.Helper()
	byStream := map[eventstore.Stream][]eventstore.Record{}
	for i, record := range s.Log(t) {
		if record.Position != int64(i+1) {
			t.Fatalf("position %d is at %d", record.Position, i+1)
		}
		earlier := byStream[record.Stream]
		if record.Version != int64(len(earlier)+1) {
			t.Fatalf("%s: version %d after %d events", record.Stream, record.Version, len(earlier))
		}
		byStream[record.Stream] = append(earlier, record)
	}
	for stream, records := range byStream {
		folded, err := s.Registry.Fold(stream.Category, records)
		if err != nil {
			t.Fatalf("%v", err)
		}
		stored, err := s.States(context.Background(), []eventstore.Stream{stream})
		if err != nil {
			t.Fatalf("read the state of %s: %v", stream, err)
		}
		last := records[len(records)-1]
		if got := stored[stream]; !bytes.Equal(got.State, folded) || got.Version != last.Version || got.Position != last.Position {
			t.Fatalf("%s: stored %s at version %d, position %d; the events fold to %s at version %d, position %d",
				stream, got.State, got.Version, got.Position, folded, last.Version, last.Position)
		}
	}
}
