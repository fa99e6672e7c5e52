package eventstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Memory is a Store in memory: for the simulation and for tests of the pure parts.
type Memory struct {
	registry *Registry
	now      func() time.Time
	newID    func() string

	mu        sync.Mutex
	position  int64
	log       []Record
	states    map[Stream]StateRecord
	answers   map[IdempotencyKey]AnswerWrite
	deadlines map[string]claimedDeadline
}

type claimedDeadline struct {
	Deadline
	claimedUntil time.Time
}

// NewMemory makes an empty store.
func NewMemory(registry *Registry, now func() time.Time, newID func() string) *Memory {
	return &Memory{
		registry: registry, now: now, newID: newID,
		states:    map[Stream]StateRecord{},
		answers:   map[IdempotencyKey]AnswerWrite{},
		deadlines: map[string]claimedDeadline{},
	}
}

// Execute runs the request in a batch of its own.
func (m *Memory) Execute(ctx context.Context, request Request) (Outcome, error) {
	if err := ctx.Err(); err != nil {
		return Outcome{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	batch := NewBatch(m.registry, now, m.newID, []Request{request})
	for _, key := range batch.Keys() {
		if kept, found := m.answers[key]; found && kept.ExpiresAt.After(now) {
			batch.SupplyAnswer(key, kept.StoredAnswer)
		}
	}
	for range MaxRounds {
		for _, stream := range batch.Needs() {
			held := m.states[stream]
			batch.Supply(stream, Snapshot{Version: held.Version, Position: held.Position, State: held.State})
		}
		writes, complete := batch.Decide()
		if !complete {
			continue
		}
		if !m.versionsHold(writes.States) {
			batch.Distrust()
			continue
		}
		base := m.position
		m.commit(writes)
		return batch.Outcome(0, base)
	}
	return Outcome{}, fmt.Errorf("command %T asked for further streams %d times", request.Command, MaxRounds)
}

func (m *Memory) versionsHold(states []StateWrite) bool {
	for _, write := range states {
		if m.states[write.Stream].Version != write.Expected {
			return false
		}
	}
	return true
}

func (m *Memory) commit(writes Writes) {
	base := m.position
	for i, record := range writes.Events {
		record.Position = base + int64(i) + 1
		m.log = append(m.log, record)
	}
	m.position += int64(len(writes.Events))
	for _, write := range writes.States {
		write.Position = base + int64(write.LastEvent)
		m.states[write.Stream] = write.StateRecord
	}
	for _, answer := range writes.Answers {
		m.answers[answer.IdempotencyKey] = answer
	}
	for _, deadline := range writes.Deadlines {
		m.deadlines[deadline.ID()] = claimedDeadline{Deadline: deadline}
	}
	for _, id := range writes.Cancelled {
		delete(m.deadlines, id)
	}
}

// ReadStream implements Reader.
func (m *Memory) ReadStream(_ context.Context, stream Stream, after int64, limit int) ([]Record, error) {
	return m.read(limit, func(r Record) bool { return r.Stream == stream && r.Version > after }), nil
}

// ReadAll implements Reader.
func (m *Memory) ReadAll(_ context.Context, after int64, limit int) ([]Record, error) {
	return m.read(limit, func(r Record) bool { return r.Position > after }), nil
}

func (m *Memory) read(limit int, wanted func(Record) bool) []Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []Record
	for _, record := range m.log {
		if len(found) == limit {
			break
		}
		if wanted(record) {
			found = append(found, record)
		}
	}
	return found
}

// States implements Reader.
func (m *Memory) States(_ context.Context, streams []Stream) (map[Stream]StateRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := make(map[Stream]StateRecord, len(streams))
	for _, stream := range streams {
		if state, exists := m.states[stream]; exists {
			found[stream] = state
		}
	}
	return found, nil
}

// StatesOf implements Reader.
func (m *Memory) StatesOf(_ context.Context, category, owner string, after int64, limit int) ([]StateRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []StateRecord
	for stream, state := range m.states {
		if stream.Category == category && state.Owner == owner && state.Position > after {
			found = append(found, state)
		}
	}
	slices.SortFunc(found, func(x, y StateRecord) int { return int(x.Position - y.Position) })
	return found[:min(limit, len(found))], nil
}

// ClaimDue implements Deadlines.
func (m *Memory) ClaimDue(_ context.Context, now time.Time, lease time.Duration, limit int) ([]Deadline, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var due []Deadline
	for _, held := range m.deadlines {
		if !held.Due.After(now) && !held.claimedUntil.After(now) {
			due = append(due, held.Deadline)
		}
	}
	slices.SortFunc(due, func(x, y Deadline) int { return cmp.Or(x.Due.Compare(y.Due), cmp.Compare(x.ID(), y.ID())) })
	due = due[:min(limit, len(due))]
	for _, deadline := range due {
		m.deadlines[deadline.ID()] = claimedDeadline{Deadline: deadline, claimedUntil: now.Add(lease)}
	}
	return due, nil
}
