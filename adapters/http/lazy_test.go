package httpapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

type contextKey struct{}

func TestALazyTimeoutIsAContextLikeAnyOther(t *testing.T) {
	for name, prepare := range map[string]func(context.Context){
		"nobody waited": func(context.Context) {}, "somebody did": func(ctx context.Context) { ctx.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, leave := context.WithCancel(context.WithValue(t.Context(), contextKey{}, "kept"))
				open := func() *lazyTimeout {
					l := &lazyTimeout{parent: parent, after: time.Second}
					prepare(l)
					if l.Err() != nil || l.Value(contextKey{}) != "kept" {
						t.Errorf("a new one: %v, %v", l.Err(), l.Value(contextKey{}))
					}
					return l
				}
				ends := func(ctx context.Context, want error) {
					t.Helper()
					<-ctx.Done()
					if !errors.Is(ctx.Err(), want) {
						t.Errorf("ended by %v, want %v", ctx.Err(), want)
					}
				}
				ended := open()
				ended.end()
				if !errors.Is(ended.Err(), context.Canceled) {
					t.Errorf("ended: %v", ended.Err())
				}
				child, cancel := context.WithTimeout(ended, time.Hour)
				ends(child, context.Canceled)
				cancel()

				late := open()
				child, cancel = context.WithTimeout(late, time.Hour)
				began := time.Now()
				ends(child, context.DeadlineExceeded)
				if took := time.Since(began); took != time.Second {
					t.Errorf("ended after %s", took)
				}
				ends(late, context.DeadlineExceeded)
				cancel()
				late.end()

				left := open()
				child, cancel = context.WithTimeout(left, time.Hour)
				leave()
				ends(child, context.Canceled)
				ends(left, context.Canceled)
				cancel()
			})
		})
	}
}

func TestALazyTimeoutEndsNoLaterThanItsParent(t *testing.T) {
	at := time.Now().Add(time.Minute)
	parent, leave := context.WithDeadline(t.Context(), at)
	defer leave()
	l := &lazyTimeout{parent: parent, after: time.Hour}
	defer l.end()
	if ends, bounded := l.Deadline(); !bounded || !ends.Equal(at) {
		t.Errorf("ends at %s", ends)
	}
}
