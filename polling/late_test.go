package polling_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"andes/commands/product"
	"andes/commands/source"
	"andes/polling"
)

// oneAtATime is a lease of several processes, which can be taken from its holder.
type oneAtATime struct {
	held   chan struct{} // full: somebody has it
	mu     sync.Mutex
	cancel context.CancelFunc
	most   int // processes at once
	now    int
}

func (l *oneAtATime) Hold(ctx context.Context, _ string, work func(context.Context) error) error {
	select {
	case l.held <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	l.cancel = cancel
	l.now++
	l.most = max(l.most, l.now)
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.now--
		l.mu.Unlock()
	}()
	stopped := make(chan error, 1)
	go func() { stopped <- work(ctx) }()
	var err error
	select {
	case err = <-stopped:
		<-l.held
		return err
	case <-ctx.Done():
	}
	<-l.held // the server gave it up; the holder learns of it later
	return <-stopped
}

func (l *oneAtATime) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel()
}

// A source that answers after 90 seconds, asked by three processes every 30: one at a time. One that lost the
// lease gets its old answer after its successor got a newer one, and changes nothing by it.
// Field case POLL-06.
func TestALateAnswerOfALostLeaseChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, 10)
		at := time.Now().Add(-time.Hour)
		b.table.put(row{id: "A", at: at, version: 1})
		lease := &oneAtATime{held: make(chan struct{}, 1)}
		slow := func(_ context.Context, since polling.Since) (polling.ChangePage, error) {
			page, err := b.table.fetch(context.Background(), since) // what the source had when it was asked
			time.Sleep(90 * time.Second)                            // and it heeds nobody who leaves
			return page, err
		}
		ctx, stop := context.WithCancel(t.Context())
		var processes sync.WaitGroup
		for range 3 {
			poller, err := polling.New(polling.Config{
				Feed: source.ERPProducts, Executor: b.store, Reader: b.store, Lease: lease, Interval: 30 * time.Second,
				Source: polling.Changes{Fetch: slow, Overlap: overlap, Now: time.Now}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			processes.Go(func() { _ = poller.Run(ctx) })
		}
		time.Sleep(5 * time.Minute)
		b.table.mu.Lock()
		reads := b.table.reads
		b.table.mu.Unlock()
		if lease.most != 1 || reads > 4 {
			t.Errorf("%d processes polled at once, and read %d times in 5 minutes", lease.most, reads)
		}
		time.Sleep(10 * time.Second) // a process waits for its answer
		b.table.put(row{id: "A", at: at.Add(time.Minute), version: 2})
		lease.lose()
		b.table.put(row{id: "A", at: at.Add(2 * time.Minute), version: 3})
		time.Sleep(10 * time.Minute)
		b.expect(map[string]int64{"A": 3})
		log, err := b.store.ReadAll(t.Context(), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range log {
			if record.Stream == product.Aggregate.Stream("A") && record.Version > 2 {
				t.Errorf("version %d of the stream: %s", record.Version, record.Data)
			}
		}
		stop()
		processes.Wait()
	})
}
