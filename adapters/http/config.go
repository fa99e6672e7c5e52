package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"andes/changes"
	"andes/commands/subscription"
	"andes/eventstore"
	"andes/promo"
	"andes/queries"
	"andes/quota"
	"andes/tuning"
)

// Role is a group of endpoints that is deployed together.
type Role string

// The roles.
const (
	Query   Role = "query"   // stock, prices, products, orders
	Command Role = "command" // orders, subscriptions, partner administration, payment webhook
	Ops     Role = "ops"     // dead letters, the audit log
	Health  Role = "health"  // health, metrics and docs alone: for processes that serve no partner
)

// Principal is whom a verified token stands for.
type Principal struct {
	Subject string
	Partner string // "": no partner
	Roles   []string
	Expires time.Time // when the token ends; zero: never
}

// Roles of operators.
const (
	OpsAdmin  = "ops-admin"
	OpsViewer = "ops-viewer"
)

// Subscriptions lists a partner's webhook subscriptions that are not removed.
type Subscriptions interface {
	Subscriptions(ctx context.Context, partnerID string) ([]subscription.State, error)
}

// Quota decides whether a partner may make one more request.
type Quota interface {
	Take(ctx context.Context, ask quota.Ask) quota.Verdict
}

// Limits bound a request.
type Limits struct {
	Body           int64         // bytes of a request's body
	ReadTimeout    time.Duration // of answering a query
	CommandTimeout time.Duration // of executing a command
	OpsTimeout     time.Duration // of what operators ask, who look at whole topics
	KeyTTL         time.Duration // how long an idempotency key's answer is kept
}

// DefaultLimits are those of the specification.
var DefaultLimits = Limits{Body: 1 << 20, ReadTimeout: 2 * time.Second, CommandTimeout: 10 * time.Second, OpsTimeout: 25 * time.Second, KeyTTL: 24 * time.Hour}

// Config is all that the edge needs.
type Config struct {
	Roles []Role // what is served here; empty: all

	Executor        eventstore.Executor             // Command
	Subscriptions   Subscriptions                   // Command
	Reader          queries.Reader                  // Query
	Orders          queries.Orders                  // Query; with Command only, for the trace of webhooks
	Partners        queries.Partners                // both
	Changes         *changes.Feed                   // Query; nil: changes are not followed here
	Following       Following                       // zero: the default ones
	DeadLetters     DeadLetters                     // Ops
	Guards          func() []tuning.Guard           // Ops; nil: there are none here
	GuardDesk       GuardDesk                       // Ops; nil: guards are not set here
	PromoDesk       PromoDesk                       // Ops; nil: promo mode is not switched here
	Promo           func() promo.State              // what counts of promo mode at this moment; nil: it is never on
	Thresholds      queries.Thresholds              // zero: the default ones
	Quota           Quota                           // nil: no quotas
	QuotaRefused    func(partner string)            // is told of each request that a quota refuses; may be nil
	QuotaDesk       QuotaDesk                       // Ops; nil: limits are not changed here
	OlderRateFields bool                            // tell quotas by X-RateLimit-* too
	Ready           func(context.Context) Readiness // may be nil

	// Verify gives whom a bearer token stands for. Any error means 401, unless it says by a method
	// Outage() bool that the token could not be judged.
	Verify func(ctx context.Context, token string) (Principal, error)
	// DevIssuer serves /dev/jwks.json and /dev/token; only with Development.
	DevIssuer http.Handler
	// PaymentWebhookSecrets are those of the gateway's signatures; two during a rotation.
	PaymentWebhookSecrets []string
	// Feeds take what legacy systems tell, by the systems' names; with Command.
	Feeds       map[string]Feed
	FeedDesk    FeedDesk  // Ops; nil: nothing is told of feeds here
	StockDesk   StockDesk // Ops; nil: what is oversold is not told here
	Development bool      // permits DevIssuer and subscriptions to http URLs

	Clock      func() time.Time
	NewID      func() string // UUIDv7
	Limits     Limits        // zero: the default ones
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer
	Version    string // of the API document
}

func (c *Config) withDefaults() {
	if len(c.Roles) == 0 {
		c.Roles = []Role{Query, Command, Ops}
	}
	if c.Thresholds == (queries.Thresholds{}) {
		c.Thresholds = queries.DefaultThresholds
	}
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits
	}
	if c.Following == (Following{}) {
		c.Following = DefaultFollowing
	}
	if c.Version == "" {
		c.Version = "1.0.0"
	}
}

func (c *Config) serves(role Role) bool {
	for _, served := range c.Roles {
		if served == role {
			return true
		}
	}
	return false
}

// validate reports every fault.
func (c *Config) validate() error {
	var faults []error
	need := func(there bool, format string, args ...any) {
		if !there {
			faults = append(faults, fmt.Errorf("http edge: "+format, args...))
		}
	}
	for _, role := range c.Roles {
		need(role == Query || role == Command || role == Ops || role == Health, "unknown role %q", role)
	}
	need(c.Verify != nil && c.Partners != nil, "Verify and Partners are needed")
	need(c.Clock != nil && c.NewID != nil && c.Logger != nil, "Clock, NewID and Logger are needed")
	need(c.Registerer != nil && c.Gatherer != nil, "Registerer and Gatherer are needed")
	need(!c.serves(Query) || c.Reader != nil && c.Orders != nil, "the query role needs Reader and Orders")
	need(!c.serves(Command) || c.Executor != nil && c.Subscriptions != nil, "the command role needs Executor and Subscriptions")
	need(!c.serves(Command) || len(c.PaymentWebhookSecrets) > 0, "the command role needs a payment webhook secret")
	need(!c.serves(Ops) || c.DeadLetters != nil, "the ops role needs DeadLetters")
	need(c.DevIssuer == nil || c.Development, "the development issuer must not be served in production")
	need(c.Limits.Body > 0 && c.Limits.ReadTimeout > 0 && c.Limits.CommandTimeout > 0 && c.Limits.OpsTimeout > 0 && c.Limits.KeyTTL > 0, "limits are positive")
	need(c.Following.valid(), "bounds of those who follow changes are positive")
	return errors.Join(faults...)
}
