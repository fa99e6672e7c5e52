package tryton

import (
	"context"
	"sync"
	"time"
)

// turns lets one at a time do something about a key. The zero value is ready.
type turns struct {
	mu    sync.Mutex
	taken map[string]*turn
}

type turn struct {
	free    chan struct{}
	waiting int // and the one whose turn it is
}

// enter waits for the key's turn; leave ends it.
func (t *turns) enter(ctx context.Context, key string) (leave func(), err error) {
	t.mu.Lock()
	if t.taken == nil {
		t.taken = map[string]*turn{}
	}
	mine := t.taken[key]
	if mine == nil {
		mine = &turn{free: make(chan struct{}, 1)}
		t.taken[key] = mine
	}
	mine.waiting++
	t.mu.Unlock()
	forget := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.waiting--; mine.waiting == 0 {
			delete(t.taken, key)
		}
	}
	select {
	case mine.free <- struct{}{}:
		return func() { <-mine.free; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, ctx.Err()
	}
}

// memory remembers ids of records that hardly ever change. The zero value is ready.
type memory struct {
	mu    sync.Mutex
	known map[[2]string]memo
}

type memo struct {
	id    int64
	until time.Time
}

// Bounds of the memory; when it is full it forgets all.
const (
	maxMemos = 10_000
	memoFor  = 5 * time.Minute
)

// get gives what is remembered, or asks.
func (m *memory) get(kind, name string, now time.Time, ask func() (int64, error)) (int64, error) {
	key := [2]string{kind, name}
	m.mu.Lock()
	known, is := m.known[key]
	m.mu.Unlock()
	if is && now.Before(known.until) {
		return known.id, nil
	}
	id, err := ask()
	if err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= maxMemos {
		m.known = map[[2]string]memo{}
	}
	m.known[key] = memo{id: id, until: now.Add(memoFor)}
	return id, nil
}
