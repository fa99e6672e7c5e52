package kafka

import (
	"container/heap"
	"time"

	"github.com/IBM/sarama"
)

// readDelayed admits records of a topic whose records are parked, each when it is due. Records wait in
// memory, up to a bound; then the topic is read on as those before leave. All of a topic wait equally long, so
// what is beyond the bound is not due before what is in it, but for the clocks of several writers.
func (p *lanePartition) readDelayed(messages <-chan *sarama.ConsumerMessage, longest time.Duration) {
	held := newHeldRecords()
	defer held.timer.Stop()
	var next *sarama.ConsumerMessage // there is no room for it
	for {
		source := messages
		if next != nil {
			source = nil
		}
		select {
		case message, open := <-source:
			if !open {
				return
			}
			next = message
		case <-held.timer.C:
			held.armed = time.Time{}
		case <-p.room:
		case <-p.stop:
			return
		}
		now := time.Now()
		if next != nil {
			if delivery := p.take(next); delivery != nil {
				next = nil
				delivery.returned(longest, now)
				if delivery.waitsForDue(now) {
					heap.Push(held, delivery)
				} else {
					p.letGo(delivery)
				}
			}
		}
		for delivery := held.pop(now); delivery != nil; delivery = held.pop(now) {
			p.letGo(delivery)
		}
		held.arm(now)
	}
}

// waitsForDue tells whether a record waits for its time. One that was parked behind another waits for that
// one alone, where it is known.
func (d *Delivery) waitsForDue(now time.Time) bool {
	if d.parked.class == classBehind && d.partition.sequence != nil {
		return false
	}
	return d.due.After(now)
}

// letGo gives the record to its lane, or holds it until its turn comes.
func (p *lanePartition) letGo(delivery *Delivery) {
	if !p.holds(delivery) {
		p.enqueue(delivery)
	}
}

// holds keeps the record out of its lane until it is woken, while it has to wait for another one of its key.
func (p *lanePartition) holds(delivery *Delivery) bool {
	return p.sequence != nil && p.sequence.await(delivery, func() { p.enqueue(delivery) })
}

// heldRecords are those that wait until they are due, the earliest first.
type heldRecords struct {
	list  []*Delivery
	timer *time.Timer
	armed time.Time // zero: not
}

func newHeldRecords() *heldRecords {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &heldRecords{timer: timer}
}

// arm sets the timer to the earliest.
func (h *heldRecords) arm(now time.Time) {
	if len(h.list) == 0 {
		return
	}
	if due := h.list[0].due; !due.Equal(h.armed) {
		h.timer.Reset(due.Sub(now))
		h.armed = due
	}
}

// pop gives one that is due.
func (h *heldRecords) pop(now time.Time) *Delivery {
	if len(h.list) == 0 || h.list[0].due.After(now) {
		return nil
	}
	return heap.Pop(h).(*Delivery)
}

// Len implements heap.Interface.
func (h *heldRecords) Len() int { return len(h.list) }

// Less implements heap.Interface: what is due at the same time goes in the order of the topic.
func (h *heldRecords) Less(i, j int) bool {
	a, b := h.list[i], h.list[j]
	if a.due.Equal(b.due) {
		return a.seq < b.seq
	}
	return a.due.Before(b.due)
}

// Swap implements heap.Interface.
func (h *heldRecords) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }

// Push implements heap.Interface.
func (h *heldRecords) Push(x any) { h.list = append(h.list, x.(*Delivery)) }

// Pop implements heap.Interface.
func (h *heldRecords) Pop() any {
	last := len(h.list) - 1
	delivery := h.list[last]
	h.list[last] = nil
	h.list = h.list[:last]
	return delivery
}
