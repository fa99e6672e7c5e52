package kafka_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"andes/adapters/kafka"
	"andes/eventstore"
)

var errFenced = errors.New("the session is no longer ours")

// memoryLog is a Log in memory with the faults that a trial asks for.
type memoryLog struct {
	mu         sync.Mutex
	records    []eventstore.Record
	states     map[eventstore.Stream]eventstore.StateRecord
	checkpoint int64
	saves      []int64
	owner      int // the current session
	refuseSave int // how many saves fail from now on
	pageBytes  int // 0: unbounded
	again      eventstore.Republication
	changed    chan struct{}
	free       chan struct{} // holds a token while nobody is active
}

const (
	logPage = 200
	logWait = 100 * time.Millisecond
)

func newLog() *memoryLog {
	l := &memoryLog{states: map[eventstore.Stream]eventstore.StateRecord{}, changed: make(chan struct{}), free: make(chan struct{}, 1)}
	l.free <- struct{}{}
	return l
}

// commit appends events, gives them positions and keeps a state of the published streams.
func (l *memoryLog) commit(events ...eventstore.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, record := range events {
		record.Position = int64(len(l.records) + 1)
		l.records = append(l.records, record)
		l.states[record.Stream] = eventstore.StateRecord{
			Stream: record.Stream, Version: record.Version, Position: record.Position, State: record.Data,
		}
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// remove makes the state of a stream a tombstone from now on.
func (l *memoryLog) remove(stream eventstore.Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.states[stream]
	state.State = nil
	l.states[stream] = state
}

func (l *memoryLog) saved() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.checkpoint
}

func (l *memoryLog) head() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.records))
}

// fence ends the current session, as if its lease had been lost.
func (l *memoryLog) fence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owner++
}

func (l *memoryLog) failSaves(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuseSave = n
}

func (l *memoryLog) Acquire(ctx context.Context) (kafka.Session, error) {
	select {
	case <-l.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owner++
	return &memorySession{log: l, id: l.owner, checkpoint: l.checkpoint}, nil
}

type memorySession struct {
	log        *memoryLog
	id         int
	checkpoint int64
}

func (s *memorySession) Checkpoint() int64 { return s.checkpoint }

func (s *memorySession) Next(ctx context.Context, after int64) ([]eventstore.Record, []eventstore.StateRecord, error) {
	timer := time.NewTimer(logWait)
	defer timer.Stop()
	for {
		s.log.mu.Lock()
		changed := s.log.changed
		lost := s.id != s.log.owner
		records, states := s.page(after)
		s.log.mu.Unlock()
		if lost {
			return nil, nil, errFenced
		}
		if len(records) > 0 {
			return records, states, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, nil, nil
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

func (s *memorySession) page(after int64) ([]eventstore.Record, []eventstore.StateRecord) {
	var records []eventstore.Record
	var states []eventstore.StateRecord
	seen := map[eventstore.Stream]bool{}
	size := 0
	for _, record := range s.log.records[min(after, int64(len(s.log.records))):] {
		size += len(record.Data)
		if len(records) == logPage || len(records) > 0 && s.log.pageBytes > 0 && size > s.log.pageBytes {
			break
		}
		records = append(records, record)
		if !seen[record.Stream] {
			seen[record.Stream] = true
			states = append(states, s.log.states[record.Stream])
		}
	}
	return records, states
}

func (s *memorySession) Save(_ context.Context, position int64) error {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.id != s.log.owner {
		return errFenced
	}
	if s.log.refuseSave > 0 {
		s.log.refuseSave--
		return errors.New("the database went away")
	}
	s.log.checkpoint = position
	s.log.saves = append(s.log.saves, position)
	return nil
}

func (s *memorySession) Republication(context.Context) (eventstore.Republication, error) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.id != s.log.owner {
		return eventstore.Republication{}, errFenced
	}
	return s.log.again, nil
}

func (s *memorySession) Republished(_ context.Context, order eventstore.Republication) error {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.id != s.log.owner {
		return errFenced
	}
	s.log.again.Reached, s.log.again.Records = order.Reached, order.Records
	return nil
}

func (s *memorySession) Close() error {
	s.log.free <- struct{}{}
	return nil
}
