package queries

import (
	"context"
	"sync"
)

// flights let callers that need the same value at the same time share one fetch of it. Unlike a
// single flight per key, the keys of one caller that nobody fetches yet are fetched together.
type flights[K comparable, V any] struct {
	mu      sync.Mutex
	running map[K]*flight[K, V]
	all     sync.WaitGroup
}

// flight is one fetch of several keys. values and err are set before landed is closed.
type flight[K comparable, V any] struct {
	keys   []K
	values map[K]V
	err    error
	landed chan struct{}
}

// get gives the values of the keys; a key without one is missing in the map. It waits for those that are
// under way and calls fetch for the others, in a goroutine that outlives ctx: the caller that started it
// may give up without harm to those who wait with it. afterwards runs when all have their values, and
// only then may the keys be fetched again.
func (f *flights[K, V]) get(ctx context.Context, keys []K, fetch func(keys []K) (map[K]V, error), afterwards func(map[K]V)) (map[K]V, error) {
	boarded, own := f.board(keys)
	if own != nil {
		f.all.Go(func() {
			defer f.leave(own)
			own.values, own.err = fetch(own.keys)
			close(own.landed)
			if own.err == nil {
				afterwards(own.values)
			}
		})
	}
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

// board gives each key's flight. own is the new one, if one is needed.
func (f *flights[K, V]) board(keys []K) (boarded []*flight[K, V], own *flight[K, V]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running == nil {
		f.running = make(map[K]*flight[K, V])
	}
	boarded = make([]*flight[K, V], len(keys))
	for i, key := range keys {
		running, underWay := f.running[key]
		if !underWay {
			if own == nil {
				own = &flight[K, V]{landed: make(chan struct{})}
			}
			own.keys = append(own.keys, key)
			f.running[key] = own
			running = own
		}
		boarded[i] = running
	}
	return boarded, own
}

func (f *flights[K, V]) leave(own *flight[K, V]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range own.keys {
		delete(f.running, key)
	}
}

// wait returns when no flight is under way.
func (f *flights[K, V]) wait() { f.all.Wait() }
