package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"andes/adapters/kafka"
	"andes/adapters/postgres"
	"andes/adapters/redis"
	"andes/catalogue"
	"andes/eventstore"
)

// pipeline is the stream side: executor, relay and projector, as the roles run them.
type pipeline struct {
	store   *postgres.Store
	redis   *redis.Client
	probe   *prober
	prefix  string
	changes int
	cancel  context.CancelFunc
	running sync.WaitGroup
}

const partitions = 3

// relayLog gives the relay its port.
type relayLog struct{ *postgres.RelayLog }

func (l relayLog) Acquire(ctx context.Context) (kafka.Session, error) { return l.RelayLog.Acquire(ctx) }

func startPipeline(ctx context.Context) (*pipeline, error) {
	name := fmt.Sprintf("bench_stream_%d", time.Now().UnixNano())
	registry, err := catalogue.Registry()
	if err != nil {
		return nil, err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	config := postgres.Config{URL: os.Getenv("ANDES_POSTGRES_URL"), Schema: name}
	if err := postgres.Migrate(ctx, config); err != nil {
		return nil, err
	}
	db, err := postgres.Open(ctx, config, registry)
	if err != nil {
		return nil, err
	}
	settings := postgres.DefaultExecutorConfig()
	settings.Now, settings.Logger = time.Now, logger
	settings.NewID = func() string { return uuid.Must(uuid.NewV7()).String() }
	executor, err := postgres.NewExecutor(db, settings)
	if err != nil {
		return nil, err
	}
	client, err := redis.Open(ctx, redis.Config{Addrs: strings.Split(os.Getenv("ANDES_REDIS_ADDRS"), ","), Prefix: name + ":"})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	p := &pipeline{store: &postgres.Store{Executor: executor, DB: db}, redis: client, probe: &prober{reader: redis.NewReader(client), awaits: map[string]chan struct{}{}}, prefix: name, cancel: cancel}
	p.running.Go(func() { _ = executor.Run(running) })
	p.running.Go(func() { p.probe.run(running) })
	return p, p.stream(running, registry, logger)
}

// stream starts relay and projector.
func (p *pipeline) stream(ctx context.Context, registry *eventstore.Registry, logger *slog.Logger) error {
	topics := kafka.Topics{Prefix: p.prefix + "."}
	cluster := kafka.Cluster{Brokers: strings.Split(os.Getenv("ANDES_KAFKA_BROKERS"), ","), ClientID: "bench"}
	provision := kafka.Provision{Cluster: cluster, Topics: topics.All(registry, "projector"), Settings: kafka.Settings{Partitions: partitions}}
	if err := provision.Ensure(ctx); err != nil {
		return err
	}
	relay, err := kafka.NewRelay(kafka.RelayConfig{
		Cluster: cluster, Topics: topics, Registry: registry, Logger: logger,
		Log: relayLog{postgres.NewRelayLog(p.store.DB, postgres.DefaultRelayConfig())},
	})
	if err != nil {
		return err
	}
	modelConfig := redis.DefaultReadModelConfig()
	modelConfig.Logger = logger
	model, err := redis.NewReadModel(p.redis, modelConfig)
	if err != nil {
		return err
	}
	feed := kafka.StateFeed{Cluster: cluster, Names: topics, Group: "projector", Topics: []string{topics.State("stock")}, Logger: logger}
	p.running.Go(func() { _ = relay.Run(ctx) })
	p.running.Go(func() { _ = feed.Run(ctx, model.Project) })
	return nil
}

func (p *pipeline) stop() {
	p.cancel()
	p.running.Wait()
	p.redis.Close()
	p.store.Close()
}

// next names a SKU that was not used before.
func (p *pipeline) next() string {
	p.changes++
	return fmt.Sprintf("SKU-%08d", p.changes)
}

// Probing of Redis.
const (
	probeEvery = time.Millisecond
	probeWait  = 30 * time.Second
)

// prober asks Redis for everything that is on its way, in one call a millisecond, so that what it costs
// does not grow with what it measures.
type prober struct {
	reader *redis.Reader
	mu     sync.Mutex
	awaits map[string]chan struct{}
}

func (p *prober) run(ctx context.Context) {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		p.mu.Lock()
		skus := slices.Collect(maps.Keys(p.awaits))
		p.mu.Unlock()
		if len(skus) == 0 {
			continue
		}
		copied, err := p.reader.Stock(ctx, skus)
		if err != nil {
			continue // what does not arrive is reported by who waits
		}
		p.mu.Lock()
		for sku := range copied.Found {
			if arrived, waited := p.awaits[sku]; waited {
				close(arrived)
				delete(p.awaits, sku)
			}
		}
		p.mu.Unlock()
	}
}

// arrived waits until the SKU is readable in Redis.
func (p *prober) arrived(ctx context.Context, sku string) error {
	arrived := make(chan struct{})
	p.mu.Lock()
	p.awaits[sku] = arrived
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	select {
	case <-arrived:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s did not arrive: %w", sku, ctx.Err())
	}
}
