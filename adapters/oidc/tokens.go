package oidc

import (
	"container/list"
	"crypto/sha256"
	"sync"
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

func (c *tokenCache) get(digest [sha256.Size]byte, now time.Time) (Principal, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, found := c.byKey[digest]
	if !found {
		return Principal{}, false
	}
	held := element.Value.(*remembered)
	if !now.Before(held.until) {
		c.drop(element)
		return Principal{}, false
	}
	c.order.MoveToFront(element)
	return held.principal, true
}

func (c *tokenCache) put(digest [sha256.Size]byte, principal Principal, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, found := c.byKey[digest]; found {
		c.drop(element)
	}
	c.byKey[digest] = c.order.PushFront(&remembered{digest: digest, principal: principal, until: until})
	if c.order.Len() > c.max {
		c.drop(c.order.Back())
	}
}

func (c *tokenCache) drop(element *list.Element) {
	delete(c.byKey, element.Value.(*remembered).digest)
	c.order.Remove(element)
}
