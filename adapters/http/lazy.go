package httpapi

import (
	"context"
	"sync"
	"time"
)

// lazyTimeout is a context that ends some time after somebody begins to wait for its end, and then is like that of
// context.WithTimeout. As long as nobody does, it costs no timer: most reads are answered from memory, and wait
// for nothing.
type lazyTimeout struct {
	parent context.Context
	after  time.Duration

	mu     sync.Mutex
	waited context.Context // nil: nobody did
	cancel context.CancelFunc
	over   bool // ended before anybody did
}

// end releases what the context holds.
func (l *lazyTimeout) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.cancel != nil {
		l.cancel()
	}
}

// wait gives the context that has the timer.
func (l *lazyTimeout) wait() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waited == nil {
		l.waited, l.cancel = context.WithTimeout(l.parent, l.after)
		if l.over {
			l.cancel()
		}
	}
	return l.waited
}

// Deadline implements context.Context.
func (l *lazyTimeout) Deadline() (time.Time, bool) { return l.wait().Deadline() }

// Done implements context.Context.
func (l *lazyTimeout) Done() <-chan struct{} { return l.wait().Done() }

// Err implements context.Context.
func (l *lazyTimeout) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.waited != nil:
		return l.waited.Err()
	case l.over:
		return context.Canceled
	}
	return l.parent.Err()
}

// Value implements context.Context.
func (l *lazyTimeout) Value(key any) any {
	l.mu.Lock()
	from := l.waited
	l.mu.Unlock()
	if from == nil {
		from = l.parent
	}
	return from.Value(key) // whoever waits for the end finds the context that has it
}
