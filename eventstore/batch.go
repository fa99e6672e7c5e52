package eventstore

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// MaxRounds bounds how often a batch may ask for further streams before it decides.
const MaxRounds = 6

// Batch decides requests that share a transaction. It is pure: the store supplies what it asks for and
// writes what it gives.
type Batch struct {
	registry *Registry
	now      time.Time
	newID    func() string
	items    []*item

	base     map[Stream]Snapshot // as loaded, or as assumed by Expect
	assumed  []Stream
	distrust bool // an assumption proved wrong: load everything
	working  map[Stream]*entry
	missing  map[Stream]struct{}
	answers  map[IdempotencyKey]StoredAnswer
	held     map[IdempotencyKey]bool
	claimed  map[IdempotencyKey]bool
	timers   map[string]timer // by the deadline's id; the last word counts
}

type item struct {
	request Request
	outcome Outcome
	err     error
	keep    bool // the answer is to be stored
	events  int  // 1-based index of the last event
}

// Writes is what a decided batch puts into the store, all in one transaction. Positions are allotted
// there: the event with index i (from 0) gets the shard's position + i + 1.
type Writes struct {
	Events    []Record
	States    []StateWrite
	Answers   []AnswerWrite
	Deadlines []Deadline
	Cancelled []string // ids of deadlines
}

// StateWrite replaces a state, if the stream still has the version that was loaded.
type StateWrite struct {
	StateRecord
	Expected  int64 // version before; 0: a new stream
	LastEvent int   // 1-based index of the stream's last event in Writes.Events
}

// AnswerWrite keeps an answer.
type AnswerWrite struct {
	IdempotencyKey
	StoredAnswer
	ExpiresAt time.Time
}

// Empty tells that there is nothing to commit.
func (w Writes) Empty() bool {
	return len(w.Events) == 0 && len(w.Answers) == 0 && len(w.Deadlines) == 0 && len(w.Cancelled) == 0
}

// NewBatch prepares the requests for one transaction at the time now.
func NewBatch(registry *Registry, now time.Time, newID func() string, requests []Request) *Batch {
	b := &Batch{
		registry: registry, now: now, newID: newID,
		base:    map[Stream]Snapshot{},
		answers: map[IdempotencyKey]StoredAnswer{},
		held:    map[IdempotencyKey]bool{},
		missing: map[Stream]struct{}{},
	}
	for _, request := range requests {
		b.items = append(b.items, &item{request: request})
		for _, stream := range request.Command.Needs() {
			if storable(stream.Key) { // else the command is refused when it asks
				b.missing[stream] = struct{}{}
			}
		}
	}
	return b
}

// Needs lists the streams that have to be supplied before the next Decide, grouped by category.
func (b *Batch) Needs() []Stream {
	needs := make([]Stream, 0, len(b.missing))
	for stream := range b.missing {
		if _, known := b.base[stream]; !known {
			needs = append(needs, stream)
		}
	}
	slices.SortFunc(needs, func(x, y Stream) int {
		if c := strings.Compare(x.Category, y.Category); c != 0 {
			return c
		}
		return strings.Compare(x.Key, y.Key)
	})
	return needs
}

// Keys lists the idempotency keys of the batch, each once.
func (b *Batch) Keys() []IdempotencyKey {
	var keys []IdempotencyKey
	seen := map[IdempotencyKey]bool{}
	for _, it := range b.items {
		if idempotency := it.request.Idempotency; idempotency != nil && !seen[idempotency.IdempotencyKey] {
			seen[idempotency.IdempotencyKey] = true
			keys = append(keys, idempotency.IdempotencyKey)
		}
	}
	return keys
}

// Supply gives the states of streams that were asked for. A stream that does not exist is supplied
// with a zero Snapshot.
func (b *Batch) Supply(stream Stream, snapshot Snapshot) {
	b.base[stream] = snapshot
	delete(b.missing, stream)
}

// SupplyAnswer gives a kept answer.
func (b *Batch) SupplyAnswer(key IdempotencyKey, answer StoredAnswer) { b.answers[key] = answer }

// SupplyHeld tells that another process is working on the key.
func (b *Batch) SupplyHeld(key IdempotencyKey) { b.held[key] = true }

// Distrust forgets what Expect assumed, after the commit found it wrong. The next Decide loads it all.
func (b *Batch) Distrust() {
	b.distrust = true
	for _, stream := range b.assumed {
		delete(b.base, stream)
		b.missing[stream] = struct{}{}
	}
	b.assumed = nil
}

// Decide runs every command in arrival order. complete is false when streams are missing: supply what
// Needs lists and decide again.
func (b *Batch) Decide() (writes Writes, complete bool) {
	for _, stream := range b.assumed {
		delete(b.base, stream)
	}
	b.assumed = nil
	b.working = make(map[Stream]*entry, len(b.base))
	b.claimed = map[IdempotencyKey]bool{}
	b.timers = map[string]timer{}
	for _, it := range b.items {
		b.decideOne(it, &writes)
	}
	if len(b.Needs()) > 0 {
		return Writes{}, false
	}
	b.collectStates(&writes)
	for _, id := range slices.Sorted(maps.Keys(b.timers)) {
		if t := b.timers[id]; t.set {
			writes.Deadlines = append(writes.Deadlines, t.deadline)
		} else {
			writes.Cancelled = append(writes.Cancelled, id)
		}
	}
	return writes, true
}

func (b *Batch) decideOne(it *item, writes *Writes) {
	it.outcome, it.err, it.keep, it.events = Outcome{}, nil, false, 0
	idempotency := it.request.Idempotency
	if idempotency != nil && b.settledByKey(it, idempotency) {
		return
	}
	unit := &Unit{batch: b, meta: it.request.Meta, overlay: map[Stream]*entry{}}
	result, err := runDecide(it.request.Command, unit)
	if unit.fault != nil {
		err = unit.fault // what the command made of a broken state is worth nothing, a refusal neither
	}
	b.verify(unit, err == nil)
	if unit.missing {
		return // will be decided again
	}
	it.outcome.Result, it.err = result, err
	if err == nil {
		it.events = b.accept(unit, writes)
	}
	if idempotency == nil {
		return
	}
	it.outcome.Answer, it.keep = idempotency.Answer(result, err)
	if it.keep {
		writes.Answers = append(writes.Answers, AnswerWrite{
			IdempotencyKey: idempotency.IdempotencyKey,
			StoredAnswer:   StoredAnswer{Answer: it.outcome.Answer, Fingerprint: idempotency.Fingerprint},
			ExpiresAt:      b.now.Add(idempotency.TTL),
		})
	}
}

// settledByKey answers a request whose key was used before or is in use.
func (b *Batch) settledByKey(it *item, idempotency *Idempotency) bool {
	key := idempotency.IdempotencyKey
	if stored, kept := b.answers[key]; kept {
		if stored.Fingerprint != idempotency.Fingerprint {
			it.err = Refuse(CodeIdempotencyKeyReused, "the idempotency key was used for another request")
		} else {
			it.outcome = Outcome{Answer: stored.Answer, Replayed: true}
		}
		return true
	}
	if b.held[key] || b.claimed[key] {
		it.err = Refuse(CodeRequestInProgress, "the first request with this idempotency key is still running")
		return true
	}
	b.claimed[key] = true
	return false
}

// runDecide turns a panic into the failure of this command alone.
func runDecide(command Command, unit *Unit) (result any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("command %T panicked: %v\n%s", command, cause, debug.Stack())
		}
	}()
	return command.Decide(unit)
}

// verify keeps what a command assumed for the commands behind it only if the commit will check it: when
// the command writes to that stream.
func (b *Batch) verify(unit *Unit, accepted bool) {
	for _, stream := range unit.assumed {
		if _, written := unit.overlay[stream]; accepted && written {
			b.assumed = append(b.assumed, stream)
			continue
		}
		delete(b.base, stream)
		delete(b.working, stream)
	}
}

// accept makes a command's effects visible to those behind it.
func (b *Batch) accept(unit *Unit, writes *Writes) int {
	last := map[Stream]int{}
	for _, event := range unit.events {
		writes.Events = append(writes.Events, Record{
			Stream: event.stream, Version: event.version,
			ID: b.newID(), Type: event.declaration.Name, Schema: event.declaration.Schema,
			Data: event.data, Meta: unit.meta, RecordedAt: b.now,
		})
		last[event.stream] = len(writes.Events)
	}
	for stream, changed := range unit.overlay {
		changed.lastEvent = last[stream]
		b.working[stream] = changed
	}
	for _, t := range unit.timers {
		b.timers[t.deadline.ID()] = t
	}
	if len(unit.events) == 0 {
		return 0
	}
	return len(writes.Events)
}

func (b *Batch) collectStates(writes *Writes) {
	for stream, current := range b.working {
		if current.lastEvent == 0 {
			continue
		}
		// Encoding what json could decode can't fail; a state with a broken marshaller is a bug that
		// must not be written as an empty one.
		data, owner, err := current.kind.encodeState(current.state)
		if err != nil {
			panic(err)
		}
		writes.States = append(writes.States, StateWrite{
			StateRecord: StateRecord{Stream: stream, Version: current.version, Owner: owner, State: data},
			Expected:    b.base[stream].Version,
			LastEvent:   current.lastEvent,
		})
	}
	slices.SortFunc(writes.States, func(x, y StateWrite) int { return x.LastEvent - y.LastEvent })
}

// Outcome gives what became of request i, once the writes are committed after the position base.
func (b *Batch) Outcome(i int, base int64) (Outcome, error) {
	it := b.items[i]
	outcome := it.outcome
	if it.events > 0 {
		outcome.Position = base + int64(it.events)
	}
	return outcome, it.err
}
