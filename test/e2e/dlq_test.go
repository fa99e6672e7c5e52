package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"andes/test/lab/gateway"
	"andes/test/lab/oms"
)

// operate runs a command of the operators and gives what it printed and its exit code.
func (s *scene) operate(token string, arguments ...string) (out, told string, code int) {
	s.t.Helper()
	command := s.command(s.t.Context(), arguments...)
	command.Env = append(command.Env, "ANDES_OPS_URL=http://"+s.front.address(), "ANDES_OPS_TOKEN="+token)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil && command.ProcessState == nil {
		s.t.Fatal(err)
	}
	return stdout.String(), stderr.String(), command.ProcessState.ExitCode()
}

// must is operate for a command that has to go well; its answer is one JSON document.
func (s *scene) mustOperate(token string, answer any, arguments ...string) string {
	s.t.Helper()
	out, told, code := s.operate(token, append(arguments, "--output", "json")...)
	if code != 0 {
		s.t.Fatalf("andes %v: exit %d: %s%s", arguments, code, out, told)
	}
	if answer != nil && out != "" {
		if err := json.NewDecoder(strings.NewReader(out)).Decode(answer); err != nil {
			s.t.Fatalf("andes %v: %v: %s", arguments, err, out)
		}
	}
	return out
}

// there is the condition that something was found.
func there(found bool) error {
	if !found {
		return errors.New("nothing yet")
	}
	return nil
}

type listedLetter struct {
	Letter, Class, Error, Partner, Key string
	Replays                            int
}

// An order of an article that the OMS does not have is refused for good. An operator finds it, tries out what
// would happen, has the OMS mended, and sends it back.
func TestARefusedRegistrationIsFoundTriedMendedAndReplayed(t *testing.T) {
	s := start(t, options{gateway: gateway.Knobs{DecideDelayMs: 20}, allow: allowed{errors: true, parked: 1}})
	s.turnOMS(func(k *oms.Knobs) { k.UnknownSKU = "B" })
	placed := s.partner.order("tok_visa", line{"B", 1})
	admin, viewer := s.clientOf("", "ops-admin").token, s.clientOf("", "ops-viewer").token

	var letter listedLetter
	s.eventually("the registration is in the DLQ", func() error {
		var found listedLetter
		s.mustOperate(viewer, &found, "dlq", "list", "oms")
		letter = found
		return there(found.Letter != "")
	})
	if letter.Class != "permanent" || letter.Partner != "acme" || letter.Key != placed.OrderID || !strings.Contains(letter.Error, "422") {
		t.Errorf("%+v", letter)
	}
	var queue struct{ Depth, Members int }
	if s.mustOperate(viewer, &queue, "dlq", "stats", "oms"); queue.Depth != 1 || queue.Members == 0 {
		t.Errorf("%+v", queue)
	}
	shown := s.mustOperate(viewer, nil, "dlq", "show", letter.Letter)
	if !strings.Contains(shown, `"kind":"event"`) || !strings.Contains(shown, placed.OrderID) || strings.Contains(shown, "tok_visa") {
		t.Errorf("%s", shown)
	}

	tried := s.mustOperate(viewer, nil, "dlq", "replay", "oms", "--all", "--dry-run")
	if !strings.Contains(tried, `"method":"POST"`) || !strings.Contains(tried, "/orders") || !strings.Contains(tried, `"outcome":"handled"`) {
		t.Errorf("%s", tried)
	}
	_, told, code := s.operate(viewer, "dlq", "replay", "oms", "--all")
	if code != 1 || !strings.Contains(told, "ops-admin") {
		t.Errorf("a viewer replays: exit %d: %s", code, told)
	}
	if _, told, code := s.operate(admin, "dlq", "replay", "oms"); code != 1 || !strings.Contains(told, "--all") {
		t.Errorf("without a filter: exit %d: %s", code, told)
	}

	s.turnOMS(func(k *oms.Knobs) { k.UnknownSKU = "" })
	var progress struct{ Sent, Planned int }
	if s.mustOperate(admin, &progress, "dlq", "replay", "oms", "--key", placed.OrderID, "--reason", "the OMS knows B now"); progress.Sent != 1 {
		t.Errorf("%+v", progress)
	}
	s.partner.await(placed.OrderID, "DELIVERED")
	if out := s.mustOperate(viewer, nil, "dlq", "list", "oms"); out != "" {
		t.Errorf("still outstanding: %s", out)
	}
	var entry struct {
		Actor, Action, Subject, Reason string
		Count                          int
	}
	s.mustOperate(viewer, &entry, "audit", "--consumer", "oms")
	if entry.Action != "dlq.replay" || entry.Count != 1 || entry.Reason != "the OMS knows B now" || !strings.HasPrefix(entry.Actor, "ops-admin") {
		t.Errorf("%+v", entry)
	}
}

// On the day when the ops API is down, the same is done without it.
func TestDeadLettersAreSettledWithoutTheAPI(t *testing.T) {
	s := start(t, options{gateway: gateway.Knobs{DecideDelayMs: 20}, allow: allowed{errors: true, parked: 1}})
	s.turnOMS(func(k *oms.Knobs) { k.UnknownSKU = "B" })
	placed := s.partner.order("tok_visa", line{"B", 1})
	var letter listedLetter
	s.eventually("the registration is in the DLQ", func() error {
		s.mustOperate("", &letter, "dlq", "list", "--direct")
		return there(letter.Letter != "")
	})
	s.turnOMS(func(k *oms.Knobs) { k.UnknownSKU = "" })
	file := filepath.Join(t.TempDir(), "letters.jsonl")
	if _, told, code := s.operate("", "dlq", "export", "oms", "--direct", "--to", file); code != 0 {
		t.Errorf("export: exit %d: %s", code, told)
	}
	if exported, err := os.ReadFile(file); err != nil || !strings.Contains(string(exported), letter.Letter) || strings.Contains(string(exported), "tok_visa") {
		t.Errorf("%v: %s", err, exported)
	}
	for what, arguments := range map[string][]string{
		"there is no consumer":       {"dlq", "list", "nobody", "--direct"},
		"is no letter":               {"dlq", "show", "oms", "--direct"},
		"there is no letter":         {"dlq", "show", "oms/0/99", "--direct"},
		"reads no topic":             {"dlq", "list", "oms", "--topic", "elsewhere", "--direct"},
		"no time":                    {"dlq", "list", "oms", "--since", "yesterday", "--direct"},
		"no error class":             {"dlq", "list", "oms", "--class", "odd", "--direct"},
		"does not read single":       {"dlq", "replay", "projector", "--all", "--direct"},
		"missing flags: --reason":    {"dlq", "discard", "oms", "--all", "--direct"},
		"no JSON object":             {"dlq", "edit", letter.Letter, "--payload", os.DevNull, "--reason", "r", "--direct"},
		"ANDES_OPS_TOKEN is not set": {"dlq", "stats"},
	} {
		if out, told, code := s.operate("", arguments...); code == 0 || !strings.Contains(told, what) {
			t.Errorf("andes %v: exit %d: %s%s", arguments, code, out, told)
		}
	}
	var progress struct{ Sent int }
	if s.mustOperate("", &progress, "dlq", "replay", "oms", letter.Letter, "--direct"); progress.Sent != 1 {
		t.Errorf("%+v", progress)
	}
	s.partner.await(placed.OrderID, "DELIVERED")
	var entry struct{ Actor string }
	if s.mustOperate("", &entry, "audit", "--direct"); !strings.HasPrefix(entry.Actor, "os:") {
		t.Errorf("%+v", entry)
	}
}
