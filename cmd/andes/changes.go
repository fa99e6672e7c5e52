package main

import (
	"slices"
	"time"

	httpapi "andes/adapters/http"
	"andes/adapters/postgres"
	"andes/adapters/redis"
	"andes/changes"
	"andes/queries"
)

// reads makes the edge answer queries.
func (p *platform) reads(config *httpapi.Config) error {
	reader, err := p.reader()
	if err != nil {
		return err
	}
	config.Reader = reader
	if slices.Contains(config.Roles, httpapi.Query) {
		if config.Changes, err = p.changeFeed(); err != nil {
			return err
		}
	}
	config.Partners, err = p.cachedPartners()
	return err
}

// reader answers queries: from the read model, and from the states what that lacks.
func (p *platform) reader() (*queries.Fallback, error) {
	if p.fallback != nil {
		return p.fallback, nil
	}
	model, err := p.readModel()
	if err != nil {
		return nil, err
	}
	config := queries.DefaultFallbackConfig()
	config.Copy, config.States, config.PutBack = redis.NewReader(p.redis), p.store, model.Project
	config.Now, config.Logger, config.Metrics = time.Now, p.logger, p.metrics
	reader, err := queries.NewFallback(config)
	if err != nil {
		return nil, err
	}
	p.onClose(reader.Close)
	p.fallback = reader
	return reader, nil
}

// changeFeed follows the log for all who follow changes at this process.
func (p *platform) changeFeed() (*changes.Feed, error) {
	if p.followed != nil {
		return p.followed, nil
	}
	reader, err := p.reader()
	if err != nil {
		return nil, err
	}
	promoting, err := p.promoDesk()
	if err != nil {
		return nil, err
	}
	config := changes.DefaultConfig()
	config.Log, config.Copy, config.Reader, config.Watermarks = postgres.ChangeLog{DB: p.store.DB}, redis.NewReader(p.redis), reader, reader
	config.Now, config.Logger, config.Metrics, config.Kept = time.Now, p.logger, p.metrics, promoting.AnswersKept
	feed, err := changes.New(config)
	if err != nil {
		return nil, err
	}
	p.followed = feed
	return feed, nil
}
