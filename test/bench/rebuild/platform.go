package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"andes/adapters/kafka"
	"andes/adapters/postgres"
	"andes/adapters/redis"
	"andes/catalogue"
	"andes/eventstore"
	"andes/projections"
)

const (
	partitions = 6
	brokerCap  = 200_000 // messages under way while seeding
)

// platform is what a rebuild works on, without partners.
type platform struct {
	name     string // of the schema; starts topics and keys
	registry *eventstore.Registry
	store    *postgres.Store
	client   *redis.Client
	model    *redis.ReadModel
	raw      rueidis.Client
	topics   kafka.Topics
	cluster  kafka.Cluster
	product  string // the product's binary
	folder   string

	cancel  context.CancelFunc
	running sync.WaitGroup
	work    context.Context // ends with the platform
}

func openPlatform(ctx context.Context) (p *platform, err error) {
	p = &platform{name: fmt.Sprintf("bench_rebuild_%d", time.Now().UnixNano())}
	p.topics = kafka.Topics{Prefix: p.name + "."}
	p.cluster = kafka.Cluster{Brokers: strings.Split(os.Getenv("ANDES_KAFKA_BROKERS"), ","), ClientID: "bench"}
	p.work, p.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if err := p.build(ctx); err != nil {
		return nil, err
	}
	if p.registry, err = catalogue.Registry(); err != nil {
		return nil, err
	}
	if err := p.openStore(ctx); err != nil {
		return nil, err
	}
	addrs := strings.Split(os.Getenv("ANDES_REDIS_ADDRS"), ",")
	if p.client, err = redis.Open(ctx, redis.Config{Addrs: addrs, Prefix: p.name + ":"}); err != nil {
		return nil, err
	}
	if p.raw, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: addrs, DisableCache: true}); err != nil {
		return nil, err
	}
	config := redis.DefaultReadModelConfig()
	config.Logger = quiet
	if p.model, err = redis.NewReadModel(p.client, config); err != nil {
		return nil, err
	}
	provision := kafka.Provision{Cluster: p.cluster, Topics: p.topics.All(p.registry, "projector"), Settings: kafka.Settings{Partitions: partitions}}
	return p, provision.Ensure(ctx)
}

var quiet = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))

func (p *platform) openStore(ctx context.Context) error {
	config := postgres.Config{URL: os.Getenv("ANDES_POSTGRES_URL"), Schema: p.name, MaxConns: 8}
	if err := postgres.Migrate(ctx, config); err != nil {
		return err
	}
	db, err := postgres.Open(ctx, config, p.registry)
	if err != nil {
		return err
	}
	settings := postgres.DefaultExecutorConfig()
	settings.Now, settings.Logger = time.Now, quiet
	settings.NewID = func() string { return uuid.Must(uuid.NewV7()).String() }
	executor, err := postgres.NewExecutor(db, settings)
	if err != nil {
		db.Close()
		return err
	}
	p.store = &postgres.Store{Executor: executor, DB: db}
	p.running.Go(func() { _ = executor.Run(p.work) })
	return nil
}

func (p *platform) close() {
	p.cancel()
	p.running.Wait()
	if p.raw != nil {
		p.raw.Close()
	}
	if p.client != nil {
		p.client.Close()
	}
	if p.store != nil {
		p.store.Close()
	}
	if p.folder != "" {
		_ = os.RemoveAll(p.folder)
	}
}

// seed puts the SKUs into PostgreSQL by one statement, and their states into the topic.
func (p *platform) seed(ctx context.Context, skus int) error {
	conn, err := pgx.Connect(ctx, os.Getenv("ANDES_POSTGRES_URL"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	schema := pgx.Identifier{p.name}.Sanitize()
	for _, statement := range []string{
		`INSERT INTO ` + schema + `.states (category, key, version, position, owner, state)
		 SELECT 'stock', 'SKU-' || lpad(n::text, 8, '0'), 1, n, '',
		        format('{"onHand":%s,"reserved":0,"sourceVersion":1,"changedAt":"2026-11-30T07:32:31.671Z"}', n % 1000)::json
		 FROM generate_series(1, $1::int) AS n`,
		`SELECT setval('` + schema + `.position_0', greatest($1::int, 1))`,
	} {
		if _, err := conn.Exec(ctx, statement, skus); err != nil {
			return err
		}
	}
	if _, err := conn.Exec(ctx, "VACUUM ANALYZE "+schema+".states"); err != nil {
		return err
	}
	return p.publish(ctx)
}

func (p *platform) publish(ctx context.Context) error {
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewMurmur2Partitioner
	config.Producer.Return.Successes, config.Producer.Return.Errors = true, true
	config.ChannelBufferSize = brokerCap
	producer, err := sarama.NewAsyncProducer(p.cluster.Brokers, config)
	if err != nil {
		return err
	}
	topic := p.topics.State("stock")
	sent, acknowledged := 0, 0
	var failed error
	settle := func() {
		select {
		case <-producer.Successes():
		case fault := <-producer.Errors():
			failed = fault.Err
		}
		acknowledged++
	}
	err = p.store.EachState(ctx, "stock", func(records []eventstore.StateRecord) error {
		for _, record := range records {
			producer.Input() <- kafka.EncodeState(topic, record)
			sent++
		}
		for sent-acknowledged > brokerCap/2 {
			settle()
		}
		return failed
	})
	for acknowledged < sent {
		settle()
	}
	return errors.Join(err, failed, producer.Close())
}

// bareGeneration is where the bare script writes.
const bareGeneration projections.Generation = 1 << 40

// bareScript runs the guarded script alone: one client, batches of 200 that are made beforehand, one
// after the other.
func (p *platform) bareScript(ctx context.Context, skus int) (perSecond float64, err error) {
	const batch = 200
	text, err := os.ReadFile(filepath.Join("adapters", "redis", "apply.lua"))
	if err != nil {
		return 0, fmt.Errorf("run it from the module's root: %w", err)
	}
	sha, err := p.raw.Do(ctx, p.raw.B().ScriptLoad().Script(string(text)).Build()).ToString()
	if err != nil {
		return 0, err
	}
	took := time.Duration(0)
	for first := 1; first <= skus; first += batch {
		keys, arguments := make([]string, 0, batch), make([]string, 0, 2*batch)
		for n := first; n < first+batch && n <= skus; n++ {
			keys = append(keys, fmt.Sprintf("%s:{17}%s:stock:%s", p.name, bareGeneration, skuName(n)))
			arguments = append(arguments, fmt.Sprintf("%d %d 1796023951671", n, n%1000), "80000000")
		}
		command := p.raw.B().Evalsha().Sha1(sha).Numkeys(int64(len(keys))).Key(keys...).Arg(arguments...).Build()
		began := time.Now()
		err := p.raw.Do(ctx, command).Error()
		if took += time.Since(began); err != nil {
			return 0, err
		}
	}
	if _, err := p.model.Drop(ctx, bareGeneration, []string{"stock"}); err != nil {
		return 0, err
	}
	return float64(skus) / took.Seconds(), nil
}

func skuName(n int) string { return fmt.Sprintf("SKU-%08d", n) }

// dropOthers has every run begin alike: with one generation at the most.
func (p *platform) dropOthers(ctx context.Context) error {
	named, err := p.model.Generations(ctx)
	if err != nil {
		return err
	}
	alone := projections.Generations{Lineage: projections.Lineage{Serving: named.Of("stock").Serving}}
	if err := p.model.Repoint(ctx, named, alone); err != nil {
		return err
	}
	for _, generation := range named.Of("stock").Others {
		if _, err := p.model.Drop(ctx, generation, []string{"stock"}); err != nil {
			return err
		}
	}
	return nil
}
