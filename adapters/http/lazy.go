package httpapi

import (
	"context"
	"sync"
	"time"
)

// lazyTimeout is a context that ends at a time, like that of context.WithDeadline. Its timer is only started when
// somebody waits for its end: most reads are answered from memory, and wait for nothing.
type lazyTimeout struct {
	parent context.Context
	at     time.Time

	mu     sync.Mutex
	waited context.Context // nil: nobody did
	cancel context.CancelFunc
	over   bool // cancelled before anybody did
}

func withLazyTimeout(parent context.Context, at time.Time) (context.Context, context.CancelFunc) {
	if sooner, bounded := parent.Deadline(); bounded && sooner.Before(at) {
		at = sooner
	}
	l := &lazyTimeout{parent: parent, at: at}
	return l, l.end
}

func (l *lazyTimeout) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.cancel != nil {
		l.cancel()
	}
}

// Deadline implements context.Context.
func (l *lazyTimeout) Deadline() (time.Time, bool) { return l.at, true }

// Done implements context.Context.
func (l *lazyTimeout) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waited == nil {
		l.waited, l.cancel = context.WithDeadline(l.parent, l.at)
		if l.over {
			l.cancel()
		}
	}
	return l.waited.Done()
}

// Err implements context.Context.
func (l *lazyTimeout) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.waited != nil:
		return l.waited.Err()
	case l.over:
		return context.Canceled
	case l.parent.Err() != nil:
		return l.parent.Err()
	case !time.Now().Before(l.at):
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context.
func (l *lazyTimeout) Value(key any) any {
	l.mu.Lock()
	from := l.waited
	l.mu.Unlock()
	if from == nil {
		from = l.parent
	}
	return from.Value(key) // what waits for the end finds the context that has it
}
