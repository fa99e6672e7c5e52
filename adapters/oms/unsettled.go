package oms

import (
	"sync"
	"time"
)

// unsettled remembers when orders were posted without a clear answer yet.
type unsettled struct {
	mu    sync.Mutex
	posts map[string]time.Time
}

// maxUnsettled bounds the memory; when it is full all is forgotten. An order
// that is forgotten is still asked for before it is posted.
const maxUnsettled = 50_000

func (u *unsettled) begin(orderID string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.posts == nil || len(u.posts) >= maxUnsettled {
		u.posts = map[string]time.Time{}
	}
	u.posts[orderID] = now
}

// since tells whether the order was posted less than the time settle ago.
func (u *unsettled) since(orderID string, now time.Time, settle time.Duration) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	at, posted := u.posts[orderID]
	if posted && now.Sub(at) >= settle {
		delete(u.posts, orderID)
		return false
	}
	return posted
}

func (u *unsettled) settled(orderID string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.posts, orderID)
}
