// Package e2e runs the real binary against real services and the simulators, and checks the invariants
// after every test, whatever it was about.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"andes/test/invariants"
	"andes/test/lab/erp"
	"andes/test/lab/feed"
	"andes/test/lab/gateway"
	"andes/test/lab/receiver"
	"andes/test/lab/wms"
	"andes/test/lab/world"
)

// Bounds of waiting. Two cores are shared with the other tests.
const (
	patience    = 60 * time.Second
	lookEvery   = 50 * time.Millisecond
	stopWait    = 40 * time.Second
	maxParallel = 3
)

const gatewaySecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

var (
	binary string
	worlds = make(chan struct{}, maxParallel)
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
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// options of a world; the zero value is one process with every role.
type options struct {
	instances int
	roles     string            // of each instance
	settings  map[string]string // ANDES_… without the prefix
	stock     map[string]int64  // default: plenty
	gateway   gateway.Knobs
	wms       *wms.Knobs
}

// scene is a platform of its own: schema, topics, keys and simulators are nobody else's.
type scene struct {
	t         *testing.T
	lab       *world.World
	env       []string
	schema    string
	postgres  string
	instances []*instance
	partner   *client
	mu        sync.Mutex
	accepted  map[string]bool // orders that were acknowledged with a 202
	stayOpen  []string        // orders whose fulfilment is open by design
}

// instance is a running `andes serve`.
type instance struct {
	address string
	roles   string
	process *exec.Cmd
	log     *syncBuffer
	exited  chan error
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
	worlds <- struct{}{}
	t.Cleanup(func() { <-worlds })
	s := &scene{t: t, accepted: map[string]bool{}, postgres: service(t, "ANDES_POSTGRES_URL"), schema: fmt.Sprintf("e2e_%d_%d", os.Getpid(), serial.Add(1))}
	s.openLab(o)
	s.env = append(os.Environ(),
		"ANDES_ENV=development", "ANDES_LOG_LEVEL=info",
		"ANDES_POSTGRES_SCHEMA="+s.schema, "ANDES_POSTGRES_CONNS=8",
		"ANDES_REDIS_PREFIX="+s.schema+":", "ANDES_KAFKA_PREFIX="+s.schema+".", "ANDES_KAFKA_PARTITIONS=2",
		"ANDES_REDIS_ADDRS="+service(t, "ANDES_REDIS_ADDRS"), "ANDES_KAFKA_BROKERS="+service(t, "ANDES_KAFKA_BROKERS"),
		"ANDES_ERP_URL="+s.lab.URLs.ERP, "ANDES_WMS_URL="+s.lab.URLs.WMS, "ANDES_OMS_URL="+s.lab.URLs.OMS, "ANDES_PAYMENT_URL="+s.lab.URLs.Payment,
		"ANDES_PAYMENT_WEBHOOK_SECRET="+gatewaySecret, "ANDES_ERP_POLL=300ms", "ANDES_WMS_POLL=200ms",
		"ANDES_DEV_KEY_FILE="+filepath.Join(t.TempDir(), "issuer.pem"),
	)
	for name, value := range o.settings {
		s.env = append(s.env, "ANDES_"+name+"="+value)
	}
	if out, err := s.command(t.Context(), "migrate").CombinedOutput(); err != nil {
		t.Fatalf("migrate: %v: %s", err, out)
	}
	for range max(1, o.instances) {
		s.launch(freeAddress(t), o.roles)
	}
	t.Cleanup(s.end)
	for _, i := range s.instances {
		s.awaitReady(i)
	}
	s.tellGateway(s.instances[0].address)
	s.partner = s.newPartner("acme")
	s.subscribe()
	s.awaitStock(o)
	return s
}

// command is the binary with this scene's settings.
func (s *scene) command(ctx context.Context, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, binary, arguments...)
	command.Env = s.env
	return command
}

func (s *scene) openLab(o options) {
	s.t.Helper()
	if o.stock == nil {
		o.stock = map[string]int64{"A": 1000, "B": 1000, "C/1 x": 1000}
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	config := world.Config{Payment: &o.gateway, WMS: o.wms}
	if o.wms == nil {
		config.WMS = &wms.Knobs{DispatchDelayMs: 200, DeliveryDelayMs: 400}
	}
	for sku, onHand := range o.stock {
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

// launch starts an instance on an address.
func (s *scene) launch(address, roles string) *instance {
	s.t.Helper()
	i := &instance{address: address, roles: roles, log: &syncBuffer{}, exited: make(chan error, 1)}
	arguments := []string{"serve"}
	if roles != "" {
		arguments = append(arguments, "--roles", roles)
	}
	i.process = s.command(context.Background(), arguments...)
	i.process.Env = append(i.process.Env, "ANDES_HTTP_ADDR="+address)
	i.process.Stderr = i.log
	if err := i.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { i.exited <- i.process.Wait() }()
	s.instances = append(s.instances, i)
	return i
}

// kill ends an instance as a crash does, and restart starts another one in its place.
func (s *scene) kill(i *instance) {
	s.t.Helper()
	if err := i.process.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	<-i.exited
	i.process = nil
}

func (s *scene) restart(i *instance) *instance {
	s.t.Helper()
	next := s.launch(i.address, i.roles)
	s.awaitReady(next)
	return next
}

func (s *scene) awaitReady(i *instance) {
	s.t.Helper()
	s.eventually("ready on "+i.address, func() error {
		select {
		case err := <-i.exited:
			i.exited <- err
			s.t.Fatalf("andes ended while starting: %v\n%s", err, i.log)
		default:
		}
		response, err := http.Get("http://" + i.address + "/readyz")
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
}

// end stops everything in order and checks what must hold after any test.
func (s *scene) end() {
	s.settle()
	s.checkInvariants()
	for _, i := range s.instances {
		s.stop(i)
	}
	if s.t.Failed() {
		for _, i := range s.instances {
			s.t.Logf("log of %s:\n%s", i.address, tail(i.log.String()))
		}
	}
	s.dropAll()
}

// stop asks an instance to end: it has to, cleanly and in time.
func (s *scene) stop(i *instance) {
	if i.process == nil {
		return
	}
	if err := i.process.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Errorf("stop %s: %v", i.address, err)
	}
	select {
	case err := <-i.exited:
		if err != nil {
			s.t.Errorf("%s did not stop cleanly: %v", i.address, err)
		}
	case <-time.After(stopWait):
		s.t.Errorf("%s did not stop within %s", i.address, stopWait)
		_ = i.process.Process.Kill()
	}
	i.process = nil
}

func (s *scene) checkInvariants() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	db, err := invariants.Open(ctx, s.postgres, s.schema)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer func() { _ = db.Close(ctx) }()
	for _, invariant := range invariants.All {
		violations, err := invariant.Violations(ctx, db)
		if err != nil || len(violations) > 0 {
			s.t.Errorf("%s: %v %v", invariant.Name, violations, err)
		}
	}
	for id := range s.accepted {
		var status string
		if err := db.QueryRow(ctx, "SELECT status FROM orders WHERE id = $1", id).Scan(&status); err != nil {
			s.t.Errorf("acknowledged order %s: %v", id, err)
		}
		sums, _ := s.lab.Payment.Order(id)
		if n := s.lab.OMS.Registrations(id); n > 1 || sums.Charges > 1 || sums.Refunds > 1 {
			s.t.Errorf("order %s: %d registrations, %d charges, %d refunds", id, n, sums.Charges, sums.Refunds)
		}
	}
	if counters := s.lab.Receiver.Counters(); counters.Unverified > 0 {
		s.t.Errorf("%d webhooks did not verify", counters.Unverified)
	}
}

func (s *scene) dropAll() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := dropSchema(ctx, s.postgres, s.schema); err != nil {
		s.t.Error(err)
	}
}

// eventually waits until the condition holds.
func (s *scene) eventually(what string, condition func() error) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("not within %s: %s: %v", patience, what, err)
		}
		<-ticker.C
	}
}

func (s *scene) tellGateway(address string) {
	s.t.Helper()
	err := s.lab.Payment.Turn(func(k *gateway.Knobs) {
		k.WebhookURL, k.WebhookSecret = "http://"+address+"/v1/payment-webhooks/generic", gatewaySecret
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) subscribe() {
	s.t.Helper()
	var made struct{ Secret string }
	s.partner.must(http.StatusCreated, http.MethodPost, "/v1/subscriptions", map[string]any{"url": s.lab.URLs.Receiver + "/webhooks", "types": []string{"*"}}, &made)
	if err := s.lab.Receiver.Turn(func(k *receiver.Knobs) { k.Secret = made.Secret }); err != nil {
		s.t.Fatal(err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// tail of a log is what a reader of a failed test wants.
func tail(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	const most = 60
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
