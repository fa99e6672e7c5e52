package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// gauge reads a sample of the metrics of an instance.
func (s *scene) gauge(i *instance, sample string) (string, error) {
	got, err := s.partner.on(i).do(http.MethodGet, "/metrics", nil)
	if err != nil {
		return "", err
	}
	for lines := bufio.NewScanner(bytes.NewReader(got.body)); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), sample+" "); found {
			return value, nil
		}
	}
	return "", fmt.Errorf("%s has no %s", i.address, sample)
}

func TestAPromoBeginsAndEndsEverywhereAndOutlivesEveryProcess(t *testing.T) {
	s := start(t, options{instances: 2})
	admin := s.clientOf("operator", "ops-admin").token
	if _, told, code := s.operate(admin, "promo", "on", "--skus", "A,NO-SUCH-SKU", "--for", "1m", "--reason", "r"); code != 1 || !strings.Contains(told, "PROMO_SKU_UNKNOWN") || !strings.Contains(told, "NO-SUCH-SKU") {
		t.Errorf("exit %d: %s", code, told)
	}
	before := s.shown(s.running()[0], "A")
	var status struct {
		Phase string
		Promo struct{ ID string }
		Look  struct{ Keys, Missing int }
	}
	s.mustOperate(admin, &status, "promo", "on", "--skus", "A,B", "--for", "2h", "--microcache", "10s", "--degrade", "cap=2", "--reason", "a promotion")
	if status.Phase != "waiting" || status.Look.Keys < 6 || status.Look.Missing != 0 {
		t.Errorf("%+v", status)
	}
	s.promoIs("1")
	for _, i := range s.running() {
		if units := s.shown(i, "A"); units != 2 {
			t.Errorf("%d units are shown", units)
		}
		s.eventually("an answer is given again", func() error {
			got, err := s.partner.on(i).do(http.MethodGet, "/v1/stock?sku=A", nil)
			if err == nil && got.header.Get("Age") == "" {
				err = fmt.Errorf("status %d without an Age", got.status)
			}
			return err
		})
	}
	s.partner.order("tok_visa", line{"A", 3}) // what is shown is not what can be ordered
	for _, i := range s.running() {
		s.stop(i)
		s.restart(i)
	}
	s.promoIs("1")
	s.mustOperate(admin, nil, "promo", "off", "--reason", "sold out")
	s.promoIs("0")
	for _, i := range s.running() {
		if units := s.shown(i, "A"); units != before-3 {
			t.Errorf("%d units are shown, want %d", units, before-3)
		}
	}
	s.awaitPromoReport(admin, status.Promo.ID)
	s.mustOperate(admin, nil, "promo", "on", "--skus", "A", "--for", "1m", "--reason", "another one")
	s.awaitPromoOver(admin)
	if out, _, code := s.operate(admin, "audit", "--action", "promo.on"); code != 0 || !strings.Contains(out, "a promotion") || !strings.Contains(out, "cap=2") {
		t.Errorf("%s", out)
	}
}

// awaitPromoReport waits for the final report of the promo, in which two processes were stopped and one order was placed.
func (s *scene) awaitPromoReport(admin, id string) {
	s.t.Helper()
	var report struct {
		Final       bool
		Processes   int
		Reads       int64
		OrderEvents map[string]int64
		Legacy      map[string]struct{ Count int64 }
	}
	s.eventually("the report is final", func() error {
		out := s.mustOperate(admin, nil, "promo", "report", id)
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			return err
		}
		return there(report.Final)
	})
	if report.Processes < 2 || report.Reads < 4 || report.OrderEvents["order.placed"] != 1 || report.Legacy["wms"].Count == 0 {
		s.t.Errorf("%+v", report)
	}
}

// awaitPromoOver waits for a promo of a minute to end by itself.
func (s *scene) awaitPromoOver(admin string) {
	s.t.Helper()
	over := func() error {
		var status struct {
			Phase string
			Promo struct{ EndedBy string }
		}
		s.mustOperate(admin, &status, "promo")
		if status.Phase != "over" || status.Promo.EndedBy != "" {
			return fmt.Errorf("%+v", status)
		}
		return nil
	}
	if s.waitFor(over) != nil { // a minute may not be enough for a minute
		s.eventually("the promo ends by itself", over)
	}
	s.promoIs("0")
}

// promoIs waits until promo mode is on or off in every instance.
func (s *scene) promoIs(value string) {
	s.t.Helper()
	for _, i := range s.running() {
		s.eventually("andes_promo_on is "+value, func() error {
			got, err := s.gauge(i, "andes_promo_on")
			if err == nil && got != value {
				err = fmt.Errorf("it is %s", got)
			}
			return err
		})
	}
}

// shown is what the partner is shown of a SKU.
func (s *scene) shown(i *instance, sku string) int64 {
	s.t.Helper()
	units, err := s.partner.on(i).available(sku)
	if err != nil {
		s.t.Error(err)
	}
	return units
}
