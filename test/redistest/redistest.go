// Package redistest gives a test keys of its own in a real Redis, so that tests run in parallel.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"andes/adapters/redis"
)

// Addrs gives the test Redis, or fails the test: a missing service is a failure.
func Addrs(t testing.TB) []string {
	t.Helper()
	addrs := os.Getenv("ANDES_REDIS_ADDRS")
	if addrs == "" {
		t.Fatal("ANDES_REDIS_ADDRS is not set: run the tests by `make test`, or `eval \"$(scripts/services env test)\"` after `scripts/services start test`")
	}
	return strings.Split(addrs, ",")
}

var counter atomic.Int64

// Config gives the test Redis with a prefix of keys that no other test has. What is under it is deleted
// when the test ends.
func Config(t testing.TB) redis.Config {
	t.Helper()
	config := redis.Config{
		Addrs:  Addrs(t),
		Prefix: fmt.Sprintf("test:%d:%d:%d:", os.Getpid(), time.Now().UnixNano(), counter.Add(1)),
	}
	t.Cleanup(func() { drop(t, config) })
	return config
}

// New opens a client with a prefix of its own; it is closed when the test ends.
func New(t testing.TB) *redis.Client {
	t.Helper()
	return Open(t, Config(t))
}

// calm is how long a client waits for its server, unless the test says otherwise: a machine that has too much to do is
// no failure of Redis.
const calm = time.Minute

// Open opens a client; it is closed when the test ends.
func Open(t testing.TB, config redis.Config) *redis.Client {
	t.Helper()
	for _, timeout := range []*time.Duration{&config.DialTimeout, &config.WriteTimeout, &config.StallTimeout} {
		if *timeout == 0 {
			*timeout = calm
		}
	}
	client, err := redis.Open(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// Raw opens a client of the driver, to look at keys and to break things. It is closed when the test ends.
func Raw(t testing.TB, addrs ...string) rueidis.Client {
	t.Helper()
	client, err := connect(addrs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func connect(addrs []string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress: addrs, DisableCache: true, Dialer: net.Dialer{Timeout: calm}, ConnWriteTimeout: calm,
	})
}

// scanned is how many keys one SCAN looks at.
const scanned = 1000

func drop(t testing.TB, config redis.Config) {
	client, err := connect(config.Addrs)
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, node := range client.Nodes() {
		for cursor := uint64(0); ; {
			page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(config.Prefix+"*").Count(scanned).Build()).AsScanEntry()
			if err != nil {
				break // a replica, or a node that the test stopped
			}
			for _, key := range page.Elements {
				node.Do(ctx, node.B().Unlink().Key(key).Build())
			}
			if cursor = page.Cursor; cursor == 0 {
				break
			}
		}
	}
}
