package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"andes/test/lab/gateway"
)

// inParallel sends the same request so many times at once, in turn to the instances.
func (s *scene) inParallel(times int, send func(c *client) (answer, error)) []answer {
	s.t.Helper()
	instances := s.running()
	answers := make([]answer, times)
	gate := make(chan struct{})
	var all sync.WaitGroup
	for n := range times {
		all.Go(func() {
			<-gate
			got, err := send(s.partner.on(instances[n%len(instances)]))
			if err != nil {
				s.t.Error(err)
			}
			answers[n] = got
		})
	}
	close(gate)
	all.Wait()
	return answers
}

func TestTheSameOrderSentInParallelHasOneEffect(t *testing.T) {
	s := start(t, options{instances: 2, allow: allowed{repeats: true}})
	const rounds, together = 8, 5
	for range rounds {
		key, body := uuid.NewString(), orderBody("tok_visa", line{"A", 1})
		send := func(c *client) (answer, error) {
			return c.do(http.MethodPost, "/v1/orders", body, "Idempotency-Key", key)
		}
		fresh, bodies := 0, map[string]bool{}
		for _, got := range s.inParallel(together, send) {
			switch {
			case got.status == http.StatusAccepted:
				bodies[string(got.body)] = true
				if got.header.Get("Idempotent-Replayed") == "" {
					fresh++
				}
			case got.code() != "REQUEST_IN_PROGRESS" || got.status != http.StatusConflict || got.header.Get("Retry-After") == "":
				t.Errorf("%d %s", got.status, got.body)
			}
		}
		sixth := s.partner.must(http.StatusAccepted, http.MethodPost, "/v1/orders", body, nil, "Idempotency-Key", key)
		bodies[string(sixth.body)] = true
		if fresh != 1 || len(bodies) != 1 || sixth.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%d were done, answers %v, replayed %q", fresh, bodies, sixth.header.Get("Idempotent-Replayed"))
		}
	}
	if got := s.count("SELECT count(*) FROM orders"); got != rounds {
		t.Errorf("%d orders of %d keys", got, rounds)
	}
}

func TestAKeyStandsForOneRequestAndItsAnswer(t *testing.T) {
	s := start(t, options{stock: map[string]int64{"A": 1, "B": 5}})
	place := func(key, body string) answer {
		t.Helper()
		got, err := s.partner.do(http.MethodPost, "/v1/orders", raw(body), "Idempotency-Key", key)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	expect := func(name string, got answer, status int, code string) {
		t.Helper()
		if got.status != status || got.code() != code {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	const order = `{"currency":"GBP","lines":[{"sku":"B","quantity":1}],"payment":{"token":"tok_visa"}}`
	first := place("k1", order)
	expect("first", first, http.StatusAccepted, "")
	for name, same := range map[string]string{
		"other order of members": `{"payment":{"token":"tok_visa"},"lines":[{"quantity":1,"sku":"B"}],"currency":"GBP"}`,
		"white space":            "{ \"currency\":\"GBP\",\n\"lines\":[{\"sku\":\"B\",\"quantity\": 1}],\"payment\":{\"token\":\"tok_visa\"} }",
	} {
		if got := place("k1", same); got.status != http.StatusAccepted || !bytes.Equal(got.body, first.body) || got.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	expect("other quantity", place("k1", strings.Replace(order, `:1`, `:2`, 1)), http.StatusUnprocessableEntity, "IDEMPOTENCY_KEY_REUSED")
	expect("a member more", place("k1", strings.Replace(order, `{`, `{"partnerOrderRef":"P-1",`, 1)), http.StatusUnprocessableEntity, "IDEMPOTENCY_KEY_REUSED")
	expect("no key", place("", order), http.StatusUnprocessableEntity, "IDEMPOTENCY_KEY_INVALID")

	short := strings.Replace(strings.Replace(order, `"B"`, `"A"`, 1), `:1`, `:2`, 1)
	refusal := place("k2", short)
	expect("short", refusal, http.StatusConflict, "INSUFFICIENT_STOCK")
	s.setStock("A", 5)
	if got := place("k2", short); got.status != refusal.status || !bytes.Equal(got.body, refusal.body) {
		t.Errorf("the refusal came back as %d %s", got.status, got.body)
	}
	expect("a new key", place("k3", short), http.StatusAccepted, "")

	referenced := strings.Replace(order, `{`, `{"partnerOrderRef":"P-2",`, 1)
	expect("with a reference", place("k4", referenced), http.StatusAccepted, "")
	expect("the reference again", place("k5", referenced), http.StatusConflict, "DUPLICATE_ORDER_REFERENCE")
}

// setStock restocks, and waits until the platform knows.
func (s *scene) setStock(sku string, onHand int64) {
	s.t.Helper()
	if _, err := s.lab.WMS.SetStock(sku, onHand); err != nil {
		s.t.Fatal(err)
	}
	s.stock[sku] = onHand
	s.partner.awaitAvailable(sku, onHand)
}

func TestNeverMoreIsSoldThanThereIs(t *testing.T) {
	s := start(t, options{instances: 2, stock: map[string]int64{"LAST": 1, "TEN": 10, "FIFTY": 50}, allow: allowed{repeats: true}})
	buy := func(sku string, quantity func() int) func(c *client) (answer, error) {
		return func(c *client) (answer, error) {
			return c.do(http.MethodPost, "/v1/orders", orderBody("tok_visa", line{sku, quantity()}), "Idempotency-Key", uuid.NewString())
		}
	}
	fixed := func(n int) func() int { return func() int { return n } }
	any := func() int { return 1 + rand.IntN(5) }
	for _, c := range []struct {
		sku      string
		buyers   int
		quantity func() int
		accepted int // -1: as many as fit
	}{{"LAST", 100, fixed(1), 1}, {"TEN", 2, fixed(6), 1}, {"FIFTY", 150, any, -1}} {
		accepted := 0
		for _, got := range s.inParallel(c.buyers, buy(c.sku, c.quantity)) {
			switch {
			case got.status == http.StatusAccepted:
				accepted++
			case got.status != http.StatusConflict || got.code() != "INSUFFICIENT_STOCK":
				t.Errorf("%s: %d %s", c.sku, got.status, got.body)
			}
		}
		if c.accepted >= 0 && accepted != c.accepted {
			t.Errorf("%s: %d were accepted, want %d", c.sku, accepted, c.accepted)
		}
	}
	if left := s.count("SELECT on_hand - reserved - shipped FROM stock WHERE sku = 'FIFTY'"); left < 0 || left > 4 {
		t.Errorf("%d of 50 are left", left)
	}
}

func TestAnotherPartnersOrderIsLikeAnUnknownOne(t *testing.T) {
	s := start(t, options{})
	order := s.partner.order("tok_visa", line{"A", 1})
	stranger := s.newPartner("stranger")
	for _, request := range []struct{ method, suffix string }{{http.MethodGet, ""}, {http.MethodPost, "/cancel"}} {
		ask := func(id string) answer {
			return stranger.must(http.StatusNotFound, request.method, "/v1/orders/"+id+request.suffix, nil, nil, "X-Correlation-Id", "c")
		}
		theirs, unknown := ask(order.OrderID), ask(uuid.NewString())
		for _, each := range []http.Header{theirs.header, unknown.header} {
			each.Del("Date")
			each.Del("RateLimit") // it counts the requests
		}
		if !bytes.Equal(theirs.body, unknown.body) || fmt.Sprint(theirs.header) != fmt.Sprint(unknown.header) {
			t.Errorf("%v\n%s\n%v\n%s", theirs.header, theirs.body, unknown.header, unknown.body)
		}
	}
	if got := stranger.must(http.StatusOK, http.MethodGet, "/v1/orders", nil, nil); bytes.Contains(got.body, []byte(order.OrderID)) {
		t.Errorf("the stranger is told of it: %s", got.body)
	}
	s.partner.await(order.OrderID, "DELIVERED")
}

// Clients that leave in the middle must not take anything of the process with them.
func TestClientsThatLeaveHoldNothing(t *testing.T) {
	s := start(t, options{stock: map[string]int64{"A": 100_000}, gateway: gateway.Knobs{DecideDelayMs: 20}})
	const leaving, staying = 160, 40
	keys := make(chan string, leaving)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range leaving / 8 {
				key := uuid.NewString()
				s.leave(key, time.Duration(1+rand.IntN(30))*time.Millisecond)
				keys <- key
			}
		})
	}
	all.Wait()
	close(keys)
	var accepted atomic.Int64
	for range staying {
		all.Go(func() {
			s.partner.order("tok_visa", line{"A", 1})
			accepted.Add(1)
		})
	}
	all.Wait()
	// What had been done under a key that nobody waited for is found again, or is done now.
	for key := range keys {
		var order placed
		s.partner.must(http.StatusAccepted, http.MethodPost, "/v1/orders", orderBody("tok_visa", line{"A", 1}), &order, "Idempotency-Key", key)
		s.acknowledged(order.OrderID)
	}
	if got := s.count("SELECT count(*) FROM orders"); got != leaving+staying {
		t.Errorf("%d orders of %d keys", got, leaving+staying)
	}
	idle := "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'andes/' || $1 AND state LIKE 'idle in transaction%' AND now() - state_change > interval '1 second'"
	if got := s.count(idle, s.schema); got > 0 {
		t.Errorf("%d sessions are idle in a transaction", got)
	}
}

// leave places an order and goes away after a while.
func (s *scene) leave(key string, after time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), after)
	defer cancel()
	body := strings.NewReader(`{"currency":"GBP","lines":[{"sku":"A","quantity":1}],"payment":{"token":"tok_visa"}}`)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.front.address()+"/v1/orders", body)
	if err != nil {
		s.t.Error(err)
		return
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+s.partner.token)
	request.Header.Set("Idempotency-Key", key)
	response, err := s.partner.http.Do(request)
	if err != nil {
		if !errors.Is(err, context.DeadlineExceeded) {
			s.t.Error(err)
		}
		return
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
}

// A slow gateway is waited for outside of transactions, and holds nobody up.
func TestASlowGatewayHoldsNothingUp(t *testing.T) {
	s := start(t, options{
		settings: map[string]string{"CALL_TIMEOUT": "10s"}, stock: map[string]int64{"A": 1000}, gateway: gateway.Knobs{DecideDelayMs: 20},
	})
	const latency = 4 * time.Second // what a busy machine takes for anything else is less
	s.turnGateway(func(k *gateway.Knobs) { k.LatencyMs = int(latency.Milliseconds()) })
	var all sync.WaitGroup
	const orders = 20
	for range orders {
		all.Go(func() { s.partner.order("tok_visa", line{"A", 1}) })
	}
	all.Wait()
	idle := `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'andes/' || $1
		AND state LIKE 'idle in transaction%' AND now() - state_change > interval '3 seconds'`
	quickest := latency // of the reads meanwhile
	s.eventually("all are charged", func() error {
		if got := s.count(idle, s.schema); got > 0 {
			t.Errorf("%d sessions are idle in a transaction", got)
		}
		begun := time.Now()
		if _, err := s.partner.available("A"); err != nil {
			t.Error(err)
		}
		quickest = min(quickest, time.Since(begun))
		if sums := s.count("SELECT count(*) FROM orders WHERE status <> 'PENDING_PAYMENT'"); sums < orders {
			return fmt.Errorf("%d of %d", sums, orders)
		}
		return nil
	})
	if quickest == latency {
		t.Errorf("no read was answered before a charge was")
	}
}
