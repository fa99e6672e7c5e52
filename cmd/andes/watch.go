package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"andes/adapters/kafka"
	"andes/adapters/postgres"
	"andes/projections"
)

// watchParts measure what waits anywhere in the platform: in Kafka for its consumers and for operators, in
// PostgreSQL for the relay, the OMS and the process managers, and in the legacy systems for the pollers; and
// what is oversold.
// The role ops does it, so a consumer need not run to be missed. Several instances measure the same.
func watchParts(p *platform) ([]part, error) {
	lag, err := kafka.NewLag(kafka.LagConfig{
		Cluster: p.cluster, Names: p.topics, Expected: p.provision().Topics, Consumers: p.watched(),
		Settled: p.store.DB, Logger: p.logger, Metrics: p.metrics,
	})
	if err != nil {
		return nil, err
	}
	backlog, err := newBacklogWatch(p)
	if err != nil {
		return nil, err
	}
	oversold, err := newOversoldWatch(p)
	if err != nil {
		return nil, err
	}
	return []part{
		{name: "lag", stage: workers, run: lag.Run},
		{name: "backlog", stage: workers, run: backlog.run},
		{name: "oversold", stage: workers, run: oversold.run},
	}, nil
}

// watched lists the consumers with what they read.
func (p *platform) watched() []kafka.Watched {
	projector := kafka.Watched{Name: projectorName, Projections: map[string]string{}}
	for _, projection := range projections.All() {
		topic := p.topics.State(projection.Category)
		projector.Projections[projection.Name] = topic
		if !slices.Contains(projector.Topics, topic) {
			projector.Topics = append(projector.Topics, topic)
		}
	}
	watched := []kafka.Watched{projector}
	for _, c := range p.settings.consumers() {
		watched = append(watched, kafka.Watched{Name: c.name, Topics: c.topics(p.topics)})
	}
	return watched
}

// backlogWatch turns what waits in the database into metrics.
type backlogWatch struct {
	store    *postgres.Store
	failed   func(error)
	measured prometheus.Gauge
	waiting  *prometheus.GaugeVec
	seconds  *prometheus.GaugeVec
	sources  *prometheus.GaugeVec
	rejects  *prometheus.GaugeVec
	refused  prometheus.Gauge
}

const (
	backlogEvery = 10 * time.Second
	backlogLimit = 5 * time.Second // for one measurement
)

func newBacklogWatch(p *platform) (*backlogWatch, error) {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	w := &backlogWatch{
		store: p.store,
		failed: func(err error) {
			p.logger.Warn("backlog: can't be measured, the figures are old", "error", err.Error())
		},
		measured: prometheus.NewGauge(prometheus.GaugeOpts{Name: "andes_backlog_measured_timestamp_seconds", Help: "When the backlog was last measured; 0: never."}),
		waiting:  gauge("andes_backlog_waiting", "What waits: events for the relay; orders, confirmed, for the OMS; deadlines, reached, for their process managers.", "what"),
		seconds:  gauge("andes_backlog_seconds", "How long the oldest one has waited; 0: none does.", "what"),
		sources:  gauge("andes_source_age_seconds", "How long ago the feed of a legacy system was last known to be in step; +Inf: never.", "feed"),
		rejects:  gauge("andes_feed_rejects", "Records of a legacy system's feed that can't be used, and are to be put right there.", "feed"),
		refused:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "andes_relay_checkpoint_refused", Help: "1 while the relay's checkpoint is not of this log, and nothing is published until an operator says where to go on."}),
	}
	return w, errors.Join(p.metrics.Register(w.refused), p.metrics.Register(w.rejects), p.metrics.Register(w.measured), p.metrics.Register(w.waiting), p.metrics.Register(w.seconds), p.metrics.Register(w.sources))
}

func (w *backlogWatch) run(ctx context.Context) error {
	return measureEvery(ctx, backlogEvery, backlogLimit, w.measure, w.failed)
}

// measureEvery measures at once and then regularly, each time within a limit. Of failures in a row the first is told.
func measureEvery(ctx context.Context, every, limit time.Duration, measure func(context.Context) error, failed func(error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for failing := false; ; {
		measuring, cancel := context.WithTimeout(ctx, limit)
		err := measure(measuring)
		cancel()
		if err != nil && !failing && ctx.Err() == nil {
			failed(err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (w *backlogWatch) measure(ctx context.Context) error {
	backlog, err := w.store.Backlog(ctx)
	if err != nil {
		return err
	}
	standings, err := postgres.Feeds{DB: w.store.DB}.Standings(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, feed := range standings {
		age := math.Inf(1)
		if !feed.SyncedAt.IsZero() {
			age = max(0, now.Sub(feed.SyncedAt).Seconds())
		}
		w.sources.WithLabelValues(feed.Feed).Set(age)
		w.rejects.WithLabelValues(feed.Feed).Set(float64(feed.Rejects))
	}
	for what, of := range map[string]postgres.Waiting{"events": backlog.Events, "orders": backlog.Orders, "deadlines": backlog.Deadlines} {
		w.waiting.WithLabelValues(what).Set(float64(of.Count))
		w.seconds.WithLabelValues(what).Set(of.Oldest.Seconds())
	}
	w.refused.Set(0)
	if backlog.Refused {
		w.refused.Set(1)
	}
	w.measured.Set(float64(now.UnixMilli()) / 1000)
	return nil
}
