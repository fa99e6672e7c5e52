package kafka

// lowWater follows the offsets that are being worked on and tells up to where all are finished. Offsets
// rise but have holes, where compaction or transactions took records away.
type lowWater struct {
	ring   []tracked // a power of two
	oldest uint64    // sequence number of the oldest that is followed
	next   uint64    // sequence number of the next
	limit  int
}

type tracked struct {
	offset   int64
	finished bool
}

const firstWindow = 64

func newLowWater(limit int) *lowWater {
	return &lowWater{ring: make([]tracked, firstWindow), limit: limit}
}

func (w *lowWater) full() bool { return int(w.next-w.oldest) >= w.limit }

// follow starts following an offset and gives its sequence number. The caller asked full before.
func (w *lowWater) follow(offset int64) uint64 {
	if int(w.next-w.oldest) == len(w.ring) {
		w.grow()
	}
	seq := w.next
	w.ring[seq&uint64(len(w.ring)-1)] = tracked{offset: offset}
	w.next++
	return seq
}

func (w *lowWater) grow() {
	larger := make([]tracked, 2*len(w.ring))
	for seq := w.oldest; seq < w.next; seq++ {
		larger[seq&uint64(len(larger)-1)] = w.ring[seq&uint64(len(w.ring)-1)]
	}
	w.ring = larger
}

// finish marks one as done. When that moves the low-water mark, it gives the offset to commit: that of
// the next record to read.
func (w *lowWater) finish(seq uint64) (commit int64, moved bool) {
	mask := uint64(len(w.ring) - 1)
	w.ring[seq&mask].finished = true
	for w.oldest < w.next && w.ring[w.oldest&mask].finished {
		commit, moved = w.ring[w.oldest&mask].offset+1, true
		w.oldest++
	}
	return commit, moved
}
