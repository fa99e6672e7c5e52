package oidc

import (
	"container/list"
	"crypto/sha256"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// tokenCache remembers verified tokens by their digest, the most recently used ones.
type tokenCache struct {
	mu    sync.Mutex
	max   int
	order *list.List // of *remembered, most recently used first
	byKey map[[sha256.Size]byte]*list.Element
}

type remembered struct {
	digest    [sha256.Size]byte
	principal Principal
	until     time.Time
}

func newTokenCache(most int) tokenCache {
	return tokenCache{max: most, order: list.New(), byKey: map[[sha256.Size]byte]*list.Element{}}
}

func (c *tokenCache) get(digest [sha256.Size]byte, now time.Time) (*remembered, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, found := c.byKey[digest]
	if !found {
		return nil, false
	}
	held := element.Value.(*remembered)
	if !now.Before(held.until) {
		c.drop(element)
		return nil, false
	}
	c.order.MoveToFront(element)
	return held, true
}

func (c *tokenCache) put(digest [sha256.Size]byte, principal Principal, until time.Time) *remembered {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, found := c.byKey[digest]; found {
		c.drop(element)
	}
	held := &remembered{digest: digest, principal: principal, until: until}
	c.byKey[digest] = c.order.PushFront(held)
	if c.order.Len() > c.max {
		c.drop(c.order.Back())
	}
	return held
}

func (c *tokenCache) drop(element *list.Element) {
	delete(c.byKey, element.Value.(*remembered).digest)
	c.order.Remove(element)
}

// lastTokens are those that came last, as they came: finding one costs less than its digest. Two tokens may want the
// same place, then the later one has it.
type lastTokens struct {
	seed   maphash.Seed
	places [lastPlaces]atomic.Pointer[lastToken]
}

const (
	lastPlaces = 1 << 10
	// maxLast is the longest token that is kept as it is.
	maxLast = 4 << 10
)

type lastToken struct {
	token string
	*remembered
}

func (l *lastTokens) place(token string) *atomic.Pointer[lastToken] {
	return &l.places[maphash.String(l.seed, token)%lastPlaces]
}

func (l *lastTokens) get(token string, now time.Time) (*remembered, bool) {
	if len(token) > maxLast {
		return nil, false
	}
	last := l.place(token).Load()
	if last == nil || last.token != token || !now.Before(last.until) {
		return nil, false
	}
	return last.remembered, true
}

func (l *lastTokens) put(token string, verified *remembered) {
	if len(token) <= maxLast {
		l.place(token).Store(&lastToken{token, verified})
	}
}
