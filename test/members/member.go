// Package members runs members of a consumer's group in processes of their own, so that they can be killed,
// paused and left behind, and keeps account of what they did to whom in which order.
package members

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"andes/adapters/kafka"
	"andes/adapters/postgres"
	"andes/eventstore"
)

// Config is what a member is told.
type Config struct {
	Brokers  []string
	Prefix   string // of the topics
	Consumer string
	Tiers    []time.Duration
	Failing  int           // percent of the records that fail once or twice
	Work     time.Duration // of the handler
	Refuses  bool          // nothing can be handled, for good

	Effects   postgres.Config // the event store that effects are committed to; without a URL there is none
	Unguarded bool            // the effects are not idempotent: each repeat has one more
}

// variable holds the configuration of a process that is to be a member.
const variable = "ANDES_TEST_MEMBER"

// Main takes over a process that was started as a member, and returns in any other.
func Main() {
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	if err := run(text); err != nil {
		fmt.Fprintln(os.Stderr, "member:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(text string) error {
	var cfg Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return err
	}
	registry, err := Registry()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	m := member{cfg: cfg, out: bufio.NewWriter(os.Stdout)}
	if cfg.Effects.URL != "" {
		working, done := context.WithCancel(context.Background()) // for as long as handlers may go on
		defer done()
		if m.effects, err = openEffects(working, cfg.Effects, registry); err != nil {
			return err
		}
	}
	names := kafka.Topics{Prefix: cfg.Prefix}
	return kafka.Consume(ctx, kafka.ConsumeConfig{
		Cluster: kafka.Cluster{Brokers: cfg.Brokers, ClientID: "member"}, Names: names, Registry: registry,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}, kafka.Consumer{
		Name: cfg.Consumer, Topics: []string{names.Events("order")}, Handle: m.handle, Ordered: true,
		Policy: kafka.Policy{Tries: 1, Tiers: cfg.Tiers},
	})
}

type member struct {
	cfg     Config
	effects eventstore.Executor // nil: what is told is the only effect
	mu      sync.Mutex
	out     *bufio.Writer
}

// handle tells the parent what it does, when it does it.
func (m *member) handle(ctx context.Context, record eventstore.Record) error {
	if m.cfg.Refuses {
		defer func() { _ = m.tell(refused) }() // the parent sees to what it misses
		_ = m.tell(begun)
	}
	if m.cfg.Work > 0 {
		timer := time.NewTimer(m.cfg.Work)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if delivery, _ := kafka.Delivered(ctx); delivery.Attempt <= failures(record.ID, m.cfg.Failing) {
		return errors.New("not yet")
	}
	if m.cfg.Refuses {
		return eventstore.Refuse("NO", "not as it is")
	}
	if m.effects != nil {
		if _, err := m.effects.Execute(ctx, eventstore.Request{Command: count{record, m.cfg.Unguarded}}); err != nil {
			return err
		}
	}
	return m.tell(time.Now().UnixNano(), record.Stream.Key, record.Version)
}

// What a member that refuses tells.
const (
	begun   = "begun"
	refused = "refused"
)

func (m *member) tell(words ...any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprintln(m.out, words...)
	return m.out.Flush()
}

// failures tells how often a record fails, wherever it is tried.
func failures(id string, percent int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	sum := int(h.Sum32() >> 8)
	if sum%100 >= percent {
		return 0
	}
	return 1 + sum/100%2
}

// placed is the one event of the load.
type placed struct {
	Note string `json:"note"`
}

// Registry knows the events of the load.
func Registry() (*eventstore.Registry, error) {
	type order struct{}
	orders := eventstore.NewAggregate(eventstore.Category[order]{Name: "order", Published: true, Events: []eventstore.Definition[order]{
		eventstore.Define("order.placed", func(*order, placed) {}),
	}})
	return eventstore.NewRegistry(orders, tallies)
}

// noteBytes makes a record of the load about 500 bytes long.
const noteBytes = 480

// Record is a version of a key.
func Record(key string, version int64) eventstore.Record {
	return eventstore.Record{
		Stream: eventstore.Stream{Category: "order", Key: key}, Version: version, Position: version,
		ID: fmt.Sprintf("%s-%d", key, version), Type: "order.placed", Schema: 1,
		Data: []byte(`{"note":"` + strings.Repeat("x", noteBytes) + `"}`), RecordedAt: time.Unix(1_800_000_000, 0),
	}
}
