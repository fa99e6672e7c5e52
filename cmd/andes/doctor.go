package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"andes/adapters/kafka"
	"andes/adapters/postgres"
	"andes/catalogue"
)

// doctorCmd looks at everything that the platform needs.
type doctorCmd struct{}

// finding is what the doctor says of one need.
type finding struct {
	need   string
	state  string
	remedy string // empty: nothing to do
	mark   string // empty: ok or, with a remedy, MISSING
}

// Marks of findings that are neither well nor missing.
const (
	wrongMark   = "WRONG"   // it is there, and not as it has to be
	unknownMark = "unknown" // nobody knows it, or could look
)

// checkTimeout bounds each look.
const checkTimeout = 5 * time.Second

var errUnwell = errors.New("something is missing, see above")

// Run implements the command.
func (doctorCmd) Run(ctx context.Context, s *settings, _ *slog.Logger) error {
	checks := []func(context.Context, *settings) finding{
		checkSettings, checkNames, checkPostgres, checkSchema, checkRelay, checkRedis, checkKafka, checkTopics,
		legacy("ERP", "erp_url", "reads go on without it, with stale: true", func(s *settings) string { return s.ERPURL }),
		legacy("WMS", "wms_url", "reads go on without it, with stale: true; orders are not dispatched", func(s *settings) string { return s.WMSURL }),
		legacy("OMS", "oms_url", "confirmed orders wait for it", func(s *settings) string { return s.OMSURL }),
		legacy("payment gateway", "payment_url", "orders wait for it until their payment expires", func(s *settings) string { return s.PaymentURL }),
		checkIssuer, checkAndes, throughOps("breakers of the calls", lookAtGuards), throughOps("ages of the feeds", lookAtFeeds),
	}
	var findings []finding
	for _, check := range checks {
		looking, cancel := context.WithTimeout(ctx, checkTimeout)
		findings = append(findings, check(looking, s))
		cancel()
	}
	return report(os.Stdout, findings)
}

func report(out io.Writer, findings []finding) error {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	unwell := false
	for _, f := range findings {
		mark := "ok"
		if f.remedy != "" {
			mark, unwell = "MISSING", true
		}
		first, rest, _ := strings.Cut(f.state, "\n")
		fmt.Fprintf(table, "%-7s\t%s\t%s\n", cmp.Or(f.mark, mark), f.need, first)
		for line := range strings.Lines(rest) {
			fmt.Fprintf(table, "\t\t%s\n", strings.TrimSuffix(line, "\n"))
		}
		if f.remedy != "" {
			fmt.Fprintf(table, "\t\t-> %s\n", f.remedy)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if unwell {
		return errUnwell
	}
	return nil
}

func checkSettings(_ context.Context, s *settings) finding {
	f := finding{need: "settings", state: s.Env}
	if err := errors.Join(s.wrong()...); err != nil {
		f.state, f.remedy, f.mark = strings.Join(lines(err), "\n"), "set ANDES_… accordingly; ANDES_ENV=development needs no issuer", wrongMark
	}
	return f
}

// checkNames looks whether all that is set is a setting.
func checkNames(_ context.Context, s *settings) finding {
	ofFile, ofEnvironment := s.strangers()
	err := errors.Join(append(ofFile, ofEnvironment...)...)
	if err == nil {
		return finding{need: "names of settings", state: "all known"}
	}
	return finding{need: "names of settings", state: strings.Join(lines(err), "\n"), remedy: "put the names right, or take them out", mark: unknownMark}
}

const startServices = "start it, for example by `make run`"

func checkPostgres(ctx context.Context, s *settings) finding {
	f := finding{need: "PostgreSQL 15+"}
	if s.PostgresURL == "" {
		f.state, f.remedy = "ANDES_POSTGRES_URL is not set", "set it, or use `make run`, which installs and starts PostgreSQL"
		return f
	}
	conn, err := pgx.Connect(ctx, s.PostgresURL)
	if err != nil {
		f.state, f.remedy = "does not answer", startServices
		return f
	}
	defer func() { _ = conn.Close(ctx) }()
	var version, number, fsync string
	err = conn.QueryRow(ctx, "SELECT current_setting('server_version'), current_setting('server_version_num'), current_setting('fsync')").Scan(&version, &number, &fsync)
	f.state = fmt.Sprintf("version %s, fsync %s", version, fsync)
	switch {
	case err != nil:
		f.state, f.remedy = err.Error(), startServices
	case number < "150000":
		f.remedy = "upgrade to PostgreSQL 15 or later"
	case fsync != "on":
		f.remedy = "set fsync = on: without it an acknowledged order can be lost"
	}
	return f
}

func checkSchema(ctx context.Context, s *settings) finding {
	f := finding{need: "database schema", state: s.PostgresSchema}
	if s.PostgresURL == "" {
		f.state, f.remedy = "unknown", "PostgreSQL first"
		return f
	}
	conn, err := pgx.Connect(ctx, s.PostgresURL)
	if err != nil {
		f.state, f.remedy = "unknown", "PostgreSQL first"
		return f
	}
	defer func() { _ = conn.Close(ctx) }()
	var there bool
	err = conn.QueryRow(ctx, "SELECT to_regclass(quote_ident($1) || '.events') IS NOT NULL", s.PostgresSchema).Scan(&there)
	if err != nil || !there {
		f.state, f.remedy = "not there", "run `andes migrate`"
	}
	return f
}

// checkRelay looks whether the relay can go on where it says that it is.
func checkRelay(ctx context.Context, s *settings) finding {
	f := finding{need: "relay checkpoint", state: "of this log"}
	registry, err := catalogue.Registry()
	if err != nil {
		f.state, f.remedy = err.Error(), "this build is broken"
		return f
	}
	if there := checkSchema(ctx, s); there.remedy != "" {
		f.state, f.remedy = "unknown", "the database schema first"
		return f
	}
	db, err := postgres.Open(ctx, s.postgres(), registry)
	if err != nil {
		f.state, f.remedy = "unknown", "PostgreSQL first"
		return f
	}
	defer db.Close()
	switch err := db.CheckRelay(ctx); {
	case errors.Is(err, postgres.ErrForeignCheckpoint):
		f.state, f.remedy = "not of this log: nothing is published", "after a restore of the database: `andes events restored`, see the runbook relay-lags"
	case err != nil:
		f.state, f.remedy = err.Error(), "run `andes migrate`"
	}
	return f
}

func checkRedis(ctx context.Context, s *settings) finding {
	f := finding{need: "Redis 7+"}
	if s.RedisAddrs == "" {
		f.state, f.remedy = "ANDES_REDIS_ADDRS is not set", "set it, or use `make run`, which installs and starts Redis"
		return f
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: list(s.RedisAddrs), Dialer: net.Dialer{Timeout: checkTimeout}, DisableCache: true})
	if err != nil {
		f.state, f.remedy = "does not answer", startServices
		return f
	}
	defer client.Close()
	info, err := client.Do(ctx, client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		f.state, f.remedy = err.Error(), startServices
		return f
	}
	var version string
	for line := range strings.Lines(info) {
		if _, err := fmt.Sscanf(line, "redis_version:%s", &version); err == nil {
			break
		}
	}
	f.state = "version " + version
	return f
}

func checkKafka(ctx context.Context, s *settings) finding {
	f := finding{need: "Kafka 4+"}
	brokers := list(s.KafkaBrokers)
	if len(brokers) == 0 {
		f.state, f.remedy = "ANDES_KAFKA_BROKERS is not set", "set it, or use `make run`, which fetches and starts Apache Kafka"
		return f
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", brokers[0])
	if err != nil {
		f.state, f.remedy = withoutUser(brokers[0])+" does not answer", startServices
		return f
	}
	_ = conn.Close()
	f.state = withoutUser(s.KafkaBrokers)
	if kind := os.Getenv("ANDES_BROKER_KIND"); kind != "" {
		f.state += " (" + kind + ")"
	}
	return f
}

func checkTopics(ctx context.Context, s *settings) finding {
	f := finding{need: "Kafka topics"}
	registry, err := catalogue.Registry()
	if err != nil {
		f.state, f.remedy = err.Error(), "this build is broken"
		return f
	}
	p := platform{settings: s, registry: registry, topics: kafka.Topics{Prefix: s.KafkaPrefix}, cluster: kafka.Cluster{Brokers: list(s.KafkaBrokers), ClientID: "andes-doctor"}}
	provision := p.provision()
	if len(p.cluster.Brokers) == 0 {
		f.state, f.remedy = "unknown", "Kafka first"
		return f
	}
	f.state = fmt.Sprintf("%d, prefix %s", len(provision.Topics), s.KafkaPrefix)
	if reached := checkKafka(ctx, s); reached.remedy != "" {
		f.state, f.remedy = "unknown", "Kafka first"
		return f
	}
	if err := provision.Check(ctx); err != nil {
		f.state, f.remedy = err.Error(), "run `andes migrate`"
	} else if sizes, err := provision.Sizes(ctx); err == nil {
		f.state += ", " + sizes
	}
	return f
}

// legacy looks whether a legacy system's port answers at all; what it answers is the adapter's affair.
func legacy(name, setting, meanwhile string, address func(*settings) string) func(context.Context, *settings) finding {
	return func(ctx context.Context, s *settings) finding {
		f := finding{need: name, state: withoutUser(address(s))}
		if f.state == "" {
			f.state, f.remedy = "ANDES_"+strings.ToUpper(setting)+" is not set", "set it; `make run` starts simulators"
			return f
		}
		target, err := url.Parse(address(s))
		if err != nil || target.Host == "" {
			f.remedy = "it is not a URL"
			return f
		}
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", hostPort(target))
		if err != nil {
			f.state, f.remedy = f.state+" does not answer", "start it; "+meanwhile
			return f
		}
		_ = conn.Close()
		f.state += " takes connections"
		return f
	}
}

// checkAndes looks whether the platform itself runs, where the settings have it listen, and is ready.
func checkAndes(ctx context.Context, s *settings) finding {
	f := finding{need: "andes", state: s.HTTPAddr}
	host, port, err := net.SplitHostPort(s.HTTPAddr)
	if err != nil {
		f.remedy = "ANDES_HTTP_ADDR is no host:port"
		return f
	}
	if address := net.ParseIP(host); host == "" || address != nil && address.IsUnspecified() { // all of this machine's
		host = "localhost"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		f.remedy = "ANDES_HTTP_ADDR is no host:port"
		return f
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		f.state, f.remedy = s.HTTPAddr+" does not answer", "start it: `andes serve`, or `make run`"
		return f
	}
	_ = response.Body.Close()
	if f.state += " is ready"; response.StatusCode != http.StatusOK {
		f.state, f.remedy = s.HTTPAddr+" is not ready", "what it waits for is in its /readyz and its log"
	}
	return f
}

func hostPort(target *url.URL) string {
	port := target.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[target.Scheme]
	}
	return net.JoinHostPort(target.Hostname(), port)
}

func checkIssuer(ctx context.Context, s *settings) finding {
	f := finding{need: "OIDC issuer", state: withoutUser(s.OIDCIssuer)}
	if s.OIDCIssuer == "" && s.development() {
		f.state = "the built-in development issuer"
		return f
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.OIDCJWKS, nil)
	if err != nil || s.OIDCJWKS == "" {
		f.state, f.remedy = "not configured", "set ANDES_OIDC_ISSUER and ANDES_OIDC_JWKS"
		return f
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		f.state, f.remedy = "its keys can't be read from "+withoutUser(s.OIDCJWKS), "check ANDES_OIDC_JWKS; partners' tokens can't be verified"
		return f
	}
	_ = response.Body.Close()
	return f
}
