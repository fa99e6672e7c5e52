package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"andes/test/lab/gateway"
	"andes/test/lab/oms"
)

// buyers order until they are told to stop. Like a careful partner they repeat what got no answer, with
// the same key.
type buyers struct {
	scene *scene
	all   sync.WaitGroup
	stop  atomic.Bool
	keys  atomic.Int64
}

func (s *scene) buy(number int) *buyers {
	b := &buyers{scene: s}
	for range number {
		b.all.Go(func() {
			for !b.stop.Load() {
				b.keys.Add(1)
				b.one()
			}
		})
	}
	return b
}

// one order, until it is acknowledged.
func (b *buyers) one() {
	s, key := b.scene, uuid.NewString()
	err := s.waitFor(func() error {
		var order placed
		got, err := s.partner.do(http.MethodPost, "/v1/orders", orderBody("tok_visa", line{"A", 1}), "Idempotency-Key", key)
		switch {
		case err != nil:
			return err
		case got.status == http.StatusAccepted:
			err := json.Unmarshal(got.body, &order)
			s.acknowledged(order.OrderID)
			return err
		case got.status < 500 && got.code() != "REQUEST_IN_PROGRESS":
			s.t.Errorf("order: %d %s", got.status, got.body)
			return nil
		}
		return fmt.Errorf("%d %s", got.status, got.body)
	})
	if err != nil {
		s.t.Errorf("an order was never acknowledged: %v", err)
	}
}

func (s *scene) acceptedOrders() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.accepted)
}

// enough waits until that many more orders were acknowledged.
func (s *scene) enough(more int) {
	s.t.Helper()
	begun := s.acceptedOrders()
	s.eventually(fmt.Sprintf("%d more orders", more), func() error {
		if got := s.acceptedOrders() - begun; got < more {
			return fmt.Errorf("%d so far", got)
		}
		return nil
	})
}

// end stops the buyers and checks that each key is one order.
func (b *buyers) end() {
	b.scene.t.Helper()
	b.stop.Store(true)
	b.all.Wait()
	keys := int(b.keys.Load())
	if stored, told := b.scene.count("SELECT count(*) FROM orders"), b.scene.acceptedOrders(); stored != keys || told != keys {
		b.scene.t.Errorf("%d orders are there, %d were acknowledged, %d placed", stored, told, keys)
	}
}

// some is a random number of orders: a process may die at any point of its work.
func some() int { return 3 + rand.IntN(15) }

func TestKilledProcessesLoseAndDoubleNothing(t *testing.T) {
	s := start(t, options{
		instances: 2, stock: map[string]int64{"A": 100_000},
		settings: map[string]string{"PAYMENT_INQUIRY": "3s"},
		gateway:  gateway.Knobs{DecideDelayMs: 20}, allow: allowed{errors: true, repeats: true},
	})
	b := s.buy(5)
	for range 4 {
		s.enough(some())
		running := s.running()
		victim := running[rand.IntN(len(running))]
		s.kill(victim)
		s.enough(some())
		s.restart(victim)
	}
	s.enough(some())
	for _, victim := range s.running() { // nobody is left
		s.kill(victim)
	}
	for range 2 {
		s.awaitReady(s.launch(""))
	}
	s.enough(some())
	b.end()
}

// SIGTERM under load: processes end one after the other, each cleanly and with its work done.
func TestAStoppedProcessKeepsItsWord(t *testing.T) {
	s := start(t, options{
		instances: 2, stock: map[string]int64{"A": 100_000}, gateway: gateway.Knobs{DecideDelayMs: 20}, allow: allowed{repeats: true},
	})
	s.turnOMS(func(k *oms.Knobs) { k.LatencyMs = 300 }) // there is always work in flight
	b := s.buy(4)
	for range 3 {
		s.enough(some())
		oldest := s.running()[0]
		s.launch("")
		s.stop(oldest)
	}
	b.end()
}

// Nobody repeats anything here: what was committed was also answered, although the process was told to end.
func TestAStoppingProcessAnswersWhatItCommitted(t *testing.T) {
	s := start(t, options{stock: map[string]int64{"A": 100_000}, gateway: gateway.Knobs{DecideDelayMs: 20}, allow: allowed{repeats: true}})
	once := *s.partner
	once.http = &http.Client{Timeout: callTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	var all sync.WaitGroup
	var ended atomic.Bool
	for range 8 {
		all.Go(func() {
			for !ended.Load() {
				var order placed
				got, err := once.do(http.MethodPost, "/v1/orders", orderBody("tok_visa", line{"A", 1}), "Idempotency-Key", uuid.NewString())
				if err == nil && got.status == http.StatusAccepted && json.Unmarshal(got.body, &order) == nil {
					s.acknowledged(order.OrderID)
				}
			}
		})
	}
	s.enough(30)
	s.stop(s.running()[0])
	ended.Store(true)
	all.Wait()
	if stored, told := s.count("SELECT count(*) FROM orders"), s.acceptedOrders(); stored != told {
		t.Errorf("%d orders are there, %d were acknowledged", stored, told)
	}
	s.awaitReady(s.launch(""))
}

// A signal may come at any moment of the start, and a second one ends the wait for what is in flight.
func TestASignalEndsAProcessThatStartsOrDrains(t *testing.T) {
	s := start(t, options{
		settings: map[string]string{"CALL_TIMEOUT": "10s"}, gateway: gateway.Knobs{DecideDelayMs: 20}, allow: allowed{repeats: true},
	})
	for range 4 {
		i := s.launch("")
		<-time.After(rand.N(400 * time.Millisecond)) // any moment
		s.signal(i)
		select {
		case err := <-i.exited:
			if served := slices.ContainsFunc(i.lines(), func(l logLine) bool { return l.Message == "serving" }); served && err != nil {
				t.Errorf("it served and ended with %v", err)
			}
		case <-time.After(stopWait):
			t.Fatalf("it did not end within %s: %s", stopWait, i.log.String())
		}
		s.forget(i)
	}
	s.turnOMS(func(k *oms.Knobs) { k.LatencyMs = 9900 })
	order := s.partner.order("tok_visa", line{"A", 1})
	s.eventually("the OMS is asked", func() error {
		if calls := s.lab.OMS.Stats().Calls; calls.Total == 0 {
			return fmt.Errorf("%+v", calls)
		}
		return nil
	})
	hasty := s.running()[0]
	s.signal(hasty)
	s.eventually("it is stopping", func() error {
		if !slices.ContainsFunc(hasty.lines(), func(l logLine) bool { return l.Message == "stopping" }) {
			return errors.New("no word of it")
		}
		return nil
	})
	s.eventually("it ends", func() error {
		_ = hasty.process.Process.Signal(syscall.SIGTERM) // it is told that it stops just before it listens anew
		select {
		case err := <-hasty.exited:
			if err == nil {
				t.Error("it ended in order: the second signal ended nothing")
			}
			return nil
		default:
			return errors.New("it has not")
		}
	})
	s.forget(hasty)
	s.turnOMS(func(k *oms.Knobs) { k.LatencyMs = 0 })
	s.awaitReady(s.launch(""))
	s.partner.await(order.OrderID, "DELIVERED")
}
