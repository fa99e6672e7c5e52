// Package broker runs the embedded broker: kfake, a Kafka in one Go process,
// with its log on disk. It stands in for Apache Kafka where there is no JVM,
// and in conformance tests that want a broker of their own.
//
// It speaks the same protocol (groups, transactions, compaction) and keeps its
// records over a kill, but it is one broker for development: never production.
package broker

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// brokerConfigs make the embedded broker behave like the Kafka that
// scripts/services starts: compaction within seconds instead of once an hour.
var brokerConfigs = map[string]string{
	"log.cleaner.backoff.ms": "15000",
}

// Config says where an embedded broker listens and keeps its records.
type Config struct {
	// Addr is the listen address, host:port. Port 0 takes a free one.
	Addr string
	// Dir holds the records. Empty keeps them in memory only.
	Dir string
	// SyncWrites makes every produced batch durable before it is acknowledged.
	SyncWrites bool
	// Topics are created with one partition each when Dir is new.
	Topics []string
	// Logf receives warnings and errors of the broker; nil drops them.
	Logf func(format string, args ...any)
}

// Embedded is a running embedded broker.
type Embedded struct {
	cluster *kfake.Cluster
	addr    string
}

// Start runs an embedded broker until Close. It listens on exactly one address.
func Start(cfg Config) (*Embedded, error) {
	// Metadata names the broker by its listener's address, so the listener is
	// opened here, on the address the caller asked for.
	listen := func(network, _ string) (net.Listener, error) { return net.Listen(network, cfg.Addr) }
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.ListenFn(listen),
		kfake.BrokerConfigs(brokerConfigs),
		kfake.DefaultNumPartitions(1),
	}
	if cfg.Dir != "" {
		opts = append(opts, kfake.DataDir(cfg.Dir))
	}
	if cfg.SyncWrites {
		opts = append(opts, kfake.SyncWrites())
	}
	if len(cfg.Topics) > 0 {
		opts = append(opts, kfake.SeedTopics(1, cfg.Topics...))
	}
	if cfg.Logf != nil {
		opts = append(opts, kfake.WithLogger(logger(cfg.Logf)))
	}
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		return nil, fmt.Errorf("embedded broker on %s: %w", cfg.Addr, err)
	}
	addrs := cluster.ListenAddrs()
	if len(addrs) != 1 {
		cluster.Close()
		return nil, fmt.Errorf("embedded broker on %s: listens on %v, want one address", cfg.Addr, addrs)
	}
	return &Embedded{cluster: cluster, addr: addrs[0]}, nil
}

// StartEmbedded runs an embedded broker for one test and closes it when the
// test ends. An empty dir means a temporary one of the test.
func StartEmbedded(tb testing.TB, dir string) *Embedded {
	tb.Helper()
	if dir == "" {
		dir = filepath.Join(tb.TempDir(), "kafka")
	}
	b, err := Start(Config{Addr: "127.0.0.1:0", Dir: dir})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(b.Close)
	return b
}

// Addr is the host:port to give to clients.
func (b *Embedded) Addr() string { return b.addr }

// Compact runs compaction now, so that a test need not wait for the cleaner.
func (b *Embedded) Compact() { b.cluster.Compact() }

// Close stops the broker after it has written its state to disk.
func (b *Embedded) Close() { b.cluster.Close() }

// logger passes on what kfake reports as a warning or an error.
type logger func(format string, args ...any)

func (l logger) Logf(level kfake.LogLevel, format string, args ...any) {
	if level == kfake.LogLevelWarn || level == kfake.LogLevelError {
		l(format, args...)
	}
}
