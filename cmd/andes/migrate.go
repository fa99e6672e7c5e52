package main

import (
	"context"
	"fmt"
	"log/slog"

	"andes/adapters/kafka"
	"andes/adapters/postgres"
	"andes/catalogue"
)

// migrateCmd creates or upgrades what the platform keeps its data in.
type migrateCmd struct{}

// Run implements the command.
func (migrateCmd) Run(ctx context.Context, s *settings, logger *slog.Logger) error {
	if err := s.required("postgres_url", "kafka_brokers"); err != nil {
		return err
	}
	_, err := eventually(ctx, s.StartWait, "PostgreSQL", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, postgres.Migrate(ctx, s.postgres())
	})
	if err != nil {
		return err
	}
	fmt.Printf("database schema %s is up to date\n", s.PostgresSchema)
	registry, err := catalogue.Registry()
	if err != nil {
		return err
	}
	p := platform{settings: s, registry: registry, topics: kafka.Topics{Prefix: s.KafkaPrefix}, cluster: kafka.Cluster{Brokers: list(s.KafkaBrokers), ClientID: "andes-migrate"}}
	_, err = eventually(ctx, s.StartWait, "Kafka", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, p.provision().Ensure(ctx)
	})
	if err != nil {
		return err
	}
	sizes, err := p.provision().Sizes(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%d Kafka topics are there, %s\n", len(p.provision().Topics), sizes)
	if err := p.provision().Check(ctx); err != nil {
		return err
	}
	return tidyDeadLetters(ctx, s, logger)
}
