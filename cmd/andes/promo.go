package main

import (
	"context"
	"log/slog"
	"time"

	"andes/adapters/postgres"
	"andes/adapters/redis"
	"andes/promo"
	"andes/queries"
	"andes/quota"
)

// promoDesk knows whether promo mode is on in this process, and has it switched. What the mode changes here is told by
// promoChanged.
func (p *platform) promoDesk() (*promo.Desk, error) {
	if p.promo != nil {
		return p.promo, nil
	}
	shelf, err := p.promoShelf()
	if err != nil {
		return nil, err
	}
	p.promo, err = promo.NewDesk(promo.Config{
		Store: postgres.Settings{DB: p.store.DB}, Shelf: shelf, Changed: p.promoChanged, Every: settingsLook, Keeper: p.keepsPromos,
		Now: time.Now, NewID: newID, Logger: p.logger, Metrics: p.metrics,
	})
	return p.promo, err
}

// promoChanged has this process take on what promo mode wants, but for what asks the desk at each request.
func (p *platform) promoChanged(effect promo.State) {
	for _, tell := range p.promoTold {
		tell(effect)
	}
}

// onPromo has somebody told when what counts of promo mode changes.
func (p *platform) onPromo(tell func(effect promo.State)) { p.promoTold = append(p.promoTold, tell) }

// promoParts follow promo mode and keep what this process does meanwhile.
func (p *platform) promoParts(ctx context.Context, limits *quota.Desk) ([]part, error) {
	desk, err := p.promoDesk()
	if err != nil {
		return nil, err
	}
	p.onPromo(func(effect promo.State) { limits.Lower(effect.Degraded.Quotas) })
	if err := desk.Follow(ctx); err != nil {
		return nil, err
	}
	sampler := promo.NewSampler(promo.SamplerConfig{
		Desk: desk, Store: postgres.Settings{DB: p.store.DB}, Process: newID(), Count: newPromoCounter(p).count, Now: time.Now, Logger: p.logger,
	})
	return []part{{name: "promo", stage: workers, run: desk.Run}, {name: "promo samples", stage: workers, run: sampler.Run}}, nil
}

// urgent lists the products that are polled more often.
func (p *platform) urgent() []string {
	if p.promo == nil {
		return nil
	}
	return p.promo.Effect().SKUs
}

func (p *platform) promoShelf() (promo.Shelf, error) {
	model, err := p.readModel()
	if err != nil {
		return nil, err
	}
	return p.settings.warmer(p.redis, p.store.DB, model), nil
}

// warmer puts a promo's products into the read model.
func (s *settings) warmer(client *redis.Client, db *postgres.DB, model *redis.ReadModel) promo.Warmer {
	return promo.Warmer{
		Copy: redis.NewReader(client), States: db, Put: model.Project, Now: time.Now,
		Thresholds: queries.Thresholds{Stock: s.StockStale, Price: s.PriceStale},
	}
}

// openPromo gives the desk of a command that works on PostgreSQL and Redis themselves.
func openPromo(ctx context.Context, s *settings, logger *slog.Logger) (*promo.Desk, func(), error) {
	w, err := openWorkshop(ctx, s, logger, workshopNeeds{})
	if err != nil {
		return nil, nil, err
	}
	desk, err := promo.NewDesk(promo.Config{
		Store: postgres.Settings{DB: w.db}, Every: settingsLook, Now: time.Now, NewID: newID, Logger: logger,
		Shelf: s.warmer(w.redis, w.db, w.model),
	})
	if err != nil {
		w.close()
		return nil, nil, err
	}
	return desk, w.close, nil
}
