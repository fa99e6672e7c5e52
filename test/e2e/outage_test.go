package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"andes/test/kafkatest"
	"andes/test/lab/gateway"
	"andes/test/lab/oms"
	"andes/test/lab/wms"
)

func TestTheOMSIsOutlastedAndRegistersOnce(t *testing.T) {
	s := start(t, options{gateway: gateway.Knobs{DecideDelayMs: 20}})
	s.turnOMS(func(k *oms.Knobs) { k.Outage = true })
	order := s.partner.order("tok_visa", line{"A", 1})
	if got := s.partner.await(order.OrderID, "CONFIRMED"); got.OMSSync != "pending" {
		t.Errorf("omsSync %s", got.OMSSync)
	}
	s.turnOMS(func(k *oms.Knobs) { k.Outage = false })
	s.partner.await(order.OrderID, "DELIVERED")
}

// The OMS registers the first order and then says nothing, until the caller leaves.
func TestAnOMSThatRegistersAndHangsIsNotAskedToRegisterAgain(t *testing.T) {
	var posts atomic.Int64
	s := start(t, options{
		gateway: gateway.Knobs{DecideDelayMs: 20},
		oms: func(registry http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && posts.Add(1) == 1 {
					registry.ServeHTTP(httptest.NewRecorder(), r)
					<-r.Context().Done()
					return
				}
				registry.ServeHTTP(w, r)
			})
		},
	})
	order := s.partner.order("tok_visa", line{"A", 1})
	s.partner.await(order.OrderID, "DELIVERED")
	if got := posts.Load(); got != 1 {
		t.Errorf("%d POSTs", got)
	}
}

// outages are the ways in which a service may be away and come back.
var outages = map[string]struct{ begins, ends func(*proxy) }{
	"refusing":    {cut, restore},
	"silent":      {stall, restore},
	"failed over": {stall, replace},
}

// Field case REDIS-02.
func TestRedisMayBeAway(t *testing.T) {
	t.Parallel()
	for name, away := range outages {
		t.Run(name, func(t *testing.T) {
			store := before(t, service(t, "ANDES_REDIS_ADDRS"))
			s := start(t, options{settings: map[string]string{"REDIS_ADDRS": store.address()}, allow: allowed{errors: true}})
			store.turn(away.begins)
			s.eventually("readyz names redis", func() error { return s.readyNames("redis", http.StatusOK) })
			for range 5 {
				s.partner.awaitAvailable("A", 1000) // from PostgreSQL
			}
			order := s.partner.order("tok_visa", line{"A", 1})
			s.partner.await(order.OrderID, "DELIVERED")
			s.partner.awaitAvailable("A", 999)
			store.turn(away.ends)
			s.eventually("readyz names nothing", func() error { return s.readyNames("", http.StatusOK) })
			s.partner.awaitAvailable("A", 999)
		})
	}
}

func TestPostgreSQLMayBeAway(t *testing.T) {
	t.Parallel()
	for name, away := range outages {
		t.Run(name, func(t *testing.T) {
			address, err := url.Parse(service(t, "ANDES_POSTGRES_URL"))
			if err != nil {
				t.Fatal(err)
			}
			database := before(t, address.Host)
			address.Host = database.address()
			s := start(t, options{
				settings: map[string]string{"POSTGRES_URL": address.String(), "PAYMENT_INQUIRY": "2s"},
				gateway:  gateway.Knobs{DecideDelayMs: 400}, allow: allowed{errors: true, repeats: true},
			})
			settled := s.partner.order("tok_visa", line{"A", 1})
			s.partner.await(settled.OrderID, "DELIVERED")
			underWay := s.partner.order("tok_visa", line{"A", 1})
			s.eventually("the charge is made", func() error { return s.charged(underWay.OrderID) })
			s.checkStock() // Redis has what is read of it meanwhile
			database.turn(away.begins)
			s.withoutDatabase(settled.OrderID, func() { database.turn(away.ends) })
			s.partner.await(underWay.OrderID, "DELIVERED")
			s.partner.awaitAvailable("A", 997)
		})
	}
}

// withoutDatabase looks at what goes on and what does not, and that all goes on later by itself.
func (s *scene) withoutDatabase(settled string, restore func()) {
	s.t.Helper()
	key, charge := uuid.NewString(), s.lab.Payment.Snapshot().Charges[0].ChargeID
	s.eventually("readyz names postgres", func() error { return s.readyNames("postgres", http.StatusServiceUnavailable) })
	if got, err := s.partner.available("B"); err != nil || got != 1000 { // from Redis
		s.t.Errorf("%d, %v", got, err)
	}
	place := func() (answer, error) {
		return s.partner.do(http.MethodPost, "/v1/orders", orderBody("tok_visa", line{"A", 1}), "Idempotency-Key", key)
	}
	var both sync.WaitGroup
	both.Go(func() {
		if got, err := place(); err != nil || got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			s.t.Errorf("an order is put off by %d %s %v", got.status, got.body, err)
		}
	})
	// The gateway has to send its webhook again: it is not lost by a 2xx. This one it has sent before.
	both.Go(func() {
		if got, err := s.report(reportOf("charge.approved", settled, charge, "2.55"), gatewaySecret, 0); err != nil || got.status != http.StatusServiceUnavailable {
			s.t.Errorf("a webhook is answered %d %s %v", got.status, got.body, err)
		}
	})
	both.Wait()
	restore()
	s.eventually("ready again", func() error { return s.readyNames("", http.StatusOK) })
	var order placed
	s.eventually("the same request is accepted", func() error {
		got, err := place()
		if err == nil && got.status != http.StatusAccepted {
			err = fmt.Errorf("%d %s", got.status, got.body)
		}
		return errors.Join(err, json.Unmarshal(got.body, &order))
	})
	s.acknowledged(order.OrderID)
	s.partner.await(order.OrderID, "DELIVERED")
}

// Whoever gets no answer in time asks again, while the first request is still on its way to a slow database.
func TestASlowDatabaseMakesNoSecondOrder(t *testing.T) {
	address, err := url.Parse(service(t, "ANDES_POSTGRES_URL"))
	if err != nil {
		t.Fatal(err)
	}
	database := before(t, address.Host)
	address.Host = database.address()
	s := start(t, options{
		instances: 2, settings: map[string]string{"POSTGRES_URL": address.String()},
		gateway: gateway.Knobs{DecideDelayMs: 20}, allow: allowed{errors: true, repeats: true},
	})
	hasty := *s.partner
	hasty.http = &http.Client{Timeout: 500 * time.Millisecond, Transport: s.partner.http.Transport}
	database.turn(func(p *proxy) { p.delay = 700 * time.Millisecond })
	keys := []string{uuid.NewString(), uuid.NewString(), uuid.NewString()}
	for range 4 {
		for _, key := range keys {
			_, _ = hasty.do(http.MethodPost, "/v1/orders", orderBody("tok_visa", line{"A", 1}), "Idempotency-Key", key)
		}
	}
	database.turn(restore)
	for _, key := range keys {
		s.eventually("the order is acknowledged", func() error {
			var order placed
			got, err := s.partner.do(http.MethodPost, "/v1/orders", orderBody("tok_visa", line{"A", 1}), "Idempotency-Key", key)
			if err == nil && got.status != http.StatusAccepted {
				err = fmt.Errorf("%d %s", got.status, got.body)
			}
			err = errors.Join(err, json.Unmarshal(got.body, &order))
			if err == nil {
				s.acknowledged(order.OrderID)
			}
			return err
		})
	}
	if got := s.count("SELECT count(*) FROM orders"); got != len(keys) {
		t.Errorf("%d orders of %d keys", got, len(keys))
	}
}

func TestAWarehouseThatIsAwayMakesAnswersStaleAndStopsNoOrder(t *testing.T) {
	s := start(t, options{settings: map[string]string{"STOCK_STALE": "2s"}, gateway: gateway.Knobs{DecideDelayMs: 20}})
	stale := func(want bool) func() error {
		return func() error {
			got, err := s.partner.do(http.MethodGet, "/v1/stock?sku=A", nil)
			if err == nil && (got.status != http.StatusOK || strings.Contains(string(got.body), `"stale":true`) != want) {
				err = fmt.Errorf("%d %s", got.status, got.body)
			}
			return err
		}
	}
	s.eventually("the answer is fresh", stale(false))
	turn := func(outage bool) {
		if err := s.lab.WMS.Turn(func(k *wms.Knobs) { k.Outage = outage }); err != nil {
			t.Fatal(err)
		}
	}
	turn(true)
	s.eventually("the answer is stale", stale(true))
	order := s.partner.order("tok_visa", line{"A", 1})
	s.partner.await(order.OrderID, "CONFIRMED")
	s.partner.awaitAvailable("A", 999)
	turn(false)
	s.eventually("the answer is fresh again", stale(false))
	s.partner.await(order.OrderID, "DELIVERED")
}

// A broker of its own is taken away: a proxy would not do, for clients go where the broker says it is.
func TestKafkaMayBeAway(t *testing.T) {
	broker := kafkatest.Embedded(t)
	s := start(t, options{
		brokers: broker.Cluster.Brokers[0], gateway: gateway.Knobs{DecideDelayMs: 20}, allow: allowed{errors: true, repeats: true},
	})
	s.partner.await(s.partner.order("tok_visa", line{"A", 1}).OrderID, "DELIVERED")
	broker.Stop(t)
	s.eventually("readyz names kafka", func() error { return s.readyNames("kafka", http.StatusOK) })
	waiting := s.partner.order("tok_visa", line{"A", 1}) // accepted, and waits in the log
	if got, err := s.partner.available("B"); err != nil || got != 1000 {
		t.Errorf("%d, %v", got, err)
	}
	if got, err := s.partner.get(waiting.OrderID); err != nil || got.Status != "PENDING_PAYMENT" {
		t.Errorf("%+v %v", got, err)
	}
	broker.Start(t)
	s.eventually("readyz names nothing", func() error { return s.readyNames("", http.StatusOK) })
	s.partner.await(waiting.OrderID, "DELIVERED")
}

func TestMigratingTwiceOrSideBySideIsHarmless(t *testing.T) {
	t.Parallel()
	s := prepare(t, options{})
	t.Cleanup(s.dropAll)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if out, err := s.command(t.Context(), "migrate").CombinedOutput(); err != nil {
				t.Errorf("migrate: %v: %s", err, out)
			}
		})
	}
	all.Wait()
	s.migrate()
}

func TestAMissingServiceAtStartIsOneLineAndExitOne(t *testing.T) {
	t.Parallel()
	s := prepare(t, options{})
	t.Cleanup(s.dropAll)
	s.migrate()
	nowhere := freeAddress(t)
	const wait = 2 * time.Second
	for name, c := range map[string]struct {
		setting string
		waits   bool
	}{
		"PostgreSQL": {"POSTGRES_URL=postgres://" + nowhere + "/x", true},
		"Redis":      {"REDIS_ADDRS=" + nowhere, true},
		"Kafka":      {"KAFKA_BROKERS=" + nowhere, true},
		"migrate":    {"POSTGRES_SCHEMA=never_migrated", false},
		"erp_url":    {"ERP_URL=", false},

		"quota_tiers":    {"QUOTA_TIERS=bronze=20/x,silver=100/10,gold=500/50", false},
		"quota is":       {"QUOTA=perhaps", false},
		"ratelimit_addr": {"RATELIMIT_ADDR=nowhere", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			command := s.command(ctx, "serve")
			command.Env = append(command.Env, "ANDES_HTTP_ADDR="+freeAddress(t), "ANDES_START_WAIT="+wait.String(), "ANDES_"+c.setting)
			begun := time.Now()
			out, err := command.CombinedOutput()
			took := time.Since(begun)
			exit, ok := errors.AsType[*exec.ExitError](err)
			if !ok || exit.ExitCode() != 1 {
				t.Errorf("error %v", err)
			}
			if c.waits && took < wait {
				t.Errorf("it waited only %s", took)
			}
			if text := strings.TrimSpace(string(out)); strings.Count(text, "\n") > 0 || !strings.Contains(strings.ToLower(text), strings.ToLower(name)) {
				t.Errorf("output %q", text)
			}
		})
	}
}

// readyNames checks what /readyz says is away.
func (s *scene) readyNames(part string, status int) error {
	got, err := s.partner.do(http.MethodGet, "/readyz", nil)
	if err != nil {
		return err
	}
	for _, each := range []string{"redis", "postgres", "kafka"} {
		if strings.Contains(string(got.body), each) != (each == part) {
			return fmt.Errorf("%d %s", got.status, got.body)
		}
	}
	if got.status != status {
		return fmt.Errorf("%d %s", got.status, got.body)
	}
	return nil
}
