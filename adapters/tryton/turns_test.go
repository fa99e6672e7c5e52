package tryton

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestTurnsAreTakenOneByOneAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken turns
		leave, err := taken.enter(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		impatient, giveUp := context.WithCancel(t.Context())
		results := make(chan error, 3)
		go func() {
			_, err := taken.enter(impatient, "a")
			results <- err
		}()
		go func() {
			next, err := taken.enter(t.Context(), "a")
			if err == nil {
				next()
			}
			results <- err
		}()
		if other, err := taken.enter(t.Context(), "b"); err == nil {
			other()
		} else {
			t.Error(err)
		}
		synctest.Wait()
		if len(results) != 0 {
			t.Error("somebody did not wait")
		}
		giveUp()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up got %v", err)
		}
		leave()
		if err := <-results; err != nil {
			t.Error(err)
		}
		if len(taken.taken) != 0 {
			t.Errorf("%d keys are remembered", len(taken.taken))
		}
	})
}
