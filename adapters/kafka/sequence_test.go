package kafka

import (
	"errors"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	origins   = "events"
	firstTier = "retry.1m"
	lastTier  = "retry.1h"
)

func line(t *testing.T) *sequence {
	t.Helper()
	return newSequence(0, 1, "replay", "dlq", prometheus.NewGauge(prometheus.GaugeOpts{Name: "keys"}))
}

// read is a record of the key o1 with this origin offset, as it is read at a place.
func read(topic string, position, originOffset int64) *Delivery {
	at := time.UnixMilli(1000 + originOffset)
	d := &Delivery{Message: &sarama.ConsumerMessage{Topic: topic, Offset: position, Key: []byte("o1"), Timestamp: at}}
	if topic != origins {
		d.parked, d.ours = &journey{origin: origin{topic: origins, offset: originOffset, at: at}}, true
	}
	return d
}

func expect(t *testing.T, s *sequence, what string, d *Delivery, want turn) {
	t.Helper()
	if got := s.turn(d); got.verdict != want.verdict || got.topic != want.topic {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

func TestLaterRecordsFollowTheFirstAndAreReleasedWhenItIsDone(t *testing.T) {
	s := line(t)
	s.leave(read(origins, 1, 1), firstTier)(10, nil)
	expect(t, s, "later", read(origins, 2, 2), turn{verdict: follow, topic: firstTier})
	s.leave(read(origins, 2, 2), firstTier)(11, nil)
	expect(t, s, "the first one, read again", read(origins, 1, 1), turn{verdict: drop})
	expect(t, s, "the first one", read(firstTier, 10, 1), turn{})
	second, woken := read(firstTier, 11, 2), 0
	if !s.await(second, func() { woken++ }) {
		t.Fatal("the second one need not wait")
	}
	s.done(read(firstTier, 10, 1))
	expect(t, s, "the second one", second, turn{})
	s.done(second)
	expect(t, s, "a third one", read(origins, 3, 3), turn{})
	if woken != 1 || len(s.lines) != 0 {
		t.Errorf("woken %d times, %d keys are open", woken, len(s.lines))
	}
}

func TestOneThatWaitsFollowsWhenTheFirstMovesOn(t *testing.T) {
	s := line(t)
	s.leave(read(origins, 1, 1), firstTier)(10, nil)
	s.leave(read(origins, 2, 2), firstTier)(11, nil)
	second, woken := read(firstTier, 11, 2), 0
	s.await(second, func() { woken++ })
	landed := s.leave(read(firstTier, 10, 1), lastTier)
	expect(t, s, "while it is being written", second, turn{verdict: hold})
	landed(5, nil)
	expect(t, s, "when it was written", second, turn{verdict: follow, topic: lastTier})
	if woken != 1 {
		t.Errorf("woken %d times", woken)
	}
}

// Nobody may wait in memory for a record that is read after it.
func TestOneFollowsTheFirstThatWentToTheEndOfTheSameTopic(t *testing.T) {
	s := line(t)
	s.leave(read(origins, 1, 1), lastTier)(10, nil)
	s.leave(read(origins, 2, 2), lastTier)(11, nil)
	s.leave(read(lastTier, 10, 1), lastTier)(12, nil)
	expect(t, s, "the second one", read(lastTier, 11, 2), turn{verdict: follow, topic: lastTier})
	expect(t, s, "the copy before", read(lastTier, 10, 1), turn{verdict: drop})
}

func TestAnAckThatComesWhenTheRecordWentOnChangesNothing(t *testing.T) {
	s := line(t)
	firstAck := s.leave(read(origins, 1, 1), lastTier)
	expect(t, s, "read before its ack", read(lastTier, 20, 1), turn{})
	secondAck := s.leave(read(lastTier, 20, 1), firstTier)
	firstAck(20, nil)
	expect(t, s, "at its next place", read(firstTier, 3, 1), turn{})
	secondAck(3, nil)
	expect(t, s, "after both acks", read(firstTier, 3, 1), turn{})
}

func TestAWriteThatFailedLeavesTheRecordWhereItWas(t *testing.T) {
	s := line(t)
	s.leave(read(origins, 1, 1), firstTier)(0, errors.New("no broker"))
	if len(s.lines) != 0 {
		t.Error("a record is outstanding that was not parked")
	}
	s.leave(read(origins, 1, 1), firstTier)(10, nil)
	s.leave(read(firstTier, 10, 1), lastTier)(0, errors.New("no broker"))
	expect(t, s, "it", read(firstTier, 10, 1), turn{})
	expect(t, s, "a later one", read(origins, 2, 2), turn{verdict: follow, topic: firstTier})
}

func TestRecordsOfATopicThatHadTheNameBeforeAreNotTakenForThese(t *testing.T) {
	s := line(t)
	s.leave(read(origins, 1, 1), firstTier)(10, nil)
	another := read(origins, 1, 1)
	another.Message.Timestamp = time.UnixMilli(99)
	expect(t, s, "another one with the offset", another, turn{})
}
