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
				open := func() (context.Context, context.CancelFunc) {
					ctx, cancel := withLazyTimeout(parent, time.Now().Add(time.Second))
					prepare(ctx)
					if ctx.Err() != nil || ctx.Value(contextKey{}) != "kept" {
						t.Errorf("a new one: %v, %v", ctx.Err(), ctx.Value(contextKey{}))
					}
					return ctx, cancel
				}
				ends := func(ctx context.Context, want error) {
					t.Helper()
					<-ctx.Done()
					if !errors.Is(ctx.Err(), want) {
						t.Errorf("ended by %v, want %v", ctx.Err(), want)
					}
				}
				cancelled, cancel := open()
				child, cancelChild := context.WithTimeout(cancelled, time.Hour)
				cancel()
				if !errors.Is(cancelled.Err(), context.Canceled) {
					t.Errorf("cancelled: %v", cancelled.Err())
				}
				ends(child, context.Canceled)
				cancelChild()

				late, cancel := open()
				child, cancelChild = context.WithTimeout(late, time.Hour)
				began := time.Now()
				ends(child, context.DeadlineExceeded)
				if took := time.Since(began); took != time.Second {
					t.Errorf("ended after %s", took)
				}
				ends(late, context.DeadlineExceeded)
				cancelChild()
				cancel()

				overdue, cancel := open()
				time.Sleep(2 * time.Second)
				if !errors.Is(overdue.Err(), context.DeadlineExceeded) {
					t.Errorf("overdue: %v", overdue.Err())
				}
				cancel()

				left, cancel := open()
				leave()
				if !errors.Is(left.Err(), context.Canceled) {
					t.Errorf("left: %v", left.Err())
				}
				cancel()
			})
		})
	}
}

func TestALazyTimeoutEndsNoLaterThanItsParent(t *testing.T) {
	at := time.Now().Add(time.Minute)
	parent, leave := context.WithDeadline(t.Context(), at)
	defer leave()
	ctx, cancel := withLazyTimeout(parent, at.Add(time.Hour))
	defer cancel()
	if ends, bounded := ctx.Deadline(); !bounded || !ends.Equal(at) {
		t.Errorf("ends at %s", ends)
	}
}
