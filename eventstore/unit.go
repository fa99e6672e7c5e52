package eventstore

import (
	"errors"
	"fmt"
	"time"
)

// MaxEventBytes bounds an event's JSON, so that every event fits a Kafka record with its headers.
const MaxEventBytes = 900 << 10

// Unit is a command's view of the batch: it loads, appends and schedules, and nothing of it counts
// until the command ends without an error.
type Unit struct {
	batch   *Batch
	meta    Metadata
	overlay map[Stream]*entry
	events  []pending
	timers  []timer
	assumed []Stream // by Expect
	fault   error    // first misuse or broken state; the command fails alone
	missing bool     // something was not loaded yet; the result will be thrown away
}

// entry is a stream's state at some point of the batch.
type entry struct {
	kind      Kind
	version   int64
	state     any // *S, never changed once others can see it; nil without events
	lastEvent int // 1-based index in Writes.Events of the last event in this batch; 0: unchanged
}

// timer sets or cancels a deadline.
type timer struct {
	deadline Deadline
	set      bool
}

type pending struct {
	stream      Stream
	declaration *Declaration
	data        []byte
	version     int64
}

// Now is the batch's one timestamp.
func (u *Unit) Now() time.Time { return u.batch.now }

// NewID gives a fresh id.
func (u *Unit) NewID() string { return u.batch.newID() }

// Meta is the request's metadata.
func (u *Unit) Meta() Metadata { return u.meta }

// Schedule sets a deadline, in place of an earlier one of the same saga, key and name.
func (u *Unit) Schedule(deadline Deadline) {
	if deadline.Meta == (Metadata{}) {
		deadline.Meta = u.meta
	}
	u.timers = append(u.timers, timer{deadline: deadline, set: true})
}

// CancelDeadline removes a deadline, if it is there.
func (u *Unit) CancelDeadline(deadline Deadline) {
	u.timers = append(u.timers, timer{deadline: deadline})
}

// Prefetch names streams that will be loaded, so that one round fetches them all.
func (u *Unit) Prefetch(streams ...Stream) {
	for _, stream := range streams {
		if _, known := u.batch.base[stream]; !known {
			u.need(stream)
		}
	}
}

// Complete tells whether all that was loaded so far was really there. A long computation may return
// early when it is not: it will be run again.
func (u *Unit) Complete() bool { return !u.missing }

func (u *Unit) need(stream Stream) {
	if !storable(stream.Key) {
		u.fail(Refuse(CodeTextNotStorable, "a key of category %s is not UTF-8 without NUL", stream.Category))
		return
	}
	u.missing = true
	u.batch.missing[stream] = struct{}{}
}

func (u *Unit) entry(stream Stream, k Kind) *entry {
	if found, changed := u.overlay[stream]; changed {
		return found
	}
	if found, loaded := u.batch.working[stream]; loaded {
		return found
	}
	snapshot, supplied := u.batch.base[stream]
	if !supplied {
		u.need(stream)
		return &entry{kind: k}
	}
	found := &entry{kind: k, version: snapshot.Version}
	if len(snapshot.State) > 0 {
		state, err := k.decodeState(snapshot.State)
		if err != nil {
			u.fail(fmt.Errorf("stream %s: %w", stream, err))
			return found
		}
		found.state = state
	}
	u.batch.working[stream] = found
	return found
}

func (u *Unit) append(stream Stream, k Kind, declaration *Declaration, event any) {
	if stream.Key == "" {
		u.fail(fmt.Errorf("event %s: its stream has no key", declaration.Name))
		return
	}
	before := u.entry(stream, k)
	data, err := declaration.Encode(event)
	if err != nil {
		u.fail(err)
		return
	}
	if !storable(stream.Key) || holdsNUL(data) {
		u.fail(Refuse(CodeTextNotStorable, "a text of event %s holds NUL", declaration.Name))
		return
	}
	if len(data) > MaxEventBytes {
		u.fail(Refuse(CodeEventTooLarge, "event %s has %d bytes, at most %d fit", declaration.Name, len(data), MaxEventBytes))
		return
	}
	after, changed := u.overlay[stream]
	if !changed {
		after = &entry{kind: k, version: before.version, state: k.copyState(before.state)}
		u.overlay[stream] = after
	}
	k.applyTo(after.state, declaration.Name, event)
	after.version++
	u.events = append(u.events, pending{stream: stream, declaration: declaration, data: data, version: after.version})
}

func (u *Unit) fail(err error) {
	if u.fault == nil {
		u.fault = err
	}
}

// ErrVersion tells that a stream is not at the version that the command was made for.
var ErrVersion = errors.New("the stream has another version")

// Expect tells what the caller knows: the aggregate is at this version and has this state (version 0:
// it does not exist). Nothing is loaded for it; the commit that appends to the stream checks the version,
// and when the caller was wrong the command runs again and fails with ErrVersion. A command that appends
// nothing to it, because it refuses for example, is not checked.
func (a *Aggregate[S]) Expect(u *Unit, key string, version int64, state S) {
	stream := a.Stream(key)
	if _, known := u.batch.base[stream]; known {
		if current := u.entry(stream, a); current.version != version {
			u.fail(fmt.Errorf("%w: %s is at %d, not %d", ErrVersion, stream, current.version, version))
		}
		return
	}
	if _, asked := u.batch.missing[stream]; asked || u.batch.distrust {
		u.need(stream)
		return
	}
	assumed := &entry{kind: a, version: version}
	if version > 0 {
		assumed.state = &state
	}
	u.batch.base[stream] = Snapshot{Version: version}
	u.assumed = append(u.assumed, stream)
	u.batch.working[stream] = assumed
}
