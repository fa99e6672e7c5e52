package changes

import (
	"time"

	"andes/eventstore"
)

// ring holds the newest changes in order, and the value of each stream in it. It is not safe for many
// callers at once.
//
//	floor ──────── changes ───────────────────────────────► head
//	        … confirmed │ released │ not yet in the read model
//
// confirmed may lie before the floor: what was not confirmed when it left the ring still has to be.
type ring struct {
	size    int
	slots   []Change // circular; a change's place is its number modulo the size
	base    int64    // number of the oldest one
	next    int64    // number of the one that comes next
	floor   int64    // all changes behind this position are here, or were looked at and are none
	head    int64    // the log was looked at up to here
	streams map[eventstore.Stream]*latest

	released  counter
	confirmed counter

	fresh []eventstore.Stream // that are to be looked for in the read model
	late  []eventstore.Stream // that were not there in time
}

// counter is how far a condition holds for all changes.
type counter struct {
	number   int64 // of the first change for which it does not
	position int64 // up to which it holds
}

// latest is what is known of a stream.
type latest struct {
	position int64     // of its last change
	known    int64     // the value is at least as new as this; 0: there is none
	copied   int64     // and the read model's is
	since    time.Time // it waits to be confirmed; zero: it does not
	value    value
}

func newRing(size int, floor, confirmed int64) *ring {
	return &ring{
		size: size, slots: make([]Change, size), floor: floor, head: floor, streams: map[eventstore.Stream]*latest{},
		released: counter{position: floor}, confirmed: counter{position: min(confirmed, floor)},
	}
}

func (r *ring) at(number int64) Change { return r.slots[number%int64(r.size)] }

// take appends a part of the log.
func (r *ring) take(part Slice, now time.Time) {
	for _, change := range part.Changes {
		if r.next-r.base == int64(r.size) {
			r.drop()
		}
		r.slots[r.next%int64(r.size)] = change
		r.next++
		held, there := r.streams[change.Stream]
		if !there {
			held = &latest{}
			r.streams[change.Stream] = held
		}
		held.position = change.Position
		if held.since.IsZero() {
			held.since = now
			r.fresh = append(r.fresh, change.Stream)
		}
	}
	r.head = part.Reached
}

// drop makes room. A change that leaves before it was released is told from the log, with a value from the
// states if need be.
func (r *ring) drop() {
	oldest := r.at(r.base)
	r.floor = oldest.Position
	if r.streams[oldest.Stream].position == oldest.Position {
		delete(r.streams, oldest.Stream)
	}
	r.base++
	if r.released.number < r.base {
		r.released = counter{r.base, r.floor}
	}
	r.confirmed.number = max(r.confirmed.number, r.base)
}

// confirmedUpTo notes that what is older than the ring is confirmed up to a position.
func (r *ring) confirmedUpTo(position int64) {
	if r.confirmed.position = max(r.confirmed.position, position); r.confirmed.position >= r.floor {
		r.confirmed.number = r.base
	}
}

// need is a value that is wanted at least as new as a position.
type need struct {
	stream eventstore.Stream
	least  int64
	since  time.Time
}

// unconfirmed takes the streams that are to be looked for: the fresh ones, or the late ones.
func (r *ring) unconfirmed(from *[]eventstore.Stream, most int) []need {
	few := (*from)[:min(len(*from), most)]
	needs := make([]need, 0, len(few))
	for _, stream := range few {
		if held, there := r.streams[stream]; there && held.copied < held.position {
			needs = append(needs, need{stream, held.position, held.since})
		} else if there {
			held.since = time.Time{}
		}
	}
	if *from = (*from)[len(few):]; len(*from) == 0 {
		*from = nil
	}
	return needs
}

// settle notes a value that was read; copied tells that the read model has it.
func (r *ring) settle(n need, v value, copied bool) {
	held, there := r.streams[n.stream]
	if !there {
		return
	}
	if n.least >= held.known {
		held.known, held.value = n.least, v
	}
	if copied {
		held.copied = max(held.copied, n.least)
	}
}

// again has the streams of the needs looked for once more, unless they are confirmed.
func (r *ring) again(needs []need, now time.Time, patience time.Duration) {
	for _, n := range needs {
		held, there := r.streams[n.stream]
		switch {
		case !there:
		case held.copied >= held.position:
			held.since = time.Time{}
		case held.known >= held.position && now.Sub(held.since) >= patience:
			r.late = append(r.late, n.stream)
		default:
			r.fresh = append(r.fresh, n.stream)
		}
	}
}

// advance moves the counters, and tells whether more is released.
func (r *ring) advance() bool {
	before := r.released.position
	r.move(&r.released, func(held *latest, position int64) bool { return held.known >= position })
	if r.confirmed.position >= r.floor { // else what is older than the ring comes first
		r.move(&r.confirmed, func(held *latest, position int64) bool { return held.copied >= position })
	}
	return r.released.position > before
}

func (r *ring) move(c *counter, holds func(held *latest, position int64) bool) {
	for ; c.number < r.next; c.number++ {
		change := r.at(c.number)
		if !holds(r.streams[change.Stream], change.Position) {
			c.position = max(c.position, change.Position-1)
			return
		}
	}
	c.position = r.head
}

// after gives the number of the first change behind a position that is in the ring.
func (r *ring) after(position int64) int64 {
	low, high := r.base, r.next
	for low < high {
		middle := low + (high-low)/2
		if r.at(middle).Position > position {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// find gives a stream's value if it is at least as new as needed, and where its last change was.
func (r *ring) find(stream eventstore.Stream, least int64) (v value, known bool, last int64) {
	held, there := r.streams[stream]
	if !there {
		return value{}, false, 0
	}
	return held.value, held.known > 0 && held.known >= least, held.position
}
