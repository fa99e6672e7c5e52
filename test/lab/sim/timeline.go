package sim

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

const maxTimelineEntries = 500_000

// timeline runs small pieces of work at their due time, one after another, in
// due order and then in the order they were added. Work must not block.
type timeline struct {
	mu      sync.Mutex
	entries entryHeap
	added   uint64
	wake    chan struct{}
}

type entry struct {
	due  time.Time
	seq  uint64
	work func()
}

func newTimeline() *timeline { return &timeline{wake: make(chan struct{}, 1)} }

// add returns false when the timeline is full.
func (t *timeline) add(due time.Time, work func()) bool {
	t.mu.Lock()
	if len(t.entries) >= maxTimelineEntries {
		t.mu.Unlock()
		return false
	}
	t.added++
	heap.Push(&t.entries, entry{due: due, seq: t.added, work: work})
	first := t.entries[0].seq == t.added
	t.mu.Unlock()
	if first {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
	return true
}

func (t *timeline) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		work, wait := t.next(time.Now())
		if work != nil {
			work()
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-timer.C:
		}
	}
}

// next returns the work that is due, or how long to wait for the next one.
func (t *timeline) next(now time.Time) (func(), time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.entries) == 0 {
		return nil, time.Hour
	}
	if wait := t.entries[0].due.Sub(now); wait > 0 {
		return nil, wait
	}
	return heap.Pop(&t.entries).(entry).work, 0
}

func (t *timeline) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.entries)
}

type entryHeap []entry

func (h entryHeap) Len() int { return len(h) }
func (h entryHeap) Less(i, j int) bool {
	if h[i].due.Equal(h[j].due) {
		return h[i].seq < h[j].seq
	}
	return h[i].due.Before(h[j].due)
}
func (h entryHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *entryHeap) Push(x any)   { *h = append(*h, x.(entry)) }
func (h *entryHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = entry{}
	*h = old[:len(old)-1]
	return last
}
