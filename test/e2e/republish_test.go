package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/IBM/sarama"

	"andes/test/lab/gateway"
)

// lose deletes topics of the scene, as an accident does, and has them made anew.
func (s *scene) lose(topics ...string) {
	s.t.Helper()
	client := s.broker()
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range topics {
		if err := admin.DeleteTopic(s.schema + "." + name); err != nil {
			s.t.Fatal(err)
		}
	}
	s.eventually("the topics are gone", func() error {
		for _, name := range topics {
			described, err := admin.DescribeTopics([]string{s.schema + "." + name})
			if err != nil || described[0].Err != sarama.ErrUnknownTopicOrPartition {
				return fmt.Errorf("%s is still there (%w)", name, err)
			}
		}
		return nil
	})
	s.migrate()
}

// A topic with commands that nobody has read yet, and one with states, are lost and published again, while
// everything runs. Then the whole log is published once more: nobody does anything twice.
func TestLostTopicsArePublishedAgain(t *testing.T) {
	s := start(t, options{
		apart:   []string{"query,command,projector,saga,erp,wms,payment,webhook,relay", "oms"},
		gateway: gateway.Knobs{DecideDelayMs: 20}, allow: allowed{errors: true},
	})
	for _, i := range s.running() {
		if i.roles == "oms" {
			s.stop(i)
		}
	}
	waiting := s.partner.order("tok_visa", line{"A", 1})
	s.partner.await(waiting.OrderID, "CONFIRMED")
	s.quiesce()
	s.lose("commands.oms", "state.stock")

	for what, arguments := range map[string][]string{
		"--from 1 is the whole log":            {"--reason", "r"},
		"--reason is missing":                  {"--from", "1"},
		`there is no kind "letters"`:           {"--from", "1", "--topics", "letters", "--reason", "r"},
		`there is no category "orders"`:        {"--from", "1", "--category", "orders", "--reason", "r"},
		"is beyond the end of the log":         {"--from", "100000000", "--reason", "r"},
		"nothing is being published again":     {"--cancel", "--reason", "r"},
		"is in the future":                     {"--from", "2999-01-01", "--reason", "r"},
		"nothing was published":                {"--from", "1", "--dry-run"},
		s.schema + ".commands.oms            ": {"--from", "1", "--dry-run", "--topics", "commands"},
	} {
		out, told, code := s.operate("", append([]string{"events", "republish"}, arguments...)...)
		if dry := strings.Contains(strings.Join(arguments, " "), "--dry-run"); !strings.Contains(out+told, strings.TrimSpace(what)) || (code == 0) != dry {
			t.Errorf("andes events republish %v: exit %d: %s%s", arguments, code, out, told)
		}
	}
	out, told, code := s.operate("", "events", "republish", "--from", "1", "--topics", "commands,states", "--reason", "two topics were lost")
	if code != 0 || !strings.Contains(out, "are published again") {
		t.Fatalf("exit %d: %s%s", code, out, told)
	}
	s.launch("oms")
	s.partner.await(waiting.OrderID, "DELIVERED")
	var rebuilt struct{ Mended, Records int }
	if s.mustOperate("", &rebuilt, "projections", "rebuild", "stock", "--from", "topics", "--reason", "the topic is whole again"); rebuilt.Mended != 0 || rebuilt.Records < len(s.stock) {
		t.Errorf("%+v", rebuilt)
	}
	var entry struct{ Actor, Action, Reason string }
	s.mustOperate("", &entry, "audit", "--direct", "--consumer", "relay")
	if entry.Action != "events.republish" || entry.Reason != "two topics were lost" || !strings.HasPrefix(entry.Actor, "os:") {
		t.Errorf("%+v", entry)
	}

	done := append(s.someDone(), waiting.OrderID)
	effects, calls := s.effects(done...), s.legacyCalls()
	if out, told, code := s.operate("", "events", "republish", "--from", "1", "--reason", "to be sure"); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, told)
	}
	s.consumed("fulfilment", "oms", "payment", "webhook")
	if got := s.effects(done...); got != effects {
		t.Errorf("%s became %s", effects, got)
	}
	if got := s.legacyCalls(); got != calls {
		t.Errorf("%d calls of legacy systems became %d", calls, got)
	}
}
