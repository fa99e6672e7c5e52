package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// timeoutAt gives the timeout of the system's guard in a process.
func (s *scene) timeoutAt(i *instance, system string) (string, error) {
	var guards struct {
		Items []struct {
			System   string
			Settings struct{ Timeout string }
		}
	}
	s.clientOf("operator", "ops-viewer").on(i).must(http.StatusOK, http.MethodGet, "/ops/guards", nil, &guards)
	for _, each := range guards.Items {
		if each.System == system {
			return each.Settings.Timeout, nil
		}
	}
	return "", fmt.Errorf("no guard of %s", system)
}

func TestOperatorsSetGuardsWhileEverythingRuns(t *testing.T) {
	s := start(t, options{instances: 2})
	follow := func(timeout string) {
		t.Helper()
		for _, i := range s.running() {
			s.eventually("an instance follows", func() error {
				if got, err := s.timeoutAt(i, "oms"); err != nil || got != timeout {
					return fmt.Errorf("%s, %w", got, err)
				}
				return nil
			})
		}
	}
	admin := s.clientOf("operator", "ops-admin").token
	ops := func(code int, arguments ...string) string {
		t.Helper()
		out, told, exit := s.operate(admin, arguments...)
		if exit != code {
			t.Errorf("andes %v: exit %d: %s%s", arguments, exit, out, told)
		}
		return out + told
	}
	follow("2s")
	if out := ops(0, "guards", "set", "oms", "--timeout", "1500ms", "--rate", "50", "--reason", "it is slow today"); out != `oms: set: {"rate":50,"timeout":"1500ms"}; the guards of all processes follow within 5s`+"\n" {
		t.Error(out)
	}
	follow("1.5s")
	// What makes no sense as a whole is refused, and leaves nothing behind.
	if out := ops(1, "guards", "set", "oms", "--rate", "60", "--window", "5", "--reason", "r"); !strings.Contains(out, "minimum of calls 20 is not 1..5") {
		t.Error(out)
	}
	first := s.running()[0]
	s.stop(first)
	s.restart(first)
	follow("1.5s")
	if out := ops(0, "guards"); !strings.Contains(out, `oms: set: {"rate":50,"timeout":"1500ms"}, by ops-admin`) {
		t.Error(out)
	}
	if out := ops(0, "guards", "reset", "oms", "--reason", "it is well", "--direct"); !strings.Contains(out, "as configured") {
		t.Error(out)
	}
	follow("2s")
	if out := ops(0, "audit"); !strings.Contains(out, "guard.set") || !strings.Contains(out, "guard.reset") || !strings.Contains(out, "it is slow today") {
		t.Error(out)
	}
}
