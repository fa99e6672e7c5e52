package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"andes/adapters/kafka"
	"andes/eventstore"
	"andes/test/kafkatest"
)

var ladderTrials = []trial{
	{"KAFKA-04 KAFKA-08 a failing record climbs the tiers, byte for byte, each after its own delay, and ends in the DLQ", climbs},
	{"a retry that succeeds ends the climb, and its progress is given back at each attempt", progressIsGivenBack},
	{"before its time a transient failure repeats the last tier", lastTierIsRepeated},
	{"KAFKA-07 a record that waits holds neither its partition nor one that is due behind it", waitingHoldsNobody},
	{"KAFKA-08 another clock neither delays a retry for longer than its tier nor makes the wait negative", clocksDiffer},
	{"KAFKA-07 a stop while records wait takes a moment, and nothing is parked by it", stopWhileWaiting},
	{"while a consumer is not ready nothing is tried, parked or committed", notReady},
	{"what is away costs no attempt and sends nothing to a tier", putOff},
	{"a try that failed counts although the next one was put off", triedAndPutOff},
	{"KAFKA-05 a record of the greatest size with a long error climbs and keeps its data", greatestSize},
	{"KAFKA-06 a DLQ with fewer partitions takes the record anyway", fewerPartitions},
	{"what is in replay is handled at once, and a foreign record in it goes to the DLQ", replayed},
}

// tiers gives a consumer its ladder; immediate tries would only take time.
func tiers(delays ...time.Duration) func(*kafka.ConsumeConfig, *kafka.Consumer) {
	return func(_ *kafka.ConsumeConfig, c *kafka.Consumer) { c.Policy.Tiers, c.Policy.Tries = delays, 1 }
}

// ensureLadder creates the topics of the events and of a consumer with these tiers.
func ensureLadder(t testing.TB, env *kafkatest.Env, partitions int32, delays ...time.Duration) {
	t.Helper()
	topics := slices.Concat(env.Topics.All(registry(t)), env.Topics.Ladder(consumerName, delays...))
	env.Ensure(t, topics, kafka.Settings{Partitions: partitions})
}

func retry(env *kafkatest.Env, delay time.Duration) string {
	return env.Topics.Retry(consumerName, delay)
}

func letters(t *testing.T, env *kafkatest.Env) []*sarama.ConsumerMessage {
	t.Helper()
	return env.ReadAll(t, env.Topics.DLQ(consumerName))
}

func waitLetters(t *testing.T, env *kafkatest.Env, count int) []*sarama.ConsumerMessage {
	t.Helper()
	var found []*sarama.ConsumerMessage
	kafkatest.Eventually(t, fmt.Sprintf("%d dead letters", count), func() bool {
		found = letters(t, env)
		return len(found) >= count
	})
	return found
}

const (
	short  = 150 * time.Millisecond
	longer = 400 * time.Millisecond
	never  = time.Hour
)

func climbs(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 2, short, longer)
	message := kafka.EncodeRecord(env.Topics.Events("order"), placedEvent("bad", 1))
	message.Headers = append(message.Headers,
		sarama.RecordHeader{Key: []byte("twice"), Value: []byte("a")}, sarama.RecordHeader{Key: []byte("twice"), Value: []byte("b")},
		sarama.RecordHeader{Key: []byte("binary"), Value: []byte{0, 255, 254}})
	env.Produce(t, message)
	times := make(chan time.Time, 10)
	consume(t, env, func(context.Context, eventstore.Record) error {
		times <- time.Now()
		return errors.New("the OMS is\naway")
	}, tiers(short, longer))
	dead := waitLetters(t, env, 1)[0]
	first, second, third := <-times, <-times, <-times
	for name, wait := range map[string]struct{ is, want time.Duration }{"first": {second.Sub(first), short}, "second": {third.Sub(second), longer}} {
		if wait.is < wait.want-5*time.Millisecond || wait.is > wait.want+kafkatest.Patience {
			t.Errorf("the %s wait was %s, want %s", name, wait.is, wait.want)
		}
	}
	original := env.ReadAll(t, env.Topics.Events("order"))[0]
	for attempt, topic := range []string{retry(env, short), retry(env, longer)} {
		hop := env.ReadAll(t, topic)[0]
		checkHop(t, hop, original, attempt+1)
		if string(hop.Value) != string(original.Value) {
			t.Errorf("%s: the value is %s", topic, hop.Value)
		}
	}
	checkHop(t, dead, original, 3)
	is := headers(dead)
	for name, want := range map[string]string{
		"__dlq.errors.topic": original.Topic, "__dlq.errors.partition": strconv.Itoa(int(original.Partition)), "__dlq.errors.offset": "0",
		"__dlq.errors.group": env.Topics.Group(consumerName), "__dlq.errors.delivery.count": "3", "__dlq.errors.message": "the OMS is\naway",
		"andes_payload_redacted": "/token", "andes_error_class": "transient",
	} {
		if is[name] != want {
			t.Errorf("header %s is %q, want %q", name, is[name], want)
		}
	}
	if strings.Contains(string(dead.Value), "tok_secret") {
		t.Errorf("the payment token is in the DLQ: %s", dead.Value)
	}
}

// checkHop compares a parked record with the original, and its way with the attempt.
func checkHop(t *testing.T, hop, original *sarama.ConsumerMessage, attempt int) {
	t.Helper()
	if string(hop.Key) != string(original.Key) || hop.Partition != original.Partition {
		t.Errorf("%s: key %q in partition %d, want %q in %d", hop.Topic, hop.Key, hop.Partition, original.Key, original.Partition)
	}
	for i, want := range original.Headers {
		if is := hop.Headers[i]; string(is.Key) != string(want.Key) || string(is.Value) != string(want.Value) {
			t.Errorf("%s: header %d is %s=%q, want %s=%q", hop.Topic, i, is.Key, is.Value, want.Key, want.Value)
		}
	}
	is := headers(hop)
	if is["andes_attempt"] != strconv.Itoa(attempt) || is["andes_origin_topic"] != original.Topic || is["andes_origin_offset"] != strconv.FormatInt(original.Offset, 10) {
		t.Errorf("%s: attempt %s of %s@%s", hop.Topic, is["andes_attempt"], is["andes_origin_topic"], is["andes_origin_offset"])
	}
	lines := strings.Split(is["andes_failures"], "\n")
	if last := lines[len(lines)-1]; len(lines) != attempt || !strings.HasSuffix(last, fmt.Sprintf(" %d transient the OMS is away", attempt)) {
		t.Errorf("%s: the history is %q", hop.Topic, is["andes_failures"])
	}
	parked, first := hop.Timestamp, timeIn(t, is["andes_first_failure"])
	if due := timeIn(t, is["andes_due"]); due.Before(parked.Add(-time.Second)) || first.After(parked.Add(time.Second)) {
		t.Errorf("%s: parked %s, due %s, first failure %s", hop.Topic, parked, due, first)
	}
	if at := timeIn(t, is["andes_origin_timestamp"]); !at.Equal(original.Timestamp) {
		t.Errorf("%s: origin timestamp %s, want %s", hop.Topic, at, original.Timestamp)
	}
}

func timeIn(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02T15:04:05.000Z07:00", text)
	if err != nil {
		t.Error(err)
	}
	return at
}

func progressIsGivenBack(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, short, longer)
	produceEvents(t, env, placedEvent("o1", 1))
	given := make(chan string, 10)
	consume(t, env, func(ctx context.Context, _ eventstore.Record) error {
		progress := eventstore.Progress(ctx)
		given <- progress
		if len(progress) == 4 {
			return nil
		}
		return eventstore.WithProgress(errors.New("not yet"), progress+"x")
	}, tiers(short, longer), func(_ *kafka.ConsumeConfig, c *kafka.Consumer) { c.Policy.Tries = 2 })
	for _, want := range []string{"", "x", "xx", "xxx", "xxxx"} { // two tries at each of three places
		if got := <-given; got != want {
			t.Errorf("given %q, want %q", got, want)
		}
	}
	kafkatest.Eventually(t, "the retry is done with", func() bool {
		return env.Committed(t, env.Topics.Group(consumerName), retry(env, longer), 0) == 1
	})
	if n := len(letters(t, env)); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

func lastTierIsRepeated(t *testing.T, env *kafkatest.Env) {
	const patience = 5 * time.Second // for some rounds also where each takes long
	ensureLadder(t, env, 1, short, longer)
	produceEvents(t, env, placedEvent("o1", 1))
	attempts := 0
	consume(t, env, func(context.Context, eventstore.Record) error {
		attempts++
		return errors.New("the OMS is away")
	}, tiers(short, longer), func(_ *kafka.ConsumeConfig, c *kafka.Consumer) { c.Policy.RetryFor = patience })
	is := headers(waitLetters(t, env, 1)[0])
	if outlasted := timeIn(t, is["andes_due"]).Sub(timeIn(t, is["andes_first_failure"])); outlasted < patience {
		t.Errorf("it was given up after %s", outlasted)
	}
	if hops := len(env.ReadAll(t, retry(env, longer))); hops < 2 || is["andes_attempt"] != strconv.Itoa(attempts) || attempts != hops+2 {
		t.Errorf("%d times in the last tier, attempt %s of %d", hops, is["andes_attempt"], attempts)
	}
}

// parkedAs makes a record as it lies in a retry topic.
func parkedAs(topic string, record eventstore.Record, originTopic string, originOffset int64, due time.Time, class string) *sarama.ProducerMessage {
	message := kafka.EncodeRecord(topic, record)
	for name, value := range map[string]string{
		"andes_consumer": consumerName, "andes_origin_topic": originTopic, "andes_origin_partition": "0",
		"andes_origin_offset": strconv.FormatInt(originOffset, 10), "andes_origin_timestamp": "2026-11-30T12:00:00.000Z",
		"andes_attempt": "1", "andes_error_class": class, "andes_due": due.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
	} {
		message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(name), Value: []byte(value)})
	}
	return message
}

func waitingHoldsNobody(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, short, never)
	origin := env.Topics.Events("order")
	env.Produce(t,
		parkedAs(retry(env, never), placedEvent("later", 1), origin, 900, time.Now().Add(never), "transient"),
		parkedAs(retry(env, never), placedEvent("sooner", 1), origin, 901, time.Now().Add(time.Second), "transient"))
	var records []eventstore.Record
	for i := range 200 {
		records = append(records, placedEvent(fmt.Sprintf("o%d", i), 1))
	}
	produceEvents(t, env, records...)
	got := &recorder{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		if record.Stream.Key == "o7" && got.try(record) == 1 {
			return errors.New("not yet")
		}
		got.done(record)
		return nil
	}, tiers(short, never))
	kafkatest.Eventually(t, "all that is due is handled", func() bool { return got.count() == len(records)+1 })
	if !got.has("o7", 1) || !got.has("sooner", 1) || got.has("later", 1) {
		t.Error("not those that are due were handled")
	}
	if offset := env.Committed(t, env.Topics.Group(consumerName), retry(env, never), 0); offset > 0 {
		t.Errorf("offset %d is committed past the one that waits", offset)
	}
}

func clocksDiffer(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, short)
	origin := env.Topics.Events("order")
	env.Produce(t,
		parkedAs(retry(env, short), placedEvent("ahead", 1), origin, 900, time.Now().Add(90*time.Second), "transient"),
		parkedAs(retry(env, short), placedEvent("behind", 1), origin, 901, time.Now().Add(-90*time.Second), "transient"))
	got := &recorder{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		got.done(record)
		return nil
	}, tiers(short))
	kafkatest.Eventually(t, "both are handled", func() bool { return got.count() == 2 })
}

func stopWhileWaiting(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, never)
	produceEvents(t, env, placedEvent("o1", 1), placedEvent("o2", 1))
	stop := consume(t, env, func(context.Context, eventstore.Record) error { return errors.New("not yet") }, tiers(never))
	waitCommitted(t, env, 2)
	began := time.Now()
	stop()
	if took := time.Since(began); took > kafkatest.Patience {
		t.Errorf("the stop took %s", took)
	}
	if n := len(env.ReadAll(t, retry(env, never))); n != 2 {
		t.Errorf("%d records wait, want 2", n)
	}
}

func notReady(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, short)
	produceEvents(t, env, placedEvent("o1", 1), placedEvent("o2", 1))
	asked, closed := make(chan struct{}, 100), make(chan struct{})
	got := &recorder{}
	ready := func(_ *kafka.ConsumeConfig, c *kafka.Consumer) {
		c.Ready = func(ctx context.Context) error {
			asked <- struct{}{}
			select {
			case <-closed:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	handle := func(_ context.Context, record eventstore.Record) error {
		got.done(record)
		return nil
	}
	stop := consume(t, env, handle, tiers(short), ready)
	<-asked
	began := time.Now()
	stop() // is not held up by it
	if took := time.Since(began); took > kafkatest.Patience || got.count() != 0 || committed(t, env) > 0 {
		t.Errorf("stopped after %s with %d handled and offset %d committed", took, got.count(), committed(t, env))
	}
	consume(t, env, handle, tiers(short), ready)
	<-asked
	close(closed)
	waitCommitted(t, env, 2)
	if got.count() != 2 || len(env.ReadAll(t, retry(env, short)))+len(letters(t, env)) != 0 {
		t.Errorf("%d handled, %d retried, %d dead", got.count(), len(env.ReadAll(t, retry(env, short))), len(letters(t, env)))
	}
}

func putOff(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, short)
	produceEvents(t, env, placedEvent("o1", 1))
	got, attempts := &recorder{}, make(chan int, 100)
	consume(t, env, func(ctx context.Context, record eventstore.Record) error {
		delivery, _ := kafka.Delivered(ctx)
		attempts <- delivery.Attempt
		if got.try(record) < 5 {
			return eventstore.MarkUnavailable(errors.New("the breaker is open"))
		}
		got.done(record)
		return nil
	}, tiers(short))
	waitCommitted(t, env, 1)
	for range 5 {
		if attempt := <-attempts; attempt != 1 {
			t.Errorf("attempt %d, want the first one", attempt)
		}
	}
	if got.count() != 1 || len(env.ReadAll(t, retry(env, short)))+len(letters(t, env)) != 0 {
		t.Error("it was parked")
	}
}

// A record that always fails, and with it what all need, must not be the first to be tried again each time.
func triedAndPutOff(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, short)
	produceEvents(t, env, placedEvent("o1", 1))
	got := &recorder{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		switch got.try(record) {
		case 1:
			return errors.New("the probe failed")
		case 2:
			return eventstore.MarkUnavailable(errors.New("the breaker is open"))
		}
		got.done(record)
		return nil
	}, tiers(short), func(_ *kafka.ConsumeConfig, c *kafka.Consumer) { c.Policy.Tries = 2 })
	waitCommitted(t, env, 1)
	kafkatest.Eventually(t, "the record is handled", func() bool { return got.count() == 1 })
	if n := len(env.ReadAll(t, retry(env, short))); n != 1 {
		t.Errorf("%d records in the retry topic", n)
	}
}

func greatestSize(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, short)
	const size = 950 << 10
	record := event("order", "big", 1, "order.confirmed", `{"x":"`+strings.Repeat("x", size)+`"}`)
	produceEvents(t, env, record)
	consume(t, env, func(context.Context, eventstore.Record) error {
		return errors.New(strings.Repeat("a long story ", 2000))
	}, tiers(short), func(_ *kafka.ConsumeConfig, c *kafka.Consumer) { c.Policy.RetryFor = 4 * time.Second })
	dead := waitLetters(t, env, 1)[0]
	is, total := headers(dead), 0
	for _, header := range dead.Headers {
		total += len(header.Key) + len(header.Value)
	}
	if string(dead.Value) != string(record.Data) || total > 12<<10 || strings.Count(is["andes_failures"], "\n") > 19 {
		t.Errorf("%d bytes of value, %d of headers, %d failures", len(dead.Value), total, strings.Count(is["andes_failures"], "\n")+1)
	}
}

func fewerPartitions(t *testing.T, env *kafkatest.Env) {
	known := registry(t)
	own := env.Topics.Ladder(consumerName, short)
	env.Ensure(t, slices.Concat(env.Topics.All(known), slices.DeleteFunc(slices.Clone(own), func(topic kafka.Topic) bool { return topic.Kind == kafka.DeadLetterTopic })),
		kafka.Settings{Partitions: 8})
	env.Ensure(t, own, kafka.Settings{Partitions: 1})
	var records []eventstore.Record
	for i := range 40 {
		records = append(records, placedEvent(fmt.Sprintf("o%d", i), 1))
	}
	produceEvents(t, env, records...)
	consume(t, env, func(context.Context, eventstore.Record) error { return eventstore.Refuse("NO", "never") }, tiers(short),
		func(_ *kafka.ConsumeConfig, c *kafka.Consumer) { c.Ordered = true })
	if dead := waitLetters(t, env, len(records)); len(dead) != len(records) {
		t.Errorf("%d dead letters, want %d", len(dead), len(records))
	}
}

func replayed(t *testing.T, env *kafkatest.Env) {
	ensureLadder(t, env, 1, short)
	replay := env.Topics.Replay(consumerName)
	back := parkedAs(replay, placedEvent("o1", 1), env.Topics.Events("order"), 12, time.Now(), "permanent")
	back.Headers = append(back.Headers, sarama.RecordHeader{Key: []byte("andes_replays"), Value: []byte("2")}, sarama.RecordHeader{Key: []byte("andes_replay_run"), Value: []byte("run-7")})
	env.Produce(t, back, &sarama.ProducerMessage{Topic: replay, Key: sarama.StringEncoder("x"), Value: sarama.StringEncoder("not ours")})
	got := &recorder{}
	consume(t, env, func(_ context.Context, record eventstore.Record) error {
		if got.try(record) == 1 {
			return eventstore.Refuse("STILL", "broken")
		}
		got.done(record)
		return nil
	}, tiers(short))
	dead := waitLetters(t, env, 2)
	byClass := map[string]map[string]string{}
	for _, letter := range dead {
		byClass[headers(letter)["andes_error_class"]] = headers(letter)
	}
	again, foreign := byClass["permanent"], byClass["undecodable"]
	if again["andes_replays"] != "2" || again["andes_replay_run"] != "run-7" || again["andes_attempt"] != "2" || again["andes_origin_offset"] != "12" {
		t.Errorf("came back as %v", again)
	}
	if foreign["andes_origin_topic"] != replay || foreign["andes_origin_offset"] != "1" {
		t.Errorf("the foreign one is %v", foreign)
	}
}
