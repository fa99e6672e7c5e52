package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"andes/adapters/erp"
	httpapi "andes/adapters/http"
	"andes/adapters/kafka"
	"andes/adapters/postgres"
	"andes/adapters/redis"
	"andes/adapters/wms"
	"andes/commands/source"
	"andes/eventstore"
	"andes/polling"
	"andes/projections"
	"andes/rebuild"
)

// feeds lets legacy systems tell of changes, and operators see how their feeds stand.
func (p *platform) feeds(config *httpapi.Config) error {
	ledger := postgres.Feeds{DB: p.store.DB}
	if slices.Contains(config.Roles, httpapi.Ops) {
		config.FeedDesk = ledger
	}
	if !slices.Contains(config.Roles, httpapi.Command) {
		return nil
	}
	config.Feeds = map[string]httpapi.Feed{}
	for system, of := range map[string]struct {
		secrets string
		kinds   map[string]polling.Kind
	}{
		"erp": {p.settings.ERPFeedSecret, erp.Records()},
		"wms": {p.settings.WMSFeedSecret, wms.Records()},
	} {
		if of.secrets == "" {
			continue // it does not tell
		}
		metrics, err := p.pollMetrics()
		if err != nil {
			return err
		}
		intake, err := polling.NewIntake(polling.IntakeConfig{
			Kinds: of.kinds, Executor: p.store, Now: time.Now, Log: p.logger, Metrics: metrics, Ledger: ledger,
		})
		if err != nil {
			return err
		}
		config.Feeds[system] = httpapi.Feed{Secrets: list(of.secrets), Take: intake.Take}
	}
	return nil
}

// progress is how far states have come on their way to the read model.
type progress struct {
	*kafka.FeedProgress
	store *postgres.Store
}

func (p progress) Published(ctx context.Context) (int64, error) { return p.store.Published(ctx) }

// watermarks are those of all feeds.
func (p *platform) watermarks(ctx context.Context) ([]eventstore.StateRecord, error) {
	streams := make([]eventstore.Stream, len(source.Feeds))
	for i, feed := range source.Feeds {
		streams[i] = source.Aggregate.Stream(feed)
	}
	states, err := p.store.States(ctx, streams)
	return slices.Collect(maps.Values(states)), err
}

// gate keeps watermarks out of the read model until the values are in it.
func (p *platform) gate(model *redis.ReadModel) (*projections.Gate, error) {
	feed := &kafka.FeedProgress{Cluster: p.cluster, Names: p.topics, Group: projectorName}
	p.onClose(feed.Close)
	whole, err := p.whole(model)
	if err != nil {
		return nil, err
	}
	return projections.NewGate(projections.GateConfig{Apply: model.Project, Progress: progress{feed, p.store}, Marks: p.watermarks, Whole: whole.Check, Logger: p.logger})
}

// whole mends the read model in a Redis that may have lost something.
func (p *platform) whole(model *redis.ReadModel) (*rebuild.Whole, error) {
	set, err := projections.NewSet(projections.All()...)
	if err != nil {
		return nil, err
	}
	record := postgres.Rebuilds{DB: p.store.DB}
	return rebuild.NewWhole(rebuild.WholeConfig{Copy: model, Record: record, Rebuild: rebuild.Config{
		Set: set, Copy: model, States: p.store.DB, Ledger: record, Audit: record, Now: time.Now, Logger: p.logger,
	}})
}
