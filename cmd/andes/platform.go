package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"andes/adapters/guard"
	"andes/adapters/kafka"
	"andes/adapters/postgres"
	"andes/adapters/redis"
	"andes/adapters/tryton"
	"andes/catalogue"
	"andes/changes"
	"andes/eventstore"
	"andes/polling"
	"andes/promo"
	"andes/queries"
	"andes/quota"
	"andes/tuning"
)

// platform is what the roles share. It is opened once and closed last.
type platform struct {
	settings *settings
	logger   *slog.Logger
	metrics  *prometheus.Registry
	registry *eventstore.Registry
	topics   kafka.Topics
	cluster  kafka.Cluster

	store   *postgres.Store
	redis   *redis.Client
	model   *redis.ReadModel // made on first use
	closers []func()         // before the clients are closed
	polls   *polling.Metrics

	limits   *quota.Quotas
	desk     *quota.Desk
	partners *queries.CachedPartners
	fallback *queries.Fallback
	followed *changes.Feed

	guards       []*guard.Guard // of the systems that this process calls
	guardMetrics *guard.Metrics
	tuning       *tuning.Desk

	promo       *promo.Desk
	promoTold   []func(effect promo.State) // when what counts of promo mode changes
	keepsPromos bool                       // the role ops: it measures what concerns all, and keeps reports
	refusals    refusals                   // by quotas
	trytons     map[string]*tryton.Client  // by URL
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// openPlatform connects to every service, waiting a bounded time for those that are not up yet.
func openPlatform(ctx context.Context, s *settings, logger *slog.Logger) (*platform, error) {
	if err := s.required("postgres_url", "redis_addrs", "kafka_brokers"); err != nil {
		return nil, err
	}
	registry, err := catalogue.Registry()
	if err != nil {
		return nil, err
	}
	p := &platform{
		settings: s, logger: logger, registry: registry,
		metrics: prometheus.NewRegistry(),
		topics:  kafka.Topics{Prefix: s.KafkaPrefix},
		cluster: kafka.Cluster{Brokers: list(s.KafkaBrokers), ClientID: "andes"},
	}
	p.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := p.openStore(ctx); err != nil {
		return nil, err
	}
	if err := p.openServices(ctx); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *platform) openStore(ctx context.Context) error {
	config := p.settings.postgres()
	db, err := eventually(ctx, p.settings.StartWait, "PostgreSQL", func(ctx context.Context) (*postgres.DB, error) {
		return postgres.Open(ctx, config, p.registry)
	})
	if err != nil {
		return err
	}
	executorConfig := postgres.DefaultExecutorConfig()
	executorConfig.Now, executorConfig.NewID, executorConfig.Logger = time.Now, newID, p.logger
	executorConfig.Observe = observeBatches(p.metrics)
	executor, err := postgres.NewExecutor(db, executorConfig)
	if err != nil {
		db.Close()
		return err
	}
	p.store = &postgres.Store{Executor: executor, DB: db}
	return nil
}

func (p *platform) openServices(ctx context.Context) error {
	client, err := eventually(ctx, p.settings.StartWait, "Redis", func(ctx context.Context) (*redis.Client, error) {
		return redis.Open(ctx, redis.Config{Addrs: list(p.settings.RedisAddrs), Prefix: p.settings.RedisPrefix, NearBytes: p.settings.RedisNear << 20})
	})
	if err != nil {
		return err
	}
	p.redis = client
	if err := client.Measure(p.metrics); err != nil {
		return err
	}
	_, err = eventually(ctx, p.settings.StartWait, "Kafka", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.provision().Check(ctx)
	})
	return err
}

// onClose has something closed before the clients that it uses.
func (p *platform) onClose(closeIt func()) { p.closers = append(p.closers, closeIt) }

func (p *platform) close() {
	for _, closeIt := range p.closers {
		closeIt()
	}
	if p.redis != nil {
		p.redis.Close()
	}
	if p.store != nil {
		p.store.Close()
	}
}

func (s *settings) postgres() postgres.Config {
	return postgres.Config{URL: s.PostgresURL, Schema: s.PostgresSchema, MaxConns: int32(s.PostgresConns)}
}

func (p *platform) provision() kafka.Provision {
	topics := append(p.topics.All(p.registry), kafka.Topic{Name: p.topics.DLQ(projectorName), Kind: kafka.DeadLetterTopic})
	for _, c := range p.settings.consumers() {
		topics = append(topics, p.topics.Ladder(c.name, c.policy.Tiers...)...)
	}
	return kafka.Provision{
		Cluster: p.cluster, Topics: topics,
		Settings: kafka.Settings{
			Partitions: int32(p.settings.KafkaPartitions), ReplicationFactor: int16(p.settings.KafkaReplication), MinInSyncReplicas: p.settings.KafkaMinISR,
		},
	}
}

// startPause is between two attempts to reach a service at start.
const startPause = 500 * time.Millisecond

// eventually opens something, trying again until the wait is over. A database without a schema will not
// get one by waiting.
func eventually[T any](ctx context.Context, wait time.Duration, what string, open func(context.Context) (T, error)) (T, error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		opened, err := open(waiting)
		if err == nil {
			return opened, nil
		}
		pause := time.NewTimer(startPause)
		select {
		case <-waiting.Done():
		case <-pause.C:
		}
		pause.Stop()
		if waiting.Err() != nil || errors.Is(err, postgres.ErrNotMigrated) {
			return opened, fmt.Errorf("%s is not usable (waited up to %s; `andes doctor` tells more): %w", what, wait, err)
		}
	}
}

// observeBatches turns what the executor tells of its batches into metrics.
func observeBatches(registerer prometheus.Registerer) func(postgres.BatchStats) {
	size := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "andes_batch_requests", Help: "Requests that shared a transaction.", Buckets: prometheus.ExponentialBuckets(1, 2, 9),
	})
	took := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "andes_batch_seconds", Help: "Time from the start of a batch to its commit.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
	})
	events := prometheus.NewCounter(prometheus.CounterOpts{Name: "andes_events_total", Help: "Events appended."})
	failed := prometheus.NewCounter(prometheus.CounterOpts{Name: "andes_batches_failed_total", Help: "Batches that were not committed."})
	registerer.MustRegister(size, took, events, failed)
	return func(stats postgres.BatchStats) {
		size.Observe(float64(stats.Requests))
		took.Observe(stats.Took.Seconds())
		if stats.Err != nil {
			failed.Inc()
			return
		}
		events.Add(float64(stats.Events))
	}
}

// pollMetrics are shared by the pollers of the process.
func (p *platform) pollMetrics() (*polling.Metrics, error) {
	if p.polls != nil {
		return p.polls, nil
	}
	metrics, err := polling.NewMetrics(p.metrics)
	p.polls = metrics
	return metrics, err
}
