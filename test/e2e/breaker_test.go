package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"andes/test/lab/gateway"
)

// probes is how many calls a half-open breaker admits.
const probes = 3

// An OMS that is ill gets no more than the probes, however many orders wait for it.
func TestAnOMSThatIsIllIsLeftAloneAndGetsAllOrdersWhenItIsBack(t *testing.T) {
	var ill atomic.Bool
	var calls atomic.Int64
	s := start(t, options{
		settings: map[string]string{"BREAKER_OPEN_FOR": "2s"}, gateway: gateway.Knobs{DecideDelayMs: 20},
		oms: func(registry http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				if ill.Load() {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				registry.ServeHTTP(w, r)
			})
		},
	})
	ill.Store(true)
	var orders []string
	place := func(n int) {
		for range n {
			orders = append(orders, s.partner.order("tok_visa", line{"A", 1}).OrderID)
		}
	}
	place(20)
	opened := `andes_legacy_breaker_changes_total{system="oms",to="open"}`
	s.eventually("the breaker opens", func() error { return s.metricIs(opened, 1) })
	before := calls.Load()
	place(20)
	s.eventually("three rounds of probes failed", func() error { return s.metricIs(opened, 4) })
	rounds, err := s.metric(opened)
	if err != nil {
		t.Fatal(err)
	}
	// One round more may have begun.
	if n := calls.Load() - before; n < 1 || n > int64(rounds)*probes {
		t.Errorf("%d calls in %v rounds of probes", n, rounds-1)
	}
	if got := s.partner.await(orders[len(orders)-1], "CONFIRMED"); got.OMSSync != "pending" {
		t.Errorf("omsSync %s", got.OMSSync)
	}
	ill.Store(false)
	for _, id := range orders {
		s.partner.await(id, "DELIVERED")
	}
}

// Whoever waits for a breaker does not keep its process from stopping, and the next one goes on.
func TestAProcessStopsAtOnceWhileItsConsumersWaitForABreaker(t *testing.T) {
	s := start(t, options{settings: map[string]string{"BREAKER_OPEN_FOR": "5m"}, gateway: gateway.Knobs{DecideDelayMs: 20}})
	s.turnGateway(func(k *gateway.Knobs) { k.Outage = true })
	var orders []string
	for range 30 {
		orders = append(orders, s.partner.order("tok_visa", line{"A", 1}).OrderID)
	}
	s.eventually("the breaker opens", func() error {
		return s.metricIs(`andes_legacy_breaker_state{state="open",system="payment"}`, 1)
	})
	var guards struct {
		Items []struct {
			System  string
			Breaker struct{ State string }
		}
	}
	s.clientOf("operator", "ops-viewer").must(http.StatusOK, http.MethodGet, "/ops/guards", nil, &guards)
	states := map[string]string{}
	for _, each := range guards.Items {
		states[each.System] = each.Breaker.State
	}
	if !maps.Equal(states, map[string]string{"erp": "closed", "wms": "closed", "oms": "closed", "payment": "open"}) {
		t.Errorf("operators are told %v", states)
	}
	first := s.running()[0]
	s.stop(first) // a part that does not end in time tells so, as an error in the log
	s.turnGateway(func(k *gateway.Knobs) { k.Outage = false })
	s.restart(first)
	for _, id := range orders {
		s.partner.await(id, "DELIVERED")
	}
}

// metric reads a sample of the first instance.
func (s *scene) metric(sample string) (float64, error) {
	got, err := s.partner.on(s.running()[0]).do(http.MethodGet, "/metrics", nil)
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(got.body)); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), sample+" "); found {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, nil
}

func (s *scene) metricIs(sample string, least float64) error {
	value, err := s.metric(sample)
	if err == nil && value < least {
		err = fmt.Errorf("%s is %v", sample, value)
	}
	return err
}
