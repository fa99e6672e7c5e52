package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/structs"
	"github.com/knadh/koanf/v2"

	"andes/adapters/redis"
	"andes/quota"
)

// settings is the whole configuration. Each is set by a YAML file or by ANDES_<NAME>, in upper case.
type settings struct {
	Env      string `koanf:"env"` // production or development
	LogLevel string `koanf:"log_level"`
	HTTPAddr string `koanf:"http_addr"`

	PostgresURL    string `koanf:"postgres_url"`
	PostgresSchema string `koanf:"postgres_schema"`
	PostgresConns  int    `koanf:"postgres_conns"`

	RedisAddrs  string `koanf:"redis_addrs"` // comma-separated
	RedisPrefix string `koanf:"redis_prefix"`
	RedisNear   int    `koanf:"redis_near"` // MiB of memory for what a process keeps at hand of Redis

	KafkaBrokers     string `koanf:"kafka_brokers"` // comma-separated
	KafkaPrefix      string `koanf:"kafka_prefix"`
	KafkaPartitions  int    `koanf:"kafka_partitions"`
	KafkaReplication int    `koanf:"kafka_replication"`
	KafkaMinISR      int    `koanf:"kafka_min_isr"`

	OIDCIssuer   string `koanf:"oidc_issuer"` // empty in development: the built-in issuer
	OIDCAudience string `koanf:"oidc_audience"`
	OIDCJWKS     string `koanf:"oidc_jwks"`
	OIDCAlg      string `koanf:"oidc_alg"`
	DevKeyFile   string `koanf:"dev_key_file"` // keeps the development issuer's key over restarts

	ERPURL               string        `koanf:"erp_url"`
	WMSURL               string        `koanf:"wms_url"`
	OMSURL               string        `koanf:"oms_url"`
	PaymentURL           string        `koanf:"payment_url"`
	ERPKind              string        `koanf:"erp_kind"` // empty: of the simulators' kind; tryton
	WMSKind              string        `koanf:"wms_kind"`
	OMSKind              string        `koanf:"oms_kind"`
	TrytonDatabase       string        `koanf:"tryton_database"`
	TrytonUser           string        `koanf:"tryton_user"`
	TrytonPassword       string        `koanf:"tryton_password"`
	TrytonPriceList      string        `koanf:"tryton_price_list"` // the name of the products' own list prices
	TrytonWarehouses     string        `koanf:"tryton_warehouses"` // codes of those whose stock counts, comma-separated; empty: all
	TrytonShipFrom       string        `koanf:"tryton_ship_from"`  // code of the warehouse that ships; empty: the first one
	TrytonCompare        time.Duration `koanf:"tryton_compare"`    // how often everything is compared
	PaymentWebhookSecret string        `koanf:"payment_webhook_secret"`
	ERPPoll              time.Duration `koanf:"erp_poll"`
	WMSPoll              time.Duration `koanf:"wms_poll"`
	FeedCompare          time.Duration `koanf:"feed_compare"`    // how often all that ERP and WMS have is compared
	ERPFeedSecret        string        `koanf:"erp_feed_secret"` // of the changes that the ERP tells by itself, two during a rotation, comma-separated; empty: it does not
	WMSFeedSecret        string        `koanf:"wms_feed_secret"`
	OMSSettle            time.Duration `koanf:"oms_settle"` // how long a POST without an answer may still be at work

	ERPCalls       int           `koanf:"erp_calls"` // at once
	WMSCalls       int           `koanf:"wms_calls"`
	OMSCalls       int           `koanf:"oms_calls"`
	PaymentCalls   int           `koanf:"payment_calls"`
	ERPRate        int           `koanf:"erp_rate"` // calls a second
	WMSRate        int           `koanf:"wms_rate"`
	OMSRate        int           `koanf:"oms_rate"`
	PaymentRate    int           `koanf:"payment_rate"`
	CallTimeout    time.Duration `koanf:"call_timeout"`     // of one attempt of a call to any of them
	BreakerOpenFor time.Duration `koanf:"breaker_open_for"` // before an open breaker lets probes through

	BreakerOpenFirst time.Duration `koanf:"breaker_open_first"` // the same of the systems that are polled, the first time

	RetryTiers        string        `koanf:"retry_tiers"`         // delays of the consumers' retry topics, comma-separated
	WebhookRetryTiers string        `koanf:"webhook_retry_tiers"` // those of the partners' webhooks
	OMSRetryFor       time.Duration `koanf:"oms_retry_for"`       // no registration goes to the DLQ before

	PaymentInquiry time.Duration `koanf:"payment_inquiry"`
	PaymentExpiry  time.Duration `koanf:"payment_expiry"`
	AnswerTTL      time.Duration `koanf:"idempotency_ttl"`
	StockStale     time.Duration `koanf:"stock_stale"`
	PriceStale     time.Duration `koanf:"price_stale"`

	Quota            string        `koanf:"quota"`              // on or off: whether the partner API keeps to the quotas
	QuotaTiers       string        `koanf:"quota_tiers"`        // <tier>=<reads a second>/<orders a second>, comma-separated
	QuotaBurst       time.Duration `koanf:"quota_burst"`        // how much may come at once: the quota of so many whole seconds
	QuotaWait        time.Duration `koanf:"quota_wait"`         // longest wait of a request for Redis, before its instance counts alone
	QuotaEndpoint    int64         `koanf:"quota_endpoint"`     // requests a second to each endpoint of an instance
	QuotaClient      int64         `koanf:"quota_client"`       // and of each partner
	QuotaOlderFields bool          `koanf:"quota_older_fields"` // tell quotas by X-RateLimit-* too

	RateLimitAddr   string `koanf:"ratelimit_addr"` // where the role query serves Envoy's rate limit API; empty: nowhere
	RateLimitDomain string `koanf:"ratelimit_domain"`

	OpsURL   string `koanf:"ops_url"`   // for the command line: where the ops API is
	OpsToken string `koanf:"ops_token"` // and its bearer token

	StartWait time.Duration `koanf:"start_wait"` // for services at start
	StopWait  time.Duration `koanf:"stop_wait"`  // for each stage at stop

	unknown          []string // of the file
	unknownVariables []string // of the environment
}

const (
	production  = "production"
	development = "development"
)

func defaultSettings() settings {
	return settings{
		Env: production, LogLevel: "info", HTTPAddr: "127.0.0.1:8080",
		PostgresSchema: "andes", PostgresConns: 16,
		RedisPrefix: "andes:", RedisNear: redis.DefaultConfig.NearBytes >> 20,
		KafkaPrefix: "andes.", KafkaPartitions: 6, KafkaReplication: 1, KafkaMinISR: 1,
		OIDCAudience: "andes", OIDCAlg: "RS256",
		TrytonPriceList: "retail", TrytonCompare: 10 * time.Minute,
		ERPPoll: 2 * time.Second, WMSPoll: time.Second, FeedCompare: 10 * time.Minute, OMSSettle: 30 * time.Second,
		ERPCalls: 10, WMSCalls: 10, OMSCalls: 20, PaymentCalls: 20,
		ERPRate: 50, WMSRate: 50, OMSRate: 400, PaymentRate: 400,
		CallTimeout: 2 * time.Second, BreakerOpenFor: 30 * time.Second, BreakerOpenFirst: 2 * time.Second,
		RetryTiers: "1m,10m,1h", WebhookRetryTiers: "10s,1m,5m,30m,1h,3h,6h,12h", OMSRetryFor: 24 * time.Hour,
		PaymentInquiry: time.Minute, PaymentExpiry: 15 * time.Minute, AnswerTTL: 24 * time.Hour,
		StockStale: 5 * time.Minute, PriceStale: 30 * time.Minute,
		Quota: quotaOn, QuotaTiers: quota.DefaultTiers, QuotaBurst: time.Second, QuotaWait: 10 * time.Millisecond, QuotaEndpoint: 20_000, QuotaClient: 2_000,
		RateLimitDomain: "andes",
		StartWait:       30 * time.Second, StopWait: 20 * time.Second,
	}
}

const envPrefix = "ANDES_"

// maxNear bounds the setting.
const maxNear = 64 << 10

// loadSettings takes the defaults, then the file, then the environment.
func loadSettings(path string) (*settings, error) {
	k := koanf.New(".")
	if err := k.Load(structs.Provider(defaultSettings(), "koanf"), nil); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	known := k.Keys()
	if path != "" {
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			return nil, fmt.Errorf("configuration file %s: %w", path, err)
		}
	}
	unknown := slices.DeleteFunc(k.Keys(), func(name string) bool { return slices.Contains(known, name) })
	fromEnv := env.Provider(".", env.Opt{
		Prefix: envPrefix,
		TransformFunc: func(name, value string) (string, any) {
			return strings.ToLower(strings.TrimPrefix(name, envPrefix)), value
		},
		EnvironFunc: os.Environ,
	})
	if err := k.Load(fromEnv, nil); err != nil {
		return nil, fmt.Errorf("configuration from the environment: %w", err)
	}
	s := settings{unknown: unknown, unknownVariables: unknownVariables(os.Environ(), known)}
	if err := s.unreadable(k); err != nil {
		return nil, err
	}
	if err := k.Unmarshal("", &s); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return &s, nil
}

// check reports every fault at once. Variables that are no settings are none: an orchestrator may set such, and
// they are warned of.
func (s *settings) check() error {
	ofFile, _ := s.strangers()
	return errors.Join(append(s.wrong(), ofFile...)...)
}

// wrong tells what of the settings makes no sense.
func (s *settings) wrong() []error {
	faults := s.outOfRange()
	sane := len(faults) == 0
	complain := func(wrong bool, name, text string) {
		if wrong {
			faults = append(faults, fmt.Errorf("%s %s", asVariable(name), text))
		}
	}
	complain(s.Env != production && s.Env != development, "env", "is neither production nor development")
	complain(s.RedisNear < 1 || s.RedisNear > maxNear, "redis_near", fmt.Sprintf("is not 1 to %d MiB", maxNear))
	complain(s.KafkaReplication < s.KafkaMinISR, "kafka_min_isr", "must not exceed the replication factor")
	complain(s.ERPFeedSecret != "" && s.ERPKind != "", "erp_feed_secret", "is for an ERP of the simulators' kind: the versions of others are not those of its records")
	complain(s.WMSFeedSecret != "" && s.WMSKind != "", "wms_feed_secret", "is for a WMS of the simulators' kind: the versions of others are not those of its records")
	for name, kind := range map[string]string{"erp_kind": s.ERPKind, "wms_kind": s.WMSKind, "oms_kind": s.OMSKind} {
		complain(kind != "" && kind != trytonKind, name, "is neither empty nor "+trytonKind)
		complain(kind == trytonKind && (s.TrytonDatabase == "" || s.TrytonUser == "" || s.TrytonPassword == ""), name,
			"is tryton, so tryton_database, tryton_user and tryton_password are needed")
	}
	complain(s.CallTimeout > legacyTimeout/6, "call_timeout", "must not be above "+(legacyTimeout/6).String())
	for _, system := range []string{"erp", "wms", "oms", "payment"} {
		if err := s.guard(system).Validate(); err != nil && sane {
			faults = append(faults, fmt.Errorf("%s%s_*: %w", envPrefix, strings.ToUpper(system), err))
		}
	}
	for name, tiers := range map[string]string{"retry_tiers": s.RetryTiers, "webhook_retry_tiers": s.WebhookRetryTiers} {
		delays, err := durations(tiers)
		complain(err != nil || len(delays) == 0, name, "is no comma-separated list of delays, as 1m,10m,1h")
		complain(err == nil && !ladder(delays), name, "must be delays above zero, each longer than the one before, as 1m,10m,1h")
	}
	faults = append(faults, s.checkAddresses()...)
	complain(s.Quota != quotaOn && s.Quota != quotaOff, "quota", "is neither on nor off")
	complain(s.Env == production && s.OIDCIssuer == "", "oidc_issuer", "is needed in production")
	complain(s.OIDCIssuer != "" && s.OIDCJWKS == "", "oidc_jwks", "is needed with an issuer")
	return faults
}

// required tells which of the settings that roles need are missing.
func (s *settings) required(names ...string) error {
	values := map[string]string{
		"postgres_url": s.PostgresURL, "redis_addrs": s.RedisAddrs, "kafka_brokers": s.KafkaBrokers,
		"erp_url": s.ERPURL, "wms_url": s.WMSURL, "oms_url": s.OMSURL, "payment_url": s.PaymentURL,
		"payment_webhook_secret": s.PaymentWebhookSecret,
	}
	var faults []error
	for _, name := range names {
		if values[name] == "" {
			faults = append(faults, fmt.Errorf("%s%s is not set", envPrefix, strings.ToUpper(name)))
		}
	}
	if len(names) > 0 {
		faults = append(faults, s.checkAddresses(names...)...)
	}
	return errors.Join(faults...)
}

func (s *settings) development() bool { return s.Env == development }

func (s *settings) logLevel() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return slog.LevelInfo
	}
	return level
}

func list(commaSeparated string) []string {
	var items []string
	for _, item := range strings.Split(commaSeparated, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// durations reads a comma-separated list.
func durations(commaSeparated string) ([]time.Duration, error) {
	var all []time.Duration
	for _, item := range list(commaSeparated) {
		duration, err := time.ParseDuration(item)
		if err != nil {
			return nil, err
		}
		all = append(all, duration)
	}
	return all, nil
}
