package queries

import (
	"context"
	"sync"
)

// flights let callers that need the same value at the same time share one fetch of it. Unlike a
// single flight per key, the keys of one caller that nobody fetches yet are fetched together.
//
// A fetch that is under way when a caller comes may bring what was true before the caller asked: before a watermark
// that it has read, say. Whoever may not have that takes the next one, which begins when the first has landed, with
// all who came meanwhile. So however many come, a key is fetched once at a time.
type flights[K comparable, V any] struct {
	current bool // nobody may have what was fetched before it came

	mu      sync.Mutex
	running map[K]*flight[K, V]
	all     sync.WaitGroup
}

// flight is one fetch of several keys. values and err are set before landed is closed.
type flight[K comparable, V any] struct {
	keys   []K
	fetch  func(keys []K) (map[K]V, error)
	after  func(map[K]V)
	values map[K]V
	err    error
	landed chan struct{}
	next   *flight[K, V] // of those of its keys that are asked for meanwhile; nil: none
	asked  map[K]bool    // of next: its keys
}

// get gives the values of the keys; a key without one is missing in the map. It waits for those that are
// under way and calls fetch for the others, in a goroutine that outlives ctx: the caller that started it
// may give up without harm to those who wait with it. afterwards runs when all have their values.
func (f *flights[K, V]) get(ctx context.Context, keys []K, fetch func(keys []K) (map[K]V, error), afterwards func(map[K]V)) (map[K]V, error) {
	boarded := f.board(keys, fetch, afterwards)
	values := make(map[K]V, len(keys))
	for i, key := range keys {
		select {
		case <-boarded[i].landed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if err := boarded[i].err; err != nil {
			return nil, err
		}
		if value, there := boarded[i].values[key]; there {
			values[key] = value
		}
	}
	return values, nil
}

// board gives each key's flight, and starts the one that is needed for those that are in none.
func (f *flights[K, V]) board(keys []K, fetch func(keys []K) (map[K]V, error), afterwards func(map[K]V)) []*flight[K, V] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running == nil {
		f.running = make(map[K]*flight[K, V])
	}
	boarded := make([]*flight[K, V], len(keys))
	own := &flight[K, V]{fetch: fetch, after: afterwards, landed: make(chan struct{})}
	for i, key := range keys {
		running, underWay := f.running[key]
		switch {
		case !underWay:
			own.keys = append(own.keys, key)
			f.running[key], boarded[i] = own, own
		case running == own, !f.current:
			boarded[i] = running
		default:
			if running.next == nil {
				running.next = &flight[K, V]{fetch: fetch, after: afterwards, landed: make(chan struct{})}
				running.asked = map[K]bool{}
			}
			if !running.asked[key] {
				running.asked[key] = true
				running.next.keys = append(running.next.keys, key)
			}
			boarded[i] = running.next
		}
	}
	if len(own.keys) > 0 {
		f.all.Go(func() { f.fly(own) })
	}
	return boarded
}

func (f *flights[K, V]) fly(own *flight[K, V]) {
	own.values, own.err = own.fetch(own.keys)
	f.leave(own)
	close(own.landed)
	if own.err == nil {
		own.after(own.values)
	}
}

// leave lets the keys be fetched again, and starts the flight of those who wait for that.
func (f *flights[K, V]) leave(own *flight[K, V]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range own.keys {
		delete(f.running, key)
	}
	next := own.next
	if next == nil {
		return
	}
	for _, key := range next.keys {
		f.running[key] = next
	}
	f.all.Go(func() { f.fly(next) })
}

// wait returns when no flight is under way.
func (f *flights[K, V]) wait() { f.all.Wait() }
