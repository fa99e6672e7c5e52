package main

import (
	"context"
	"fmt"
	"time"

	"andes/adapters/postgres"
	"andes/adapters/ratelimit"
	"andes/adapters/redis"
	"andes/queries"
	"andes/quota"
)

// Whether the partner API keeps to the quotas. It need not where a mesh asks the rate limit service.
const (
	quotaOn  = "on"
	quotaOff = "off"
)

// quotas are shared by all that enforces them in this process.
func (p *platform) quotas() (*quota.Quotas, error) {
	if p.limits != nil {
		return p.limits, nil
	}
	config, err := p.settings.quotas()
	if err != nil {
		return nil, err
	}
	config.Store, config.Now, config.Logger, config.Metrics = redis.NewQuota(p.redis), time.Now, p.logger, p.metrics
	limits, err := quota.New(config)
	if err != nil {
		return nil, err
	}
	p.onClose(limits.Close)
	p.limits = limits
	return limits, nil
}

// settingsLook is how often an instance looks at what operators set.
const settingsLook = 5 * time.Second

// quotaDesk lets operators change the limits that all instances keep to.
func (p *platform) quotaDesk() (*quota.Desk, error) {
	if p.desk != nil {
		return p.desk, nil
	}
	limits, err := p.quotas()
	if err != nil {
		return nil, err
	}
	p.desk = quota.NewDesk(quota.DeskConfig{
		Quotas: limits, Settings: postgres.Settings{DB: p.store.DB}, Configured: p.settings.QuotaTiers, Burst: p.settings.QuotaBurst,
		Every: settingsLook, Now: time.Now, Logger: p.logger,
	})
	return p.desk, nil
}

// quotas are the bounds that the settings name.
func (s *settings) quotas() (quota.Config, error) {
	config := quota.DefaultConfig()
	if s.QuotaBurst%time.Second != 0 {
		return config, fmt.Errorf("%sQUOTA_BURST must be whole seconds", envPrefix)
	}
	tiers, err := quota.ParseTiers(s.QuotaTiers, int64(s.QuotaBurst/time.Second))
	if err != nil {
		return config, fmt.Errorf("%sQUOTA_TIERS: %w", envPrefix, err)
	}
	config.Tiers, config.Wait = tiers, s.QuotaWait
	config.Route = quota.Limit{PerSecond: s.QuotaEndpoint, Burst: s.QuotaEndpoint}
	config.Client = quota.Limit{PerSecond: s.QuotaClient, Burst: s.QuotaClient}
	return config, nil
}

// rateLimits is the service for a mesh.
func (p *platform) rateLimits() (*ratelimit.Service, error) {
	limits, err := p.quotas()
	if err != nil {
		return nil, err
	}
	partners, err := p.cachedPartners()
	if err != nil {
		return nil, err
	}
	service, err := ratelimit.New(context.Background(), ratelimit.Config{
		Addr: p.settings.RateLimitAddr, Domain: p.settings.RateLimitDomain, Quotas: limits, Partners: partners, Logger: p.logger,
	})
	if err != nil {
		return nil, fmt.Errorf("%sRATELIMIT_ADDR, %sRATELIMIT_DOMAIN: %w", envPrefix, envPrefix, err)
	}
	return service, nil
}

// cachedPartners are shared by all that answers partners in this process.
func (p *platform) cachedPartners() (*queries.CachedPartners, error) {
	if p.partners != nil {
		return p.partners, nil
	}
	config := queries.DefaultCachedPartnersConfig()
	config.Source, config.Now = p.store, time.Now
	partners, err := queries.NewCachedPartners(config)
	if err != nil {
		return nil, err
	}
	p.onClose(partners.Close)
	p.partners = partners
	return partners, nil
}
