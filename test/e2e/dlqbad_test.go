package e2e

import (
	"bytes"
	"strings"
	"testing"

	"github.com/IBM/sarama"

	"andes/test/lab/gateway"
	"andes/test/lab/oms"
)

// put writes a record into a topic of the scene.
func (s *scene) put(client sarama.Client, topic, key string, value []byte) {
	s.t.Helper()
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = producer.Close() }()
	message := &sarama.ProducerMessage{Topic: s.schema + "." + topic}
	if key != "" {
		message.Key = sarama.StringEncoder(key)
	}
	if value != nil {
		message.Value = sarama.ByteEncoder(value)
	}
	if _, _, err := producer.SendMessage(message); err != nil {
		s.t.Fatal(err)
	}
}

// refused runs a command that has to say something and fail.
func (s *scene) refused(what string, arguments ...string) {
	s.t.Helper()
	if out, told, code := s.operate("", arguments...); code != 1 || !strings.Contains(told, what) {
		s.t.Errorf("andes %v: exit %d: %s%s, want %q", arguments, code, out, told, what)
	}
}

// What somebody else wrote into a DLQ is shown as what it is, is in nobody's way, and can be let go.
func TestForeignRecordsInADLQAreToldAndKept(t *testing.T) {
	s := start(t, options{
		apart:   []string{"query,command,projector,saga,erp,wms,payment,webhook,relay", "oms"},
		gateway: gateway.Knobs{DecideDelayMs: 20}, allow: allowed{errors: true, parked: 5},
	})
	client := s.broker()
	s.put(client, "oms.dlq", "k", []byte("no JSON, zz-mark@example.test"))
	s.put(client, "oms.dlq", "", []byte(`{"email":"zz-mark@example.test"}`))
	s.put(client, "oms.dlq", "large", bytes.Repeat([]byte("x"), 1_000_000))
	s.put(client, "oms.dlq", "tombstone", nil)
	s.turnOMS(func(k *oms.Knobs) { k.UnknownSKU = "B" })
	ours := s.partner.order("tok_visa", line{"B", 1})
	var letter listedLetter
	s.eventually("ours is among them", func() error {
		s.mustOperate("", &letter, "dlq", "list", "oms", "--direct", "--key", ours.OrderID)
		return there(letter.Letter != "")
	})
	out := s.mustOperate("", nil, "dlq", "list", "oms", "--direct")
	if lines := strings.Count(out, "\n"); lines != 5 || strings.Contains(out, "zz-mark") {
		t.Errorf("%d letters: %s", lines, out)
	}
	for n, text := range strings.Split(strings.TrimSpace(out), "\n") {
		ref, _, _ := strings.Cut(text[strings.Index(text, "oms/"):], `"`)
		if shown, told, code := s.operate("", "dlq", "show", ref, "--direct"); code != 0 || strings.Contains(shown, "zz-mark") {
			t.Errorf("letter %d: exit %d: %s%s", n, code, shown, told)
		}
	}
	s.turnOMS(func(k *oms.Knobs) { k.UnknownSKU = "" })
	for _, i := range s.running() {
		if i.roles == "oms" {
			s.stop(i)
		}
	}
	s.refused("no instance of oms is running", "dlq", "replay", "oms", "--all", "--direct", "--reason", "mended")
	s.launch("oms")
	s.eventually("it runs", func() error {
		var queue struct{ Members int }
		s.mustOperate("", &queue, "dlq", "stats", "oms", "--direct")
		return there(queue.Members > 0)
	})
	s.refused("some letters stay: 4 foreign", "dlq", "replay", "oms", "--all", "--direct", "--reason", "mended")
	s.partner.await(ours.OrderID, "DELIVERED")
	s.mustOperate("", nil, "dlq", "discard", "oms", "--all", "--direct", "--reason", "not ours")
	if out := s.mustOperate("", nil, "dlq", "list", "oms", "--direct"); out != "" {
		t.Errorf("left: %s", out)
	}
}

// Retention took a letter away before anybody looked. Its command is still in the event store: published again,
// it is carried out, for nothing waits behind what is gone.
func TestALetterThatRetentionTookIsPublishedAgain(t *testing.T) {
	s := start(t, options{gateway: gateway.Knobs{DecideDelayMs: 20}, allow: allowed{errors: true, repeats: true, parked: 4}})
	s.turnOMS(func(k *oms.Knobs) { k.UnknownSKU = "B" })
	placed := s.partner.order("tok_visa", line{"B", 1})
	var letter listedLetter
	s.eventually("the registration is in the DLQ", func() error {
		s.mustOperate("", &letter, "dlq", "list", "oms", "--direct")
		return there(letter.Letter != "")
	})
	client := s.broker()
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		t.Fatal(err)
	}
	topic, ends := s.schema+".oms.dlq", map[int32]int64{}
	for partition := range int32(2) {
		if ends[partition], err = client.GetOffset(topic, partition, sarama.OffsetNewest); err != nil {
			t.Fatal(err)
		}
	}
	if err := admin.DeleteRecords(topic, ends); err != nil {
		t.Fatal(err)
	}
	if out := s.mustOperate("", nil, "dlq", "list", "oms", "--direct"); out != "" {
		t.Errorf("listed: %s", out)
	}
	s.refused("there is no letter "+letter.Letter, "dlq", "show", letter.Letter, "--direct")
	s.refused("there is no letter "+letter.Letter, "dlq", "replay", "oms", letter.Letter, "--direct", "--reason", "mended")
	s.refused("there is no letter "+letter.Letter, "dlq", "edit", letter.Letter, "--payload", "/dev/null", "--direct", "--reason", "mended")
	s.turnOMS(func(k *oms.Knobs) { k.UnknownSKU = "" })
	if out, told, code := s.operate("", "events", "republish", "--from", "1", "--topics", "commands", "--category", "order", "--reason", "its letter was lost"); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, told)
	}
	s.partner.await(placed.OrderID, "DELIVERED")
	for _, key := range []string{"a", "b", "c", "d"} { // a partition that is empty has no end that could be read to
		s.put(client, "oms.dlq", key, []byte("foreign"))
	}
}
