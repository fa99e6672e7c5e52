package readmodel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"andes/adapters/redis"
	"andes/commands/stock"
	"andes/eventstore"
	"andes/queries"
	"andes/test/redistest"
)

const recoveryWait = time.Minute

// retailer has SKUs in a store and in a Redis of its own, and counts what is read from the store.
type retailer struct {
	server  *redistest.Server
	store   eventstore.Store
	model   *redis.ReadModel
	reader  *queries.Fallback
	copy    *redis.Reader
	skus    []string
	subject Subject
	reads   atomic.Int64
}

func (r *retailer) States(ctx context.Context, streams []eventstore.Stream) (map[eventstore.Stream]eventstore.StateRecord, error) {
	r.reads.Add(1)
	return r.store.States(ctx, streams)
}

const sold = 50

func open(t *testing.T) *retailer {
	t.Helper()
	r := &retailer{server: redistest.StartServer(t), store: memory(t)}
	client := redistest.Open(t, redis.Config{
		Addrs: []string{r.server.Addr}, WriteTimeout: 500 * time.Millisecond,
		DialTimeout: redis.DefaultConfig.DialTimeout, StallTimeout: redis.DefaultConfig.StallTimeout,
	})
	r.model, r.copy = model(t, client), redis.NewReader(client)
	calm := model(t, redistest.Open(t, redis.Config{Addrs: []string{r.server.Addr}})) // before anything happens to Redis
	r.reader = fallback(t, queries.FallbackConfig{Copy: r.copy, States: r, PutBack: r.model.Project, StatesTimeout: busy})
	r.subject = Subject{Reader: r.reader, Store: r.store, Project: project(r.store, calm)}
	var commands []eventstore.Command
	for i := range sold {
		r.skus = append(r.skus, fmt.Sprint("S", i))
		commands = append(commands, stock.Report{SKU: r.skus[i], OnHand: int64(i), SourceVersion: 1, At: at})
	}
	r.subject.run(t, commands...)
	return r
}

// right tells what is wrong with an answer for all SKUs, which must be there and have their stock.
func (r *retailer) right(ctx context.Context) error {
	found, err := r.reader.Stock(ctx, append([]string{"unknown"}, r.skus...))
	if err != nil {
		return err
	}
	if len(found) != sold {
		return fmt.Errorf("%d SKUs found, want %d", len(found), sold)
	}
	for i, sku := range r.skus {
		if found[sku].Net != int64(i) {
			return fmt.Errorf("%s has %d, want %d", sku, found[sku].Net, i)
		}
	}
	return nil
}

// slowest bounds a read while Redis is in trouble: some timeouts of the copy, and what a machine with far too much to do
// adds. A read that waited for the end of the trouble would not end at all: the trouble ends after reads.
const slowest = 30 * time.Second

// readDuring reads in some goroutines until stop is called; each answer must be right and in time.
func (r *retailer) readDuring(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				if err := r.right(ctx); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
					return
				}
				if took := time.Since(began); took > slowest {
					t.Errorf("a read took %s", took)
				}
			}
		})
	}
	return func() { cancel(); wait.Wait() }
}

// complete tells whether Redis alone knows every SKU.
func (r *retailer) complete(t *testing.T) bool {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	copied, err := r.copy.Stock(ctx, r.skus)
	return err == nil && len(copied.Found) == sold
}

// spared tells whether reads are answered without the store.
func (r *retailer) spared(t *testing.T) bool {
	before := r.reads.Load()
	return r.right(t.Context()) == nil && r.reads.Load() == before
}

// Field cases: writes that go on to the old primary until a restart; data that is gone after a failover;
// one script that blocks the server; a client that never comes back.
var faults = map[string]struct{ begin, end func(*retailer) }{
	"flushed": {
		func(r *retailer) { r.server.Must("FLUSHALL") }, func(*retailer) {},
	},
	"killed and started empty": {
		func(r *retailer) { r.server.Kill() }, func(r *retailer) { r.server.Start() },
	},
	"hanging": {
		func(r *retailer) { r.server.Hang() }, func(r *retailer) { r.server.Resume() },
	},
	"busy with a script that does not end": {
		func(r *retailer) {
			r.server.Must("CONFIG", "SET", "busy-reply-threshold", "50")
			r.server.Send("EVAL", "while true do end", "0")
		},
		func(r *retailer) { r.server.Must("SCRIPT", "KILL") },
	},
	"connected and silent for a while": {
		func(r *retailer) { r.server.Must("CLIENT", "PAUSE", "3000", "ALL") }, func(*retailer) {},
	},
	"killing connections": {
		func(r *retailer) {
			for range 20 {
				r.server.Must("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			}
		},
		func(*retailer) {},
	},
	"evicting what it has no room for": {
		func(r *retailer) {
			r.server.Must("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
			r.server.Must("CONFIG", "SET", "maxmemory", "1")
		},
		func(r *retailer) { r.server.Must("CONFIG", "SET", "maxmemory", "0") },
	},
	"read-only": {
		func(r *retailer) { r.server.Must("REPLICAOF", "127.0.0.1", "1") }, func(r *retailer) { r.server.Must("REPLICAOF", "NO", "ONE") },
	},
	"read-only and without data": {
		func(r *retailer) { r.server.Must("FLUSHALL"); r.server.Must("REPLICAOF", "127.0.0.1", "1") },
		func(r *retailer) { r.server.Must("REPLICAOF", "NO", "ONE") },
	},
	"out of memory and without data": {
		func(r *retailer) { r.server.Must("FLUSHALL"); r.server.Must("CONFIG", "SET", "maxmemory", "1") },
		func(r *retailer) { r.server.Must("CONFIG", "SET", "maxmemory", "0") },
	},
}

// Field case REDIS-02, REDIS-04.
func TestAnswersStayRightWhateverHappensToRedis(t *testing.T) {
	t.Parallel()
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			r := open(t)
			if err := r.right(t.Context()); err != nil {
				t.Fatal(err)
			}
			stop := r.readDuring(t)
			fault.begin(r)
			for range 20 {
				if err := r.right(t.Context()); err != nil {
					t.Error(err)
				}
			}
			fault.end(r)
			if !redistest.Eventually(recoveryWait, func() bool { return r.complete(t) }) {
				t.Error("Redis does not fill again by itself")
			}
			stop()
			if !redistest.Eventually(recoveryWait, func() bool { return r.spared(t) }) {
				t.Error("reads do not come back to Redis")
			}
		})
	}
}

// gated lets a test hold an answer of the states back.
type gated struct {
	store   eventstore.Store
	reached chan struct{}
	release chan struct{}
}

func (g gated) States(ctx context.Context, streams []eventstore.Stream) (map[eventstore.Stream]eventstore.StateRecord, error) {
	found, err := g.store.States(ctx, streams)
	close(g.reached)
	<-g.release
	return found, err
}

func TestAStateThatIsPutBackLateDoesNotOverwriteANewerOne(t *testing.T) {
	t.Parallel()
	client, store := redistest.New(t), memory(t)
	written := model(t, client)
	slow := gated{store, make(chan struct{}), make(chan struct{})}
	reader := fallback(t, queries.FallbackConfig{
		Copy: redis.NewReader(client), States: slow, PutBack: written.Project, CopyTimeout: busy, StatesTimeout: busy, PutTimeout: busy,
	})
	subject := Subject{Reader: reader, Store: store}
	subject.run(t, stock.Report{SKU: "A", OnHand: 9, SourceVersion: 1, At: at})
	answered := make(chan map[string]queries.StockView, 1)
	go func() {
		found, err := reader.Stock(t.Context(), []string{"A", "B"})
		if err != nil {
			t.Error(err)
		}
		answered <- found
	}()
	<-slow.reached
	subject.Project = project(store, written)
	subject.run(t, stock.Report{SKU: "A", OnHand: 2, SourceVersion: 2, At: at}, stock.Report{SKU: "B", OnHand: 1, SourceVersion: 1, At: at})
	close(slow.release)
	if found := <-answered; found["A"].Net != 9 {
		t.Errorf("the held read gives %v", found)
	}
	reader.Close() // what it read is put back by then
	copied, err := redis.NewReader(client).Stock(t.Context(), []string{"A", "B"})
	if err != nil || copied.Found["A"].Net != 2 || copied.Found["B"].Net != 1 {
		t.Errorf("Redis has %+v, %v", copied, err)
	}
}
