package quota

import (
	"sync"
	"sync/atomic"
)

// kept is a bounded map of what is made on first use. A full one loses what was not used for long.
type kept[K comparable, V any] struct {
	most  int
	mu    sync.RWMutex
	items map[K]*item[V]
}

type item[V any] struct {
	value V
	used  atomic.Int64 // microseconds, about
}

// Making room looks at a few items and drops the one that was not used for longest.
const sampled = 16

func newKept[K comparable, V any](most int) *kept[K, V] {
	return &kept[K, V]{most: most, items: map[K]*item[V]{}}
}

func (k *kept[K, V]) get(key K, now int64) *V {
	k.mu.RLock()
	found := k.items[key]
	k.mu.RUnlock()
	if found == nil {
		found = k.add(key, now)
	}
	if now-found.used.Load() > micro { // not at each use: it would be written by all cores
		found.used.Store(now)
	}
	return &found.value
}

func (k *kept[K, V]) add(key K, now int64) *item[V] {
	k.mu.Lock()
	defer k.mu.Unlock()
	if found := k.items[key]; found != nil {
		return found
	}
	if len(k.items) >= k.most {
		k.dropOldest()
	}
	added := &item[V]{}
	added.used.Store(now)
	k.items[key] = added
	return added
}

func (k *kept[K, V]) dropOldest() {
	var victim K
	oldest, seen := int64(0), 0
	for key, candidate := range k.items { // in random order
		if used := candidate.used.Load(); seen == 0 || used < oldest {
			victim, oldest = key, used
		}
		if seen++; seen == sampled {
			break
		}
	}
	delete(k.items, victim)
}
