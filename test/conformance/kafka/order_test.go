package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"andes/adapters/kafka"
	"andes/eventstore"
	"andes/test/kafkatest"
)

var orderTrials = []trial{
	{"behind a record that waits, those of its key are parked and then handled in order, at once", behindInOrder},
	{"a key that waits does not hold other keys", otherKeysGoOn},
	{"when the first of a key goes to the DLQ, those behind it follow it", followToDLQ},
	{"one that was behind another begins at the first tier when it fails itself", behindBeginsAnew},
	{"a dead letter that is sent back is handled first, and those behind it in their order", replayInOrder},
	{"what is sent back out of order goes behind again", replayOutOfOrder},
	{"a dead letter that an operator gives up holds nobody any longer", discardReleases},
	{"what is outstanding is found out again after a restart", outstandingAfterRestart},
	{"a settled dead letter holds nobody after a restart", settledAfterRestart},
	{"KAFKA-13 a parked record that comes from its origin again is not handled twice", parkedComesAgain},
	{"a copy that a member wrote when it had lost the partition is dropped", zombieCopy},
	{"more records of one key than fit into memory are released in order", beyondMemory},
	{"PROJ-05 a key whose events come in an unusual order is parked, and another's are handled once each", unusualOrder},
	{"nothing waits behind a letter that retention has deleted", goneTrial(retentionTakes)},
	{"nothing waits behind a letter of a DLQ that was made anew", goneTrial(madeAnew)},
	{"what was noted of letters of a DLQ that was made anew does not count for those in it now", settledBefore},
	{"a consumer that does not need order handles later records of a failing key", unordered},
}

func ordered(_ *kafka.ConsumeConfig, c *kafka.Consumer) { c.Ordered = true }

// order is a handler's view of a key: its versions as they were handled.
type order struct {
	recorder
}

func (o *order) versions(key string) (versions []int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, record := range o.handled {
		if record.Stream.Key == key {
			versions = append(versions, record.Version)
		}
	}
	return versions
}

func (o *order) wait(t *testing.T, key string, want ...int64) {
	t.Helper()
	kafkatest.Eventually(t, fmt.Sprintf("versions %v of %s are handled", want, key), func() bool { return len(o.versions(key)) >= len(want) })
	if got := o.versions(key); !slices.Equal(got, want) {
		t.Errorf("versions %v of %s were handled, want %v", got, key, want)
	}
}

func versionsOf(key string, from, to int64) (records []eventstore.Record) {
	for version := from; version <= to; version++ {
		records = append(records, placedEvent(key, version))
	}
	return records
}

func classes(records []*sarama.ConsumerMessage) (found []string) {
	for _, record := range records {
		found = append(found, headers(record)["stream_version"]+" "+headers(record)["andes_error_class"])
	}
	return found
}

func behindInOrder(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, longer, never)
	produceEvents(t, env, versionsOf("o1", 1, 5)...)
	got := &order{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		if record.Version == 2 && got.try(record) == 1 {
			return errors.New("not yet")
		}
		got.done(record)
		return nil
	}, tiers(longer, never), ordered)
	got.wait(t, "o1", 1, 2, 3, 4, 5)
	want := []string{"2 transient", "3 behind", "4 behind", "5 behind"}
	if parked := classes(env.ReadAll(t, retry(env, longer))); !slices.Equal(parked, want) {
		t.Errorf("parked were %v, want %v", parked, want)
	}
	for _, hop := range env.ReadAll(t, retry(env, longer))[1:] {
		if is := headers(hop); is["andes_attempt"] != "0" || is["andes_first_failure"] != "" || is["andes_failures"] != "" {
			t.Errorf("one that did not fail itself tells %v", is)
		}
	}
	produceEvents(t, env, placedEvent("o1", 6)) // nothing of the key waits any more
	got.wait(t, "o1", 1, 2, 3, 4, 5, 6)
}

func otherKeysGoOn(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, never)
	produceEvents(t, env, slices.Concat(versionsOf("bad", 1, 3), versionsOf("good", 1, 3))...)
	got := &order{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		if record.Stream.Key == "bad" {
			return errors.New("not yet")
		}
		got.done(record)
		return nil
	}, tiers(never), ordered)
	got.wait(t, "good", 1, 2, 3)
	waitCommitted(t, env, 6)
}

func followToDLQ(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, short, longer)
	produceEvents(t, env, versionsOf("o1", 1, 4)...)
	got := &order{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		if record.Version == 1 {
			return errors.New("never")
		}
		got.done(record)
		return nil
	}, tiers(short, longer), ordered)
	dead := waitLetters(t, env, 4)
	if is := classes(dead); !slices.Contains(is, "1 transient") || !slices.Contains(is, "2 behind") || !slices.Contains(is, "3 behind") || !slices.Contains(is, "4 behind") {
		t.Errorf("dead letters %v", is)
	}
	produceEvents(t, env, placedEvent("o1", 5))
	dead = waitLetters(t, env, 5)
	if is := classes(dead); !slices.Contains(is, "5 behind") {
		t.Errorf("dead letters %v", is)
	}
	if n := got.count(); n != 0 {
		t.Errorf("%d were handled before the first one", n)
	}
}

func behindBeginsAnew(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, short, longer)
	produceEvents(t, env, versionsOf("o1", 1, 3)...)
	got := &order{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		if tries := got.try(record); tries < 3 && record.Version < 3 {
			return errors.New("not yet")
		}
		got.done(record)
		return nil
	}, tiers(short, longer), ordered)
	got.wait(t, "o1", 1, 2, 3)
	if n := len(letters(t, env)); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// sendBack puts a dead letter into replay as the operators' tools do.
func sendBack(t *testing.T, env *kafkatest.Env, letter *sarama.ConsumerMessage, more ...sarama.RecordHeader) {
	t.Helper()
	message := &sarama.ProducerMessage{Topic: env.Topics.Replay(consumerName), Key: sarama.ByteEncoder(letter.Key), Value: sarama.ByteEncoder(letter.Value), Headers: more}
	for _, header := range letter.Headers {
		message.Headers = append(message.Headers, *header)
	}
	env.Produce(t, message)
}

// refuseFirst is a handler that can't handle the first version until it is mended.
func refuseFirst(got *order, mended <-chan struct{}) handler {
	return func(_ context.Context, record eventstore.Record) error {
		if record.Version == 1 {
			select {
			case <-mended:
			default:
				return eventstore.Refuse("NO", "not as it is")
			}
		}
		got.done(record)
		return nil
	}
}

func replayInOrder(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, short)
	produceEvents(t, env, versionsOf("o1", 1, 3)...)
	got, mended := &order{}, make(chan struct{})
	consume(t, env, refuseFirst(got, mended), tiers(short), ordered)
	dead := waitLetters(t, env, 3)
	close(mended)
	sendBack(t, env, dead[0])
	got.wait(t, "o1", 1)
	produceEvents(t, env, placedEvent("o1", 4)) // 2 and 3 are outstanding yet
	dead = waitLetters(t, env, 4)
	for _, letter := range dead[1:] {
		sendBack(t, env, letter)
	}
	got.wait(t, "o1", 1, 2, 3, 4)
	produceEvents(t, env, placedEvent("o1", 5))
	got.wait(t, "o1", 1, 2, 3, 4, 5)
}

func replayOutOfOrder(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, short)
	produceEvents(t, env, versionsOf("o1", 1, 2)...)
	got, mended := &order{}, make(chan struct{})
	consume(t, env, refuseFirst(got, mended), tiers(short), ordered)
	dead := waitLetters(t, env, 2)
	close(mended)
	sendBack(t, env, dead[1])
	dead = waitLetters(t, env, 3)
	if is := classes(dead); is[2] != "2 behind" || got.count() != 0 {
		t.Errorf("dead letters %v, %d handled", is, got.count())
	}
	sendBack(t, env, dead[0])
	got.wait(t, "o1", 1)
	sendBack(t, env, dead[2])
	got.wait(t, "o1", 1, 2)
}

func discardReleases(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, short)
	produceEvents(t, env, versionsOf("o1", 1, 2)...)
	got := &order{}
	consume(t, env, refuseFirst(got, nil), tiers(short), ordered)
	dead := waitLetters(t, env, 2)
	sendBack(t, env, dead[0], sarama.RecordHeader{Key: []byte("andes_discard"), Value: []byte("true")})
	sendBack(t, env, dead[1])
	got.wait(t, "o1", 2)
	produceEvents(t, env, placedEvent("o1", 3))
	got.wait(t, "o1", 2, 3)
}

func outstandingAfterRestart(t *testing.T, env *kafkatest.Env) {
	const delay = 3 * time.Second
	ensureLadder(t, env, 2, delay)
	keys := []string{"o1", "o2", "o3", "o4"}
	var records []eventstore.Record
	for _, key := range keys {
		records = append(records, versionsOf(key, 1, 2)...)
	}
	produceEvents(t, env, records...)
	got := &order{}
	failing := func(_ context.Context, record eventstore.Record) error {
		if record.Version == 1 && got.try(record) == 1 {
			if record.Stream.Key == "o4" {
				return eventstore.Refuse("NO", "never")
			}
			return errors.New("not yet")
		}
		got.done(record)
		return nil
	}
	stop := consume(t, env, failing, tiers(delay), ordered)
	kafkatest.Eventually(t, "all are parked", func() bool {
		return len(env.ReadAll(t, retry(env, delay))) == 6 && len(letters(t, env)) == 2
	})
	stop()
	for _, key := range keys {
		produceEvents(t, env, placedEvent(key, 3))
	}
	consume(t, env, failing, tiers(delay), ordered)
	for _, key := range keys[:3] {
		got.wait(t, key, 1, 2, 3)
	}
	if dead := waitLetters(t, env, 3); len(dead) != 3 || len(got.versions("o4")) != 0 {
		t.Errorf("dead letters %v, handled %v", classes(dead), got.versions("o4"))
	}
}

// settlements tells what is settled in the trials.
type settlements map[int32][]int64

func (s settlements) Settled(_ context.Context, consumer string) (map[int32][]int64, error) {
	if consumer != consumerName {
		return nil, fmt.Errorf("asked for %s", consumer)
	}
	return s, nil
}

func (settlements) ForgetSettled(context.Context, string, int32, int64) error { return nil }

func settledAfterRestart(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, short)
	produceEvents(t, env, slices.Concat(versionsOf("o1", 1, 1), versionsOf("o2", 1, 1))...)
	got := &order{}
	stop := consume(t, env, refuseFirst(got, nil), tiers(short), ordered)
	dead := waitLetters(t, env, 2)
	stop()
	settled := settlements{0: {dead[0].Offset}}
	produceEvents(t, env, placedEvent("o1", 2), placedEvent("o2", 2))
	consume(t, env, refuseFirst(got, nil), tiers(short), ordered, func(c *kafka.ConsumeConfig, _ *kafka.Consumer) { c.Settled = settled })
	open, held := string(dead[0].Key), string(dead[1].Key)
	got.wait(t, open, 2)
	waitLetters(t, env, 3)
	if handled := got.versions(held); len(handled) != 0 {
		t.Errorf("%v of %s were handled", handled, held)
	}
}

// setOffset moves the stopped group back, as a crash before the commit does.
func setOffset(t *testing.T, env *kafkatest.Env, topic string, offset int64) {
	t.Helper()
	kafkatest.Eventually(t, "the group takes the offset", func() bool {
		_, err := env.Admin(t).AlterConsumerGroupOffsets(env.Topics.Group(consumerName), map[string]map[int32]sarama.OffsetAndMetadata{topic: {0: {Offset: offset}}}, nil)
		return err == nil && env.Committed(t, env.Topics.Group(consumerName), topic, 0) == offset
	})
}

func parkedComesAgain(t *testing.T, env *kafkatest.Env) {
	const delay = 5 * time.Second // a slow machine stops the first consumer before
	ensureLadder(t, env, 1, delay)
	produceEvents(t, env, versionsOf("o1", 1, 3)...)
	got := &order{}
	handle := func(_ context.Context, record eventstore.Record) error {
		if record.Version == 1 && got.try(record) == 1 {
			return errors.New("not yet")
		}
		got.done(record)
		return nil
	}
	stop := consume(t, env, handle, tiers(delay), ordered)
	waitCommitted(t, env, 3)
	stop()
	setOffset(t, env, env.Topics.Events("order"), 0)
	consume(t, env, handle, tiers(delay), ordered)
	got.wait(t, "o1", 1, 2, 3)
	waitCommitted(t, env, 3)
	if n := len(env.ReadAll(t, retry(env, delay))); n != 3 {
		t.Errorf("%d records were parked, want 3", n)
	}
}

func zombieCopy(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, short)
	produceEvents(t, env, versionsOf("o1", 1, 2)...)
	got := &order{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		got.done(record)
		return nil
	}, tiers(short), ordered)
	got.wait(t, "o1", 1, 2)
	env.Produce(t, parkedAs(retry(env, short), placedEvent("o1", 1), env.Topics.Events("order"), 0, time.Now(), "transient"))
	kafkatest.Eventually(t, "the copy is done with", func() bool {
		return env.Committed(t, env.Topics.Group(consumerName), retry(env, short), 0) == 1
	})
	got.wait(t, "o1", 1, 2)
}

func beyondMemory(t *testing.T, env *kafkatest.Env) {
	const delay, versions = time.Second, 5000 // 4,096 are held
	ensureLadder(t, env, 1, delay)
	produceEvents(t, env, versionsOf("o1", 1, versions)...)
	var mu sync.Mutex
	failed, next := 0, int64(1)
	told := &lineCount{Handler: slog.DiscardHandler}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		mu.Lock()
		defer mu.Unlock()
		if record.Version == 1 && failed < 2 {
			failed++
			return errors.New("not yet")
		}
		if record.Version != next {
			t.Errorf("version %d is handled, want %d", record.Version, next)
		}
		next = record.Version + 1
		return nil
	}, tiers(delay), ordered, func(config *kafka.ConsumeConfig, c *kafka.Consumer) {
		c.Policy.RetryFor, config.Logger = time.Hour, slog.New(told)
	})
	// Ten thousand writes take their time on a machine that does other work: it is waited for as long as they go on.
	for done, before := false, int64(0); !done; before = told.count.Load() {
		kafkatest.Eventually(t, "all are handled, or more of them are parked", func() bool {
			mu.Lock()
			defer mu.Unlock()
			done = next == versions+1
			return done || t.Failed() || told.count.Load() >= before+100
		})
		done = done || t.Failed()
	}
}

// lineCount counts lines of a log.
type lineCount struct {
	slog.Handler
	count atomic.Int64
}

func (c *lineCount) Handle(context.Context, slog.Record) error {
	c.count.Add(1)
	return nil
}

func (c *lineCount) Enabled(context.Context, slog.Level) bool { return true }

func (c *lineCount) WithAttrs([]slog.Attr) slog.Handler { return c }

func unordered(t *testing.T, env *kafkatest.Env) {
	const delay = 3 * time.Second // a slow machine reads the second record before
	ensureLadder(t, env, 1, delay)
	produceEvents(t, env, versionsOf("o1", 1, 2)...)
	got := &order{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		if record.Version == 1 && got.try(record) == 1 {
			return errors.New("not yet")
		}
		got.done(record)
		return nil
	}, tiers(delay))
	got.wait(t, "o1", 2, 1)
}

func unusualOrder(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, short)
	produceEvents(t, env, placedEvent("x", 2), placedEvent("y", 1), placedEvent("x", 1), placedEvent("y", 2), placedEvent("y", 3))
	got := &order{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		if versions := got.versions(record.Stream.Key); int64(len(versions))+1 != record.Version {
			return eventstore.Refuse("TOO_EARLY", "%d were handled before it", len(versions))
		}
		got.done(record)
		return nil
	}, tiers(short), ordered)
	got.wait(t, "y", 1, 2, 3)
	dead := waitLetters(t, env, 2)
	if is := classes(dead); !slices.Equal(is, []string{"2 permanent", "1 behind"}) {
		t.Errorf("dead letters %v", is)
	}
	waitCommitted(t, env, 5)
	sendBack(t, env, dead[0], sarama.RecordHeader{Key: []byte("andes_discard"), Value: []byte("true")})
	sendBack(t, env, dead[1])
	got.wait(t, "x", 1)
	if versions := got.versions("y"); len(versions) != 3 {
		t.Errorf("%v of y were handled", versions)
	}
}

// goneTrial has the DLQ lose what is in it, by retention or by its being made anew.
func goneTrial(take func(t *testing.T, env *kafkatest.Env, dlq string)) func(t *testing.T, env *kafkatest.Env) {
	return func(t *testing.T, env *kafkatest.Env) {
		ensureLadder(t, env, 1, short)
		produceEvents(t, env, placedEvent("o1", 1))
		got := &order{}
		consume(t, env, refuseFirst(got, nil), tiers(short), ordered)
		waitLetters(t, env, 1)
		take(t, env, env.Topics.DLQ(consumerName))
		produceEvents(t, env, versionsOf("o1", 2, 3)...)
		got.wait(t, "o1", 2, 3)
	}
}

func retentionTakes(t *testing.T, env *kafkatest.Env, dlq string) {
	if err := env.Admin(t).DeleteRecords(dlq, map[int32]int64{0: 1}); err != nil {
		t.Fatal(err)
	}
}

func madeAnew(t *testing.T, env *kafkatest.Env, dlq string) {
	admin := env.Admin(t)
	if err := admin.DeleteTopic(dlq); err != nil {
		t.Fatal(err)
	}
	kafkatest.Eventually(t, "the topic is made anew", func() bool {
		provision := kafka.Provision{Cluster: env.Cluster, Topics: env.Topics.Ladder(consumerName, short), Settings: kafka.Settings{Partitions: 1}}
		described, err := admin.DescribeTopics([]string{dlq})
		return provision.Ensure(t.Context()) == nil && err == nil && len(described) == 1 && described[0].Err == sarama.ErrNoError && len(env.ReadAll(t, dlq)) == 0
	})
}

// settledBefore is what was noted of the letters of a topic that is no more.
func settledBefore(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, short)
	noted := &notes{settled: map[int32][]int64{0: {0, 1, 2}}}
	produceEvents(t, env, versionsOf("o1", 1, 2)...)
	got := &order{}
	withNotes := func(c *kafka.ConsumeConfig, _ *kafka.Consumer) { c.Settled = noted }
	stop := consume(t, env, refuseFirst(got, nil), tiers(short), ordered, withNotes)
	waitLetters(t, env, 2)
	stop()
	if left, _ := noted.Settled(t.Context(), consumerName); len(left[0]) != 0 {
		t.Errorf("%v are still taken for settled", left)
	}
	consume(t, env, refuseFirst(got, nil), tiers(short), ordered, withNotes)
	produceEvents(t, env, placedEvent("o1", 3))
	waitLetters(t, env, 3)
	if handled := got.versions("o1"); len(handled) != 0 {
		t.Errorf("%v were handled before the first one", handled)
	}
}

// notes are settlements that may be dropped.
type notes struct {
	mu      sync.Mutex
	settled map[int32][]int64
}

func (n *notes) Settled(context.Context, string) (map[int32][]int64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.settled), nil
}

func (n *notes) ForgetSettled(_ context.Context, _ string, partition int32, from int64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.settled[partition] = slices.DeleteFunc(slices.Clone(n.settled[partition]), func(offset int64) bool { return offset >= from })
	return nil
}
