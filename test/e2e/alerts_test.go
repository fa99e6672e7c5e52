package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
