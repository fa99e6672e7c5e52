package kafka

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// verdict is what is done with a record whose turn is asked for.
type verdict int

const (
	proceed verdict = iota // it is handled
	follow                 // it is parked behind the first record of its key
	hold                   // it waits in memory until the first of its key moves
	drop                   // it is a copy of a record that is parked elsewhere, or is done
	release                // an operator gave it up: it ends, without being handled
)

// turn is a verdict; topic is where a record that follows goes, behind the first one of its key.
type turn struct {
	verdict verdict
	topic   string
	first   outstanding
}

// sequence keeps the order per key of one part of the partitions. It knows, for each origin partition and key, the
// records that are outstanding: they wait in a retry topic or in replay, or are unsettled in the DLQ. The first
// of them, by origin offset, is the only one of its key that is handled. The package's doc draws it.
type sequence struct {
	part, parts int32 // it is for the partitions of that remainder
	replay      string
	dlq         string
	keys        prometheus.Gauge // of the consumer

	mu    sync.Mutex
	ended bool
	moves uint64
	lines map[keyed][]outstanding // none is empty; by origin offset
	open  atomic.Int64            // len(lines), to be read without the lock
}

// keyed is what order is kept for: a key of an origin's partition. Offsets tell nothing of another partition's.
type keyed struct {
	topic     string
	partition int32
	key       string
}

// keyOf gives what the order of a record of an origin is kept for.
func (o *origin) keyOf(key []byte) keyed { return keyed{o.topic, o.partition, string(key)} }

// outstanding is a record that is not done with. Of its copies one counts: the one at this place.
type outstanding struct {
	offset   int64 // of the origin
	at       int64 // origin timestamp in ms
	topic    string
	position int64  // its offset there; landing while it is being written
	move     uint64 // which brought it there: it may go on before the ack of its coming has arrived
	wake     func() // set while that copy is held in memory
}

const landing = -1

func newSequence(part, parts int32, replay, dlq string, keys prometheus.Gauge) *sequence {
	return &sequence{part: part, parts: parts, replay: replay, dlq: dlq, keys: keys, lines: map[keyed][]outstanding{}}
}

// keeps tells whether the sequence is for what is parked of an origin's partition.
func (s *sequence) keeps(partition int32) bool { return partition%s.parts == s.part }

// find gives where a record of the origin offset stands in its line, or would.
func find(line []outstanding, offset int64) (int, bool) {
	return slices.BinarySearchFunc(line, offset, func(o outstanding, offset int64) int { return cmp.Compare(o.offset, offset) })
}

func (o *outstanding) is(from origin) bool { return o.at == from.at.UnixMilli() }

// keep stores a changed line.
func (s *sequence) keep(k keyed, line []outstanding) {
	before := len(s.lines)
	if len(line) == 0 {
		delete(s.lines, k)
	} else {
		s.lines[k] = line
	}
	if now := len(s.lines); now != before {
		s.open.Store(int64(now))
		if !s.ended {
			s.keys.Add(float64(now - before))
		}
	}
}

// end takes the sequence's keys out of the metric when its session is over.
func (s *sequence) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	s.keys.Sub(float64(len(s.lines)))
}

// turn decides about a record, and takes note of one that came by replay.
func (s *sequence) turn(d *Delivery) turn {
	if d.Message.Key == nil || d.parked != nil && (!d.ours || !s.keeps(d.parked.partition)) {
		return turn{verdict: proceed} // it has no order that could be kept here
	}
	if d.parked == nil && s.open.Load() == 0 {
		return turn{verdict: proceed}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.parked == nil {
		return s.arrive(d)
	}
	return s.comeBack(d)
}

// arrive decides about a record from an origin topic.
func (s *sequence) arrive(d *Delivery) turn {
	from := originOf(d.Message)
	line := s.lines[from.keyOf(d.Message.Key)]
	i, found := find(line, d.Message.Offset)
	switch {
	case found && line[i].is(from):
		return turn{verdict: drop} // it was parked before its offset was committed
	case i > 0:
		return turn{follow, line[0].topic, line[0]}
	}
	return turn{verdict: proceed}
}

// comeBack decides about a record from a retry topic or from replay.
func (s *sequence) comeBack(d *Delivery) turn {
	from, at := d.parked.origin, d.Message
	k := from.keyOf(at.Key)
	line := s.lines[k]
	i, found := find(line, from.offset)
	switch {
	case found && !line[i].is(from):
		return turn{verdict: proceed} // of a topic that had this name before
	case !found && at.Topic == s.replay && !d.parked.discard:
		line = slices.Insert(line, i, outstanding{offset: from.offset, at: from.at.UnixMilli(), topic: at.Topic, position: at.Offset})
		s.keep(k, line)
	case !found:
		return turn{verdict: drop}
	case at.Topic == s.replay && line[i].topic == s.dlq && d.parked.discard:
		return turn{verdict: release}
	case at.Topic == s.replay && line[i].topic == s.dlq:
		line[i].topic, line[i].position, line[i].move = at.Topic, at.Offset, 0
	case line[i].topic != at.Topic || d.parked.discard:
		return turn{verdict: drop}
	case line[i].position == landing:
		line[i].position = at.Offset // read before its ack was
	case line[i].position != at.Offset:
		return turn{verdict: drop}
	}
	return inLine(line, i)
}

// inLine is the turn of the i-th of a line whose copy was read. It may wait in memory only for a record that
// was read before it: else a full memory could wait for a record that it has no room for.
func inLine(line []outstanding, i int) turn {
	first, own := &line[0], &line[i]
	switch {
	case i == 0:
		return turn{verdict: proceed}
	case first.position == landing, first.topic == own.topic && first.position < own.position:
		return turn{verdict: hold}
	}
	return turn{follow, first.topic, *first}
}

// await has wake called when a record that is to hold may be asked about again; false when it need not hold.
func (s *sequence) await(d *Delivery, wake func()) bool {
	if t := s.turn(d); t.verdict != hold {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	line := s.lines[d.parked.keyOf(d.Message.Key)]
	i, found := find(line, d.parked.offset)
	if !found || inLine(line, i).verdict != hold {
		return false // it changed meanwhile
	}
	line[i].wake = wake
	return true
}

// awake takes those out of a line who need not hold any longer.
func awake(line []outstanding) (wakes []func()) {
	for i := range line {
		if line[i].wake != nil && inLine(line, i).verdict != hold {
			wakes = append(wakes, line[i].wake)
			line[i].wake = nil
		}
	}
	return wakes
}

// tell calls those who wait. It is called without the lock.
func tell(wakes []func()) {
	for _, wake := range wakes {
		wake()
	}
}

// done ends a record's being outstanding.
func (s *sequence) done(d *Delivery) {
	if s.open.Load() == 0 || d.Message.Key == nil {
		return
	}
	from := d.origin()
	k := from.keyOf(d.Message.Key)
	s.mu.Lock()
	line := s.lines[k]
	i, found := find(line, from.offset)
	if !found || !line[i].is(from) {
		s.mu.Unlock()
		return
	}
	line = slices.Delete(line, i, i+1)
	s.keep(k, line)
	wakes := awake(line)
	s.mu.Unlock()
	tell(wakes)
}

// lose ends the being outstanding of a record whose letter is not there any more.
func (s *sequence) lose(from origin, key []byte, gone outstanding) {
	k := from.keyOf(key)
	s.mu.Lock()
	line := s.lines[k]
	i, found := find(line, gone.offset)
	if !found || line[i].topic != gone.topic || line[i].position != gone.position {
		s.mu.Unlock()
		return
	}
	line = slices.Delete(line, i, i+1)
	s.keep(k, line)
	wakes := awake(line)
	s.mu.Unlock()
	tell(wakes)
}

// leave notes that a record is being written to another place. landed tells how that ended.
func (s *sequence) leave(d *Delivery, topic string) (landed func(position int64, err error)) {
	from := d.origin()
	if d.Message.Key == nil || !s.keeps(from.partition) || d.parked != nil && !d.ours {
		return func(int64, error) {}
	}
	k := from.keyOf(d.Message.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	line := s.lines[k]
	i, found := find(line, from.offset)
	s.moves++
	now := outstanding{offset: from.offset, at: from.at.UnixMilli(), topic: topic, position: landing, move: s.moves}
	before := now
	if found {
		before = line[i]
		line[i] = now
	} else {
		s.keep(k, slices.Insert(line, i, now))
	}
	return func(position int64, err error) { s.land(k, now, before, found, position, err) }
}

// land settles a place, or puts things back as they were.
func (s *sequence) land(k keyed, now, before outstanding, found bool, position int64, err error) {
	s.mu.Lock()
	line := s.lines[k]
	i, there := find(line, now.offset)
	switch {
	case !there || line[i].move != now.move: // it is done, or went on
	case err == nil && line[i].position == landing:
		line[i].position = position
	case err == nil: // it was read before
	case found:
		line[i] = before
	default:
		line = slices.Delete(line, i, i+1)
		s.keep(k, line)
	}
	wakes := awake(line)
	s.mu.Unlock()
	tell(wakes)
}

// add takes note of a copy that was found when the partition was assigned. The newest copy counts.
func (s *sequence) add(k keyed, found outstanding) {
	line := s.lines[k]
	i, there := find(line, found.offset)
	if there {
		line[i] = found
		return
	}
	s.keep(k, slices.Insert(line, i, found))
}
