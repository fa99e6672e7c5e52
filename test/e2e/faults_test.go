package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"andes/test/lab/gateway"
)

// buyers order until they are told to stop. Like a careful partner they repeat what got no answer, with
// the same key, at whichever instance answers.
type buyers struct {
	scene     *scene
	addresses []string // where instances are, or come back
	all       sync.WaitGroup
	stop      atomic.Bool
	keys      atomic.Int64
}

func (s *scene) buy(number int) *buyers {
	b := &buyers{scene: s}
	for _, i := range s.instances {
		b.addresses = append(b.addresses, i.address)
	}
	for n := range number {
		b.all.Go(func() {
			for !b.stop.Load() {
				b.keys.Add(1)
				b.one(n)
			}
		})
	}
	return b
}

// one order, until it is acknowledged.
func (b *buyers) one(n int) {
	key := uuid.NewString()
	deadline := time.Now().Add(patience)
	for attempt := 0; time.Now().Before(deadline); attempt++ {
		var order placed
		got, err := b.scene.partner.at(b.addresses[(n+attempt)%len(b.addresses)]).do(http.MethodPost, "/v1/orders", orderBody("tok_visa", line{"A", 1}), "Idempotency-Key", key)
		if err == nil && got.status == http.StatusAccepted {
			if err := unmarshal(got.body, &order); err != nil {
				b.scene.t.Error(err)
			}
			b.scene.acknowledged(order.OrderID)
			return
		}
		if err == nil && got.status < 500 && got.code() != "REQUEST_IN_PROGRESS" {
			b.scene.t.Errorf("order: %d %s", got.status, got.body)
			return
		}
		<-time.After(lookEvery)
	}
	b.scene.t.Error("an order was never acknowledged")
}

// enough waits until that many more orders were acknowledged.
func (b *buyers) enough(more int) {
	b.scene.t.Helper()
	count := func() int {
		b.scene.mu.Lock()
		defer b.scene.mu.Unlock()
		return len(b.scene.accepted)
	}
	begun := count()
	b.scene.eventually(fmt.Sprintf("%d more orders", more), func() error {
		if got := count() - begun; got < more {
			return fmt.Errorf("%d so far", got)
		}
		return nil
	})
}

func (b *buyers) end() int {
	b.stop.Store(true)
	b.all.Wait()
	return int(b.keys.Load())
}

func TestKilledProcessesLoseAndDoubleNothing(t *testing.T) {
	s := start(t, options{instances: 2, stock: map[string]int64{"A": 100_000}, gateway: gateway.Knobs{DecideDelayMs: 20}})
	b := s.buy(6)
	for range 4 {
		b.enough(15)
		victim := s.instances[0] // the gateway's webhooks go to the other one meanwhile
		s.tellGateway(s.instances[1].address)
		s.kill(victim)
		s.instances = s.instances[1:]
		s.restart(victim)
	}
	b.enough(15)
	keys := b.end()
	if len(s.accepted) != keys {
		t.Errorf("%d orders of %d keys", len(s.accepted), keys)
	}
	s.settle()
	if got := s.count("SELECT count(*) FROM orders"); got != keys {
		t.Errorf("%d orders are there, %d were placed", got, keys)
	}
	s.publishedIsCommitted()
}

// publishedIsCommitted compares the topics with the log: nothing is missing, and an order's events never
// go backwards but for repeats of the same event.
func (s *scene) publishedIsCommitted() {
	s.t.Helper()
	s.eventually("the relay is at the end of the log", func() error {
		if behind := s.count("SELECT (SELECT max(position) FROM events) - (SELECT position FROM checkpoints WHERE name = 'relay')"); behind != 0 {
			return fmt.Errorf("%d behind", behind)
		}
		return nil
	})
	client := s.broker()
	seen := map[string]bool{}
	for _, category := range []string{"order", "payment", "reservation", "stock"} {
		versions := map[string]int{}
		for _, message := range s.published(client, s.schema+".events."+category) {
			id, stream := header(message, "ce_id"), header(message, "ce_subject")
			version, err := strconv.Atoi(header(message, "stream_version"))
			if err != nil {
				s.t.Fatal(err)
			}
			if !seen[id] && version != versions[stream]+1 {
				s.t.Errorf("%s: version %d after %d", stream, version, versions[stream])
			}
			seen[id] = true
			versions[stream] = max(versions[stream], version)
		}
	}
	committed := s.count("SELECT count(*) FROM events WHERE split_part(stream, '/', 1) IN ('order', 'payment', 'reservation', 'stock')")
	if len(seen) != committed {
		s.t.Errorf("%d events are published, %d are committed", len(seen), committed)
	}
	if n := s.deadLetters(client); n > 0 {
		s.t.Errorf("%d records are in DLQs", n)
	}
}

func TestAStoppedProcessKeepsItsWord(t *testing.T) {
	s := start(t, options{stock: map[string]int64{"A": 100_000}, gateway: gateway.Knobs{DecideDelayMs: 20}})
	b := s.buy(6)
	for range 3 {
		b.enough(15)
		old := s.instances[0]
		s.stop(old) // SIGTERM under load: it has to end cleanly
		s.instances = nil
		s.restart(old)
	}
	keys := b.end()
	s.settle()
	if got := s.count("SELECT count(*) FROM orders"); got != keys || len(s.accepted) != keys {
		t.Errorf("%d orders are there, %d acknowledged, %d placed", got, len(s.accepted), keys)
	}
	s.publishedIsCommitted()
}

func TestARepeatedEventHasNoFurtherEffect(t *testing.T) {
	s := start(t, options{gateway: gateway.Knobs{DecideDelayMs: 20}})
	order := s.partner.order("tok_visa", line{"A", 1})
	s.partner.await(order.OrderID, "DELIVERED")
	s.settle()
	events := s.count("SELECT count(*) FROM events WHERE stream LIKE '%" + order.OrderID + "'")
	client := s.broker()
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = producer.Close() }()
	for _, topic := range []string{"events.order", "events.payment", "commands.oms", "commands.payment"} {
		for _, message := range s.published(client, s.schema+"."+topic) {
			again := &sarama.ProducerMessage{Topic: message.Topic, Key: sarama.ByteEncoder(message.Key), Value: sarama.ByteEncoder(message.Value)}
			for _, h := range message.Headers {
				again.Headers = append(again.Headers, *h)
			}
			for range 10 {
				if _, _, err := producer.SendMessage(again); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	s.partner.await(s.partner.order("tok_visa", line{"A", 1}).OrderID, "DELIVERED") // behind the repeats
	if got := s.count("SELECT count(*) FROM events WHERE stream LIKE '%" + order.OrderID + "'"); got != events {
		t.Errorf("%d events became %d", events, got)
	}
	s.awaitWebhooks(order.OrderID, "order.placed", "payment.approved", "order.confirmed", "order.dispatched", "order.delivered")
}

func TestRedisMayBeAway(t *testing.T) {
	redis := startProxy(t, os.Getenv("ANDES_REDIS_ADDRS"))
	s := start(t, options{settings: map[string]string{"REDIS_ADDRS": redis.address()}})
	redis.turn(true)
	s.eventually("readyz names redis", func() error { return s.readyNames("redis", http.StatusOK) })
	for range 5 {
		s.partner.awaitAvailable("A", 1000) // from PostgreSQL
	}
	order := s.partner.order("tok_visa", line{"A", 1})
	s.partner.await(order.OrderID, "DELIVERED")
	redis.turn(false)
	s.eventually("readyz names nothing", func() error { return s.readyNames("", http.StatusOK) })
	s.partner.awaitAvailable("A", 999)
}

func TestPostgreSQLMayBeAway(t *testing.T) {
	address, err := url.Parse(service(t, "ANDES_POSTGRES_URL"))
	if err != nil {
		t.Fatal(err)
	}
	database := startProxy(t, address.Host)
	address.Host = database.address()
	s := start(t, options{settings: map[string]string{"POSTGRES_URL": address.String()}})
	s.partner.awaitAvailable("A", 1000)
	database.turn(true)
	s.eventually("readyz names postgres", func() error { return s.readyNames("postgres", http.StatusServiceUnavailable) })
	if got, err := s.partner.available("A"); err != nil || got != 1000 { // from Redis
		t.Errorf("%d, %v", got, err)
	}
	key := uuid.NewString()
	s.eventually("an order is put off", func() error {
		got, err := s.partner.do(http.MethodPost, "/v1/orders", orderBody("tok_visa", line{"A", 1}), "Idempotency-Key", key)
		if err == nil && (got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "") {
			err = fmt.Errorf("%d %s", got.status, got.body)
		}
		return err
	})
	database.turn(false)
	s.eventually("ready again", func() error { return s.readyNames("", http.StatusOK) })
	var order placed
	s.eventually("the same request is accepted", func() error {
		got, err := s.partner.do(http.MethodPost, "/v1/orders", orderBody("tok_visa", line{"A", 1}), "Idempotency-Key", key)
		if err == nil && got.status != http.StatusAccepted {
			err = fmt.Errorf("%d %s", got.status, got.body)
		}
		if err == nil {
			err = unmarshal(got.body, &order)
		}
		return err
	})
	s.acknowledged(order.OrderID)
	s.partner.await(order.OrderID, "DELIVERED")
	s.partner.awaitAvailable("A", 999)
}

func TestAMissingServiceAtStartIsOneLineAndExitOne(t *testing.T) {
	t.Parallel()
	nowhere := freeAddress(t)
	for name, settings := range map[string][]string{
		"PostgreSQL": {"ANDES_POSTGRES_URL=postgres://" + nowhere + "/x"},
		"migrate":    {"ANDES_POSTGRES_SCHEMA=never_migrated"},
		"erp_url":    {"ANDES_ERP_URL="},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			command := exec.CommandContext(ctx, binary, "serve", "--roles", "erp")
			command.Env = append(os.Environ(), append([]string{"ANDES_ENV=development", "ANDES_START_WAIT=1s", "ANDES_ERP_URL=http://" + nowhere}, settings...)...)
			out, err := command.CombinedOutput()
			exit, ok := errors.AsType[*exec.ExitError](err)
			if !ok || exit.ExitCode() != 1 {
				t.Errorf("error %v", err)
			}
			text := strings.TrimSpace(string(out))
			if strings.Count(text, "\n") > 0 || !strings.Contains(strings.ToLower(text), strings.ToLower(name)) {
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

// count asks the scene's schema for a number.
func (s *scene) count(query string, arguments ...any) int {
	s.t.Helper()
	config, err := pgx.ParseConfig(s.postgres)
	if err != nil {
		s.t.Fatal(err)
	}
	config.RuntimeParams["search_path"] = s.schema
	db, err := pgx.ConnectConfig(context.Background(), config)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = db.Close(context.Background()) }()
	var n int
	if err := db.QueryRow(context.Background(), query, arguments...).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}
