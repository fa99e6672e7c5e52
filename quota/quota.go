package quota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Store keeps the levels that all instances share.
type Store interface {
	// Take is Limit.Take on the kept level, by the store's own clock. The level that it gives has that
	// clock's time. Whatever key a caller names is forgotten when its level has drained.
	Take(ctx context.Context, key Key, limit Limit, cost, extra int64) (Level, int64, error)
}

// Key names a quota.
type Key struct {
	Group   Group
	Partner string
	Channel string // of the partner, when its channels do not share the quota
}

// Ask is one request.
type Ask struct {
	Route   string // for level 1; empty: no limit by route
	Key     Key
	Tier    string
	Cost    int64 // of the group's quota; 0: level 1 alone
	Charged int64 // of the same request, by an earlier Take: level 1 has seen it, and a refusal's wait is for both
}

// Config is all that the quotas need.
type Config struct {
	Tiers  Tiers
	Route  Limit // level 1: of each route, by all clients together, in this instance
	Client Limit // level 1: of each client, the same for all, in this instance
	Store  Store

	Wait     time.Duration // longest wait for the store
	Failures int           // of the store in a row, before it is left alone
	Lasting  time.Duration // and how long they have to last
	Rest     time.Duration // how long it is left alone
	Lease    time.Duration // how long what was taken in advance may be used

	Now     func() time.Time
	Logger  *slog.Logger
	Metrics prometheus.Registerer // nil: private
}

// DefaultConfig has the defaults of all bounds.
func DefaultConfig() Config {
	return Config{
		Route: Limit{PerSecond: 20_000, Burst: 20_000}, Client: Limit{PerSecond: 2_000, Burst: 2_000},
		Wait: 10 * time.Millisecond, Failures: 3, Lasting: 100 * time.Millisecond, Rest: time.Second, Lease: 50 * time.Millisecond,
	}
}

// Quotas decides. It is for many callers at once.
type Quotas struct {
	config   Config
	began    time.Time
	tiers    atomic.Pointer[Tiers]
	routes   *kept[string, gate]
	clients  *kept[string, gate]
	accounts *kept[Key, account]
	rest     rest
	metrics  *metrics

	asking    chan struct{} // a place for each question to the store
	questions sync.WaitGroup
}

// Bounds of what is kept and asked at once.
const (
	maxClients  = 100_000
	maxRoutes   = 1_000
	maxInFlight = 256
)

// New checks the configuration.
func New(config Config) (*Quotas, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	q := &Quotas{
		config: config, began: config.Now(),
		routes: newKept[string, gate](maxRoutes), clients: newKept[string, gate](maxClients), accounts: newKept[Key, account](2 * maxClients),
		asking: make(chan struct{}, maxInFlight),
		rest:   rest{failures: int64(config.Failures), lasting: config.Lasting.Microseconds(), pause: config.Rest.Microseconds()},
	}
	q.tiers.Store(&config.Tiers)
	var err error
	q.metrics, err = newMetrics(config.Metrics, func() bool { return q.rest.resting(q.now()) })
	return q, err
}

func (c *Config) validate() error {
	var faults []error
	need := func(there bool, format string, args ...any) {
		if !there {
			faults = append(faults, fmt.Errorf("quota: "+format, args...))
		}
	}
	need(c.Store != nil && c.Now != nil && c.Logger != nil, "Store, Now and Logger are needed")
	need(len(c.Tiers) > 0, "there are no tiers")
	for _, limit := range []Limit{c.Route, c.Client} {
		need(limit.PerSecond >= 1 && limit.PerSecond <= maxPerSecond && limit.Burst >= 1, "a limit of level 1 is not 1..%d a second", maxPerSecond)
	}
	need(c.Wait > 0 && c.Failures > 0 && min(c.Lasting, c.Lease) >= 0 && c.Rest > 0, "a bound is not above zero")
	return errors.Join(append(faults, c.capped(c.Tiers))...)
}

// capped refuses tiers that the cap of a client would make untrue.
func (c *Config) capped(tiers Tiers) error {
	var faults []error
	for i := range tiers {
		if most := max(tiers[i].Of(Reads).PerSecond, tiers[i].Of(Orders).PerSecond); most > c.Client.PerSecond || most > c.Route.PerSecond {
			faults = append(faults, fmt.Errorf("quota: the tier %s has %d a second, more than a client (%d) or an endpoint (%d) of an instance may have",
				tiers[i].Name, most, c.Client.PerSecond, c.Route.PerSecond))
		}
	}
	return errors.Join(faults...)
}

// SetTiers makes new limits count from the next request on.
func (q *Quotas) SetTiers(tiers Tiers) error {
	if len(tiers) == 0 {
		return errors.New("quota: there are no tiers")
	}
	if err := q.config.capped(tiers); err != nil {
		return err
	}
	q.tiers.Store(&tiers)
	return nil
}

// now is microseconds of the monotonic clock since the start: steps of the wall clock do not matter.
func (q *Quotas) now() int64 { return q.config.Now().Sub(q.began).Microseconds() }

// Take decides on one request.
func (q *Quotas) Take(ctx context.Context, ask Ask) Verdict {
	now := q.now()
	verdict, refused := q.firstLevel(ask, now)
	if !refused && ask.Cost > 0 {
		verdict = q.secondLevel(ctx, ask, now)
	}
	q.metrics.decided(verdict)
	return verdict
}

// firstLevel is the general limit and the equal cap, in memory.
func (q *Quotas) firstLevel(ask Ask, now int64) (Verdict, bool) {
	if ask.Charged > 0 {
		return Verdict{}, false
	}
	if ask.Route != "" {
		if wait := q.routes.get(ask.Route, now).take(q.config.Route, now); wait > 0 {
			return Verdict{By: ByRoute, RetryAfter: wait, Reset: wait}, true
		}
	}
	if wait := q.clients.get(ask.Key.Partner, now).take(q.config.Client, now); wait > 0 {
		return Verdict{By: ByClient, RetryAfter: wait, Reset: wait}, true
	}
	return Verdict{Allowed: true, By: ByClient}, false
}

// secondLevel is the partner's quota.
func (q *Quotas) secondLevel(ctx context.Context, ask Ask, now int64) Verdict {
	tier := q.tiers.Load().Of(ask.Tier)
	limit := tier.Of(ask.Key.Group)
	// What costs more than the burst would never pass: a whole burst is enough for it.
	whole := min(ask.Cost+ask.Charged, limit.Burst)
	need := demand{key: ask.Key, limit: limit, policy: tier.policies[ask.Key.Group.index()], cost: max(0, whole-ask.Charged), whole: whole}
	a := q.accounts.get(ask.Key, now)
	verdict, asked, decided := a.decide(need, now)
	if decided {
		return verdict
	}
	if !q.rest.admit(now) {
		return a.alone(need, asked, now, true)
	}
	got, late := q.ask(ctx, need, asked)
	q.report(ctx, got.err)
	leaseFor := q.config.Lease.Microseconds()
	if got.err == nil {
		return a.settle(need, asked, now, q.now(), leaseFor, got.level.Used, got.granted)
	}
	verdict = a.alone(need, asked, q.now(), q.rest.until.Load() != 0)
	if late != nil {
		q.questions.Go(func() {
			if got := <-late; got.err == nil {
				a.late(need, asked, now, q.now(), leaseFor, got, verdict.Allowed)
			}
		})
	}
	return verdict
}
