// Package e2e runs the real binary against real services and the simulators, and checks the invariants
// after every test, whatever it was about.
//
//	partner ──► front ──► andes … andes ──► PostgreSQL, Redis, Kafka
//	gateway ──►   │         │ │ │ │
//	              └─ one that lives    ERP, WMS, OMS, gateway, receiver (test/lab, in this process)
//
// Every test has a scene of its own: a schema, topics, keys and simulators that are nobody else's.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"andes/test/lab/erp"
	"andes/test/lab/feed"
	"andes/test/lab/gateway"
	"andes/test/lab/receiver"
	"andes/test/lab/wms"
	"andes/test/lab/world"
	"andes/test/trytontest"
)

// Bounds of waiting. Two cores are shared with the other tests.
const (
	patience    = 60 * time.Second
	lookEvery   = 50 * time.Millisecond
	stopWait    = 40 * time.Second
	maxParallel = 4
)

const gatewaySecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

var (
	binary string
	serial atomic.Int64
)

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "andes-e2e")
	if err == nil {
		binary = filepath.Join(folder, "andes")
		var out []byte
		arguments := append(append([]string{"build"}, buildFlags...), "-o", binary, "andes/cmd/andes")
		if out, err = exec.Command("go", arguments...).CombinedOutput(); err != nil {
			err = fmt.Errorf("build: %w: %s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	// These tests wait more than they work.
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(maxParallel)); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m,
		// sarama's metrics share one ticker per process that is never stopped.
		goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"),
		goleak.Cleanup(func(code int) {
			_ = os.RemoveAll(folder)
			os.Exit(code)
		}))
}

// options of a scene; the zero value is one process with every role, and legacy systems that are well.
type options struct {
	instances int               // with every role
	apart     []string          // instead: the roles of each process
	settings  map[string]string // ANDES_… without the prefix
	brokers   string            // instead of the environment's Kafka
	stock     map[string]int64  // default: plenty
	gateway   gateway.Knobs
	wms       *wms.Knobs
	oms       func(registry http.Handler) http.Handler // stands before the OMS
	tryton    *trytontest.Server                       // is ERP, WMS and OMS, if the settings say so
	allow     allowed
}

// allowed is what a test does to the platform, so that the end may look different.
type allowed struct {
	errors    bool // lines of the level ERROR in the logs
	repeats   bool // webhooks that come again, under the same id
	anomalies int  // reports of the gateway that a person has to look at
	parked    int  // records in DLQs
}

// plenty is what can be ordered when a test does not care.
var plenty = map[string]int64{"A": 1000, "B": 1000, "C/1 x": 1000}

// scene is a platform of its own.
type scene struct {
	t        *testing.T
	allow    allowed
	lab      *world.World
	stock    map[string]int64
	env      []string
	schema   string
	postgres string
	brokers  string
	front    *proxy // to an instance with the role command
	reads    *proxy // to an instance with the role query
	partner  *client
	tryton   *trytontest.Server

	mu        sync.Mutex
	instances []*instance     // those that run
	launched  []*instance     // all that ever ran
	accepted  map[string]bool // orders that were acknowledged with a 202
	stayOpen  []string        // orders whose fulfilment is open by design
	secrets   []string        // what must be in no log
}

func service(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run the tests by `make test`", name)
	}
	return value
}

func start(t *testing.T, o options) *scene {
	t.Helper()
	t.Parallel()
	s := prepare(t, o)
	t.Cleanup(s.dropAll)
	s.migrate()
	t.Cleanup(s.end)
	if o.apart == nil {
		o.apart = make([]string, max(1, o.instances))
	}
	for _, roles := range o.apart {
		s.launch(roles)
	}
	t.Cleanup(s.check)
	for _, i := range s.running() {
		s.awaitReady(i)
	}
	s.partner = s.newPartner("acme")
	s.subscribe()
	s.awaitStock()
	return s
}

// prepare makes everything but the processes.
func prepare(t *testing.T, o options) *scene {
	t.Helper()
	s := &scene{
		t: t, allow: o.allow, accepted: map[string]bool{}, stock: o.stock, tryton: o.tryton,
		postgres: service(t, "ANDES_POSTGRES_URL"), brokers: service(t, "ANDES_KAFKA_BROKERS"),
		schema:  fmt.Sprintf("e2e_%d_%d", os.Getpid(), serial.Add(1)),
		secrets: []string{gatewaySecret, "tok_"},
	}
	if o.brokers != "" {
		s.brokers = o.brokers
	}
	if s.stock == nil {
		s.stock = plenty
	}
	s.front = startProxy(t, func() []string { return s.serving("command") })
	s.reads = startProxy(t, func() []string { return s.serving("query") })
	s.openLab(o)
	s.env = append(os.Environ(),
		"ANDES_ENV=development", "ANDES_LOG_LEVEL=info",
		"ANDES_POSTGRES_SCHEMA="+s.schema, "ANDES_POSTGRES_CONNS=8",
		"ANDES_REDIS_PREFIX="+s.schema+":", "ANDES_KAFKA_PREFIX="+s.schema+".", "ANDES_KAFKA_PARTITIONS=2",
		"ANDES_REDIS_ADDRS="+service(t, "ANDES_REDIS_ADDRS"), "ANDES_KAFKA_BROKERS="+s.brokers,
		"ANDES_ERP_URL="+s.lab.URLs.ERP, "ANDES_WMS_URL="+s.lab.URLs.WMS, "ANDES_OMS_URL="+s.lab.URLs.OMS, "ANDES_PAYMENT_URL="+s.lab.URLs.Payment,
		"ANDES_PAYMENT_WEBHOOK_SECRET="+gatewaySecret, "ANDES_ERP_POLL=300ms", "ANDES_WMS_POLL=200ms", "ANDES_OMS_SETTLE=5s", "ANDES_BREAKER_OPEN_FOR=1s",
		"ANDES_QUOTA_TIERS=bronze=20/2,silver=100/10,gold=50000/50000", "ANDES_QUOTA_CLIENT=100000", "ANDES_QUOTA_ENDPOINT=100000",
		"ANDES_RETRY_TIERS=200ms,1s,5s", "ANDES_WEBHOOK_RETRY_TIERS=200ms,1s,5s,10s",
		"ANDES_DEV_KEY_FILE="+filepath.Join(t.TempDir(), "issuer.pem"),
	)
	if o.oms != nil {
		before := httptest.NewServer(o.oms(s.lab.OMS.Handler()))
		t.Cleanup(before.Close)
		s.env = append(s.env, "ANDES_OMS_URL="+before.URL)
	}
	for name, value := range o.settings {
		s.env = append(s.env, "ANDES_"+name+"="+value)
	}
	return s
}

// command is the binary with this scene's settings.
func (s *scene) command(ctx context.Context, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, binary, arguments...)
	command.Env = slices.Clone(s.env) // commands run side by side and add to theirs
	return command
}

func (s *scene) migrate() {
	s.t.Helper()
	if out, err := s.command(s.t.Context(), "migrate").CombinedOutput(); err != nil {
		s.t.Fatalf("migrate: %v: %s", err, out)
	}
}

func (s *scene) openLab(o options) {
	s.t.Helper()
	now := time.Now().UTC().Truncate(time.Millisecond)
	config := world.Config{Payment: &o.gateway, WMS: o.wms}
	config.Payment.WebhookURL, config.Payment.WebhookSecret = "http://"+s.front.address()+"/v1/payment-webhooks/generic", gatewaySecret
	if o.wms == nil {
		config.WMS = &wms.Knobs{DispatchDelayMs: 200, DeliveryDelayMs: 400}
	}
	for sku, onHand := range s.stock {
		config.Products = append(config.Products, feed.Row[erp.Product]{ID: sku, UpdatedAt: now, Version: 1, Value: erp.Product{SKU: sku, Name: "Product " + sku, Segment: "gift"}})
		config.Prices = append(config.Prices, feed.Row[erp.Price]{ID: "retail|" + sku, UpdatedAt: now, Version: 1, Value: erp.Price{PriceList: "retail", SKU: sku, Amount: "2.55", Currency: "GBP"}})
		config.Stock = append(config.Stock, feed.Row[wms.Level]{ID: sku, UpdatedAt: now, Version: 1, Value: wms.Level{SKU: sku, OnHand: onHand}})
	}
	lab, err := world.Start(context.Background(), config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.lab = lab
	s.t.Cleanup(lab.Close)
}

// heldWarehouse dispatches nothing.
func heldWarehouse() *wms.Knobs { return &wms.Knobs{HoldDispatch: true} }

// eventually waits until the condition holds. Every wait of these tests goes through it.
func (s *scene) eventually(what string, condition func() error) {
	s.t.Helper()
	if err := s.waitFor(condition); err != nil {
		s.t.Fatalf("not within %s: %s: %v", patience, what, err)
	}
}

func (s *scene) waitFor(condition func() error) error {
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		err := condition()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-ticker.C
	}
}

func (s *scene) subscribe() {
	s.t.Helper()
	var made struct{ Secret string }
	s.partner.must(http.StatusCreated, http.MethodPost, "/v1/subscriptions", map[string]any{"url": s.lab.URLs.Receiver + "/webhooks", "types": []string{"*"}}, &made)
	if err := s.lab.Receiver.Turn(func(k *receiver.Knobs) { k.Secret = made.Secret }); err != nil {
		s.t.Fatal(err)
	}
	s.secret(strings.TrimPrefix(made.Secret, "whsec_"))
}

// secret must be in no log.
func (s *scene) secret(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets = append(s.secrets, text)
}
