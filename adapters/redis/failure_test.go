package redis_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"andes/adapters/redis"
	"andes/commands/source"
	"andes/eventstore"
	"andes/projections"
	"andes/test/redistest"
)

func TestRefusalsOfTheServerAreTransientAndPass(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	client := redistest.Open(t, redis.Config{Addrs: []string{server.Addr}})
	model := newModel(t, client, redis.ReadModelConfig{})
	apply(t, model, stockEntry("A", 1, 1))
	position := int64(1)
	for name, fault := range map[string]struct{ begin, end []string }{
		"READONLY":  {[]string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}},
		"OOM":       {[]string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}},
		"NOPERM":    {[]string{"ACL", "SETUSER", "default", "-evalsha"}, []string{"ACL", "SETUSER", "default", "+evalsha"}},
		"NOREPLICA": {[]string{"CONFIG", "SET", "min-replicas-to-write", "1"}, []string{"CONFIG", "SET", "min-replicas-to-write", "0"}},
	} {
		position++
		server.Must(fault.begin...)
		err := model.Apply(t.Context(), []projections.Entry{stockEntry("A", position, position)})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if class := eventstore.Classify(err); class != eventstore.Transient {
			t.Errorf("%s is %s", name, class)
		}
		server.Must(fault.end...)
		apply(t, model, stockEntry("A", position, position))
		if got := netOf(t, client, "A"); got != strconv.FormatInt(position, 10) {
			t.Errorf("%s: the stock is %s, want %d", name, got, position)
		}
	}
}

func TestACancelledWriteIsAShutdown(t *testing.T) {
	t.Parallel()
	model := newModel(t, redistest.New(t), redis.ReadModelConfig{})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	err := model.Apply(cancelled, []projections.Entry{stockEntry("A", 1, 1)})
	if !errors.Is(err, context.Canceled) || eventstore.Classify(err) != eventstore.Shutdown {
		t.Errorf("%v is %s", err, eventstore.Classify(err))
	}
}

func TestAServerThatIsNotThereIsAnErrorAtOpen(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	if _, err := redis.Open(t.Context(), redis.Config{Addrs: []string{listener.Addr().String()}}); err == nil || !strings.Contains(err.Error(), listener.Addr().String()) {
		t.Errorf("error %v does not name the address", err)
	}
}

func TestFaultsOfTheConfigurationAreReportedTogether(t *testing.T) {
	t.Parallel()
	_, err := redis.Open(t.Context(), redis.Config{Prefix: "{x}", DialTimeout: -1})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"no address", "braces", "negative"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %q", part, err)
		}
	}
}

func TestConnectionsThatAreRenewedAreNotNoticed(t *testing.T) {
	t.Parallel()
	config := redistest.Config(t)
	config.ConnLifetime = 10 * time.Millisecond
	client := redistest.Open(t, config)
	model, reader := newModel(t, client, redis.ReadModelConfig{}), redis.NewReader(client)
	var last atomic.Int64
	var wait sync.WaitGroup
	until := time.Now().Add(50 * config.ConnLifetime)
	for range 4 {
		wait.Go(func() {
			for time.Now().Before(until) {
				if err := model.Apply(t.Context(), []projections.Entry{stockEntry("A", last.Add(1), 1)}); err != nil {
					t.Error(err)
				}
				if _, err := reader.Stock(t.Context(), []string{"A"}); err != nil {
					t.Error(err)
				}
				if _, _, err := reader.Watermark(t.Context(), source.WMSStock); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}
