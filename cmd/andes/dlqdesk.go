package main

import (
	"context"
	"fmt"
	"log/slog"
	"os/user"
	"strconv"
	"strings"
	"time"

	httpapi "andes/adapters/http"
	"andes/adapters/kafka"
	"andes/adapters/opsclient"
	"andes/adapters/postgres"
	"andes/catalogue"
	"andes/deadletters"
)

// desk is where an operator's command works: at the ops API, or at Kafka and PostgreSQL themselves.
type desk struct {
	httpapi.DeadLetters
	actor string // of what is done directly; the ops API knows by the token
	close func()
}

// openDesk finds out what the operator may work with.
func openDesk(ctx context.Context, s *settings, logger *slog.Logger, direct bool) (*desk, error) {
	if direct {
		service, closeAll, err := openDeadLetters(ctx, s, logger)
		if err != nil {
			return nil, err
		}
		return &desk{DeadLetters: service, actor: operatorName(), close: closeAll}, nil
	}
	client, err := s.opsClient()
	if err != nil {
		return nil, err
	}
	return &desk{DeadLetters: client, close: func() {}}, nil
}

// openDeadLetters works on Kafka and PostgreSQL themselves.
func openDeadLetters(ctx context.Context, s *settings, logger *slog.Logger) (service *deadletters.Service, closeAll func(), err error) {
	if err := s.required("postgres_url", "kafka_brokers"); err != nil {
		return nil, nil, err
	}
	registry, err := catalogue.Registry()
	if err != nil {
		return nil, nil, err
	}
	db, err := postgres.Open(ctx, s.postgres(), registry)
	if err != nil {
		return nil, nil, err
	}
	p := &platform{
		settings: s, logger: logger, registry: registry, topics: kafka.Topics{Prefix: s.KafkaPrefix},
		cluster: kafka.Cluster{Brokers: list(s.KafkaBrokers), ClientID: "andes-dlq"}, store: &postgres.Store{DB: db},
	}
	if service, err = p.deadLetters(ctx); err != nil {
		db.Close()
		return nil, nil, err
	}
	return service, func() {
		for _, closeIt := range p.closers {
			closeIt()
		}
		db.Close()
	}, nil
}

// tidyDeadLetters forgets what was done with letters of DLQs that were made anew, before anybody takes it
// for what was done with other letters.
func tidyDeadLetters(ctx context.Context, s *settings, logger *slog.Logger) error {
	service, closeAll, err := openDeadLetters(ctx, s, logger)
	if err != nil {
		return err
	}
	defer closeAll()
	for _, name := range s.deadLetterConsumers() {
		if err := service.Tidy(ctx, name); err != nil {
			return fmt.Errorf("settlements of %s: %w", name, err)
		}
	}
	return nil
}

// operatorName is who works directly, for the audit log: the user of the operating system.
func operatorName() string {
	current, err := user.Current()
	if err != nil {
		return "os:unknown"
	}
	return "os:" + current.Username
}

// deadLetterConsumers names the consumers that have a DLQ.
func (s *settings) deadLetterConsumers() []string {
	names := []string{projectorName}
	for _, c := range s.consumers() {
		names = append(names, c.name)
	}
	return names
}

// deadLetters makes the operations over this process's clients.
func (p *platform) deadLetters(ctx context.Context) (*deadletters.Service, error) {
	log, err := kafka.NewDeadLetterLog(ctx, kafka.DeadLetterLogConfig{Cluster: p.cluster, Names: p.topics, Logger: p.logger})
	if err != nil {
		return nil, err
	}
	p.onClose(log.Close)
	config := deadletters.Config{
		Consumers: []deadletters.Consumer{{Name: projectorName, Topics: p.projectedTopics()}},
		Log:       log, Ledger: postgres.Settlements{DB: p.store.DB}, Events: p.store.DB, Registry: p.registry,
		Rehearse: p.rehearse, Now: time.Now, NewID: newID,
	}
	for _, c := range p.settings.consumers() {
		config.Consumers = append(config.Consumers, deadletters.Consumer{Name: c.name, Topics: c.topics(p.topics), Ordered: true, Replays: true})
	}
	return deadletters.New(config)
}

// projectedTopics are those that the projector reads.
func (p *platform) projectedTopics() []string {
	var topics []string
	for _, category := range p.registry.Categories() {
		if p.registry.Published(category) {
			topics = append(topics, p.topics.State(category))
		}
	}
	return topics
}

// instantLayouts are how operators write times; without a zone they are in UTC.
var instantLayouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly}

// instant reads a time or an age; an empty text is none.
func instant(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if days, found := strings.CutSuffix(text, "d"); found {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.AddDate(0, 0, -int(n)), nil
		}
	}
	if age, err := time.ParseDuration(text); err == nil && age >= 0 {
		return now.Add(-age), nil
	}
	for _, layout := range instantLayouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s %q is no time (2026-11-30, 2026-11-30T18:00, RFC 3339) and no age (15m, 36h, 7d)", flag, text)
}

var _ httpapi.DeadLetters = (*deadletters.Service)(nil)
var _ httpapi.DeadLetters = (*opsclient.Client)(nil)
