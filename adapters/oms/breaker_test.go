package oms_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"andes/eventstore"
	sim "andes/test/lab/oms"
)

// opened has the OMS fail until its breaker opens, and gives what makes it well again.
func (b *bench) opened(t *testing.T) (mend func()) {
	t.Helper()
	well := b.handler
	b.handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	record := b.confirmed("first")
	for range 20 {
		err := b.adapter.Handle(t.Context(), record)
		switch eventstore.Classify(err) {
		case eventstore.Unavailable:
			return func() { b.handler = well }
		case eventstore.Transient:
			continue
		}
		t.Fatalf("error %v of class %s", err, eventstore.Classify(err))
	}
	t.Fatal("the breaker does not open")
	return nil
}

func TestBehindAnOpenBreakerAnOrderWaitsAndIsThenRegisteredAtOnce(t *testing.T) {
	with(t, sim.Knobs{}, func(t *testing.T, b *bench) {
		mend := b.opened(t)
		record := b.confirmed("o1")
		for range 10 {
			if err := b.adapter.Handle(t.Context(), record); eventstore.Classify(err) != eventstore.Unavailable {
				t.Fatalf("error %v of class %s", err, eventstore.Classify(err))
			}
		}
		mend()
		time.Sleep(30 * time.Second)
		if err := b.adapter.Handle(t.Context(), record); err != nil {
			t.Error(err)
		}
		b.expectRegisteredOnce("o1")
	})
}

// The breaker lets the question through and not the POST behind it, for its probes are out. That POST was not
// sent, so the next delivery need not wait for what becomes of it.
func TestAPOSTThatTheBreakerRefusesWasNotSent(t *testing.T) {
	with(t, sim.Knobs{}, func(t *testing.T, b *bench) {
		mend := b.opened(t)
		time.Sleep(30 * time.Second)
		mend()
		release, well := make(chan struct{}), b.handler
		b.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-release
			well.ServeHTTP(w, r)
		})
		var others sync.WaitGroup
		for i := range 2 {
			other := b.confirmed(fmt.Sprint("other", i))
			others.Go(func() { _ = b.adapter.Handle(t.Context(), other) })
		}
		synctest.Wait()
		b.handler = well
		record := b.confirmed("o1")
		if err := b.adapter.Handle(t.Context(), record); eventstore.Classify(err) != eventstore.Unavailable {
			t.Errorf("error %v of class %s", err, eventstore.Classify(err))
		}
		close(release)
		others.Wait()
		if err := b.adapter.Handle(t.Context(), record); err != nil {
			t.Error(err)
		}
		refs := map[string]int{}
		for _, each := range b.registrations() {
			refs[each.Ref]++
		}
		if refs["o1"] != 1 {
			t.Errorf("registered: %v", refs)
		}
	})
}
