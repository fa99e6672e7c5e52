package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/IBM/sarama"

	"andes/test/lab/gateway"
)

// activeRelay is the instance that publishes: the last one that said so.
func (s *scene) activeRelay() *instance {
	s.t.Helper()
	var active *instance
	s.eventually("a relay is active", func() error {
		for _, i := range s.running() {
			if slices.ContainsFunc(i.lines(), func(l logLine) bool { return l.Message == "relay: active" }) {
				active = i
				return nil
			}
		}
		return errors.New("none is")
	})
	return active
}

func TestARelayTakesOverFromOneThatIsKilled(t *testing.T) {
	s := start(t, options{
		apart: []string{"query,command,projector,saga,erp,wms,oms,payment,webhook", "relay", "relay"},
		stock: map[string]int64{"A": 100_000}, gateway: gateway.Knobs{DecideDelayMs: 20}, allow: allowed{repeats: true},
	})
	b := s.buy(5)
	for range 3 {
		s.enough(some())
		active := s.activeRelay()
		s.kill(active)
		s.enough(some()) // without a relay orders are accepted all the same
		s.restart(active)
	}
	s.enough(some())
	b.end()
}

// produceAgain repeats records as a relay does that lost its checkpoint.
func (s *scene) produceAgain(times int, topics ...string) {
	s.t.Helper()
	client := s.broker()
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = producer.Close() }()
	var repeats []*sarama.ProducerMessage
	for n := range topics {
		topics[n] = s.schema + "." + topics[n]
	}
	for _, records := range s.published(client, topics...) {
		for _, record := range records {
			for range times {
				again := &sarama.ProducerMessage{Topic: record.Topic, Key: sarama.ByteEncoder(record.Key), Value: sarama.ByteEncoder(record.Value)}
				for _, h := range record.Headers {
					again.Headers = append(again.Headers, *h)
				}
				repeats = append(repeats, again)
			}
		}
	}
	if err := producer.SendMessages(repeats); err != nil {
		s.t.Fatal(err)
	}
}

func TestARepeatedEventHasNoFurtherEffect(t *testing.T) {
	s := start(t, options{gateway: gateway.Knobs{DecideDelayMs: 20}})
	done := s.someDone()
	effects, calls := s.effects(done...), s.legacyCalls()
	s.produceAgain(10, "events.order", "events.payment", "commands.oms", "commands.payment")
	s.consumed("fulfilment", "oms", "payment", "webhook")
	if got := s.effects(done...); got != effects {
		t.Errorf("%s became %s", effects, got)
	}
	if got := s.legacyCalls(); got != calls {
		t.Errorf("%d calls of legacy systems became %d", calls, got)
	}
}

// someDone are orders that came to their end, a good and a bad one.
func (s *scene) someDone() []string {
	s.t.Helper()
	delivered, cancelled := s.partner.order("tok_visa", line{"A", 1}), s.partner.order("tok_reject", line{"B", 1})
	s.partner.await(delivered.OrderID, "DELIVERED")
	s.partner.await(cancelled.OrderID, "CANCELLED")
	s.settle()
	s.quiesce()
	s.consumed("fulfilment", "oms", "payment", "webhook")
	return []string{delivered.OrderID, cancelled.OrderID}
}

// legacyCalls are the calls that orders make; polling is none of them.
func (s *scene) legacyCalls() int64 {
	return s.lab.OMS.Stats().Calls.Total + s.lab.Payment.Stats().Calls.Total
}

// consumed waits until consumers are at the end of all their topics.
func (s *scene) consumed(consumers ...string) {
	s.t.Helper()
	client := s.broker()
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, consumer := range consumers {
		s.eventually(consumer+" has read everything", func() error {
			offsets, err := admin.ListConsumerGroupOffsets(s.schema+"."+consumer, nil)
			if err != nil {
				return err
			}
			for topic, partitions := range offsets.Blocks {
				for partition, block := range partitions {
					end, err := client.GetOffset(topic, partition, sarama.OffsetNewest)
					if err != nil || block.Offset < end {
						return fmt.Errorf("%s/%d: at %d of %d: %v", topic, partition, block.Offset, end, err)
					}
				}
			}
			return nil
		})
	}
}

func TestACheckpointThatIsWrongDoublesAndLosesNothing(t *testing.T) {
	s := start(t, options{
		apart:   []string{"query,command,projector,saga,erp,wms,oms,payment,webhook", "relay"},
		gateway: gateway.Knobs{DecideDelayMs: 20}, allow: allowed{errors: true},
	})
	done := s.someDone()
	effects, calls := s.effects(done...), s.legacyCalls()
	restart := func(checkpoint string) {
		relay := s.activeRelay()
		s.stop(relay)
		s.execute("UPDATE checkpoints SET position = " + checkpoint + " WHERE name = 'relay'")
		s.launch(relay.roles)
	}
	restart("0") // everything is published once more
	s.partner.await(s.partner.order("tok_visa", line{"A", 1}).OrderID, "DELIVERED")
	calls = s.legacyCalls() - calls
	s.consumed("fulfilment", "oms", "payment", "webhook")
	if got := s.effects(done...); got != effects {
		t.Errorf("%s became %s", effects, got)
	}
	if wanted := int64(3); calls != wanted { // the charge, and the question and the registration
		t.Errorf("%d calls of legacy systems for one order, want %d", calls, wanted)
	}
	restart("position + 1000000") // as if the database had been restored from a dump
	waiting := s.partner.order("tok_visa", line{"A", 1})
	s.eventually("the relay refuses", func() error {
		for _, i := range s.running() {
			if strings.Contains(i.log.String(), "checkpoint is not of this log") {
				return nil
			}
		}
		return errors.New("no word of it")
	})
	if got, err := s.partner.get(waiting.OrderID); err != nil || got.Status != "PENDING_PAYMENT" {
		t.Errorf("%+v %v", got, err)
	}
	if out, told, code := s.operate("", "events", "restored", "--since", "1", "--reason", "a trial"); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, told)
	}
	s.partner.await(waiting.OrderID, "DELIVERED") // without a restart
}

// effects are the events of the orders, counted by type.
func (s *scene) effects(orderIDs ...string) string {
	s.t.Helper()
	return strings.Join(s.texts(`SELECT type || ' ' || count(*) FROM events
		WHERE split_part(stream, '/', 1) IN ('order', 'payment', 'reservation', 'fulfilment') AND split_part(stream, '/', 2) = ANY ($1)
		GROUP BY type ORDER BY type`, orderIDs), ", ")
}
