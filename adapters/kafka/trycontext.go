package kafka

import (
	"context"
	"sync"
	"time"
)

// tryContext is a context with a deadline whose timer is made when somebody first asks for Done: a handler
// that needs no clock, as of an event that is none of its business, does not pay for one.
type tryContext struct {
	context.Context
	deadline time.Time

	mu     sync.Mutex
	over   bool
	timed  context.Context
	cancel context.CancelFunc
}

func withTimeout(parent context.Context, timeout time.Duration) *tryContext {
	return &tryContext{Context: parent, deadline: time.Now().Add(timeout)}
}

// Deadline implements context.Context.
func (c *tryContext) Deadline() (time.Time, bool) {
	if earlier, has := c.Context.Deadline(); has && earlier.Before(c.deadline) {
		return earlier, true
	}
	return c.deadline, true
}

// Done implements context.Context.
func (c *tryContext) Done() <-chan struct{} { return c.clock().Done() }

// Err implements context.Context.
func (c *tryContext) Err() error {
	if made := c.made(); made == nil && c.Context.Err() == nil && time.Now().Before(c.deadline) {
		return nil
	}
	return c.clock().Err()
}

// Value implements context.Context. What the context package asks for, to tie children to their parent, is
// known by the timed one.
func (c *tryContext) Value(key any) any {
	if made := c.made(); made != nil {
		return made.Value(key)
	}
	return c.Context.Value(key)
}

// end is called when the try is over.
func (c *tryContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.cancel != nil {
		c.cancel()
	}
}

func (c *tryContext) made() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.timed
}

func (c *tryContext) clock() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		c.timed, c.cancel = context.WithDeadline(c.Context, c.deadline)
		if c.over {
			c.cancel()
		}
	}
	return c.timed
}
