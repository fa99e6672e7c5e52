package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"andes/test/lab/gateway"
	"andes/test/lab/oms"
)

var metricName = regexp.MustCompile(`\bandes_[a-z_]+`)

// TestEveryMetricOfAnAlertIsExported keeps the rules from looking at what nobody measures.
func TestEveryMetricOfAnAlertIsExported(t *testing.T) {
	s := start(t, options{})
	files, err := filepath.Glob("../../deploy/alerts/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]bool{}
	for _, file := range files {
		rules, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metricName.FindAllString(string(rules), -1) {
			wanted[name] = true
		}
	}
	if len(wanted) < 10 {
		t.Fatalf("only %d metrics are in the rules", len(wanted))
	}
	s.eventually("every metric of the rules is exported", func() error {
		got, err := s.partner.do(http.MethodGet, "/metrics", nil)
		if err != nil {
			return err
		}
		for name := range wanted {
			if strings.Contains(string(got.body), "\n"+name) {
				delete(wanted, name)
			}
		}
		if len(wanted) > 0 {
			return fmt.Errorf("missing: %v", wanted)
		}
		return nil
	})
}

// TestAnAlertHoldsUntilTheLetterIsDealtWith follows one refused registration by the metrics that the rules look at.
func TestAnAlertHoldsUntilTheLetterIsDealtWith(t *testing.T) {
	s := start(t, options{gateway: gateway.Knobs{DecideDelayMs: 20}, allow: allowed{errors: true, parked: 1}})
	s.turnOMS(func(k *oms.Knobs) { k.UnknownSKU = "B" })
	placed := s.partner.order("tok_visa", line{"B", 1})
	shows := func(what string, samples ...string) {
		s.eventually(what, func() error {
			got, err := s.partner.do(http.MethodGet, "/metrics", nil)
			if err != nil {
				return err
			}
			for _, sample := range samples {
				if !strings.Contains(string(got.body), "\n"+sample+"\n") {
					return fmt.Errorf("there is no %s", sample)
				}
			}
			return nil
		})
	}
	shows("the registration is missed",
		`andes_dlq_depth{consumer="oms"} 1`, `andes_dlq_records_total{consumer="oms"} 1`, `andes_backlog_waiting{what="orders"} 1`)
	s.turnOMS(func(k *oms.Knobs) { k.UnknownSKU = "" })
	s.mustOperate(s.clientOf("", "ops-admin").token, nil, "dlq", "replay", "oms", "--all", "--reason", "the article is there")
	s.partner.await(placed.OrderID, "DELIVERED")
	shows("all is well again",
		`andes_dlq_depth{consumer="oms"} 0`, `andes_dlq_oldest_seconds{consumer="oms"} 0`, `andes_dlq_records_total{consumer="oms"} 1`,
		`andes_backlog_waiting{what="orders"} 0`, `andes_backlog_seconds{what="orders"} 0`)
}
