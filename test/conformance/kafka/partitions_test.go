package kafka_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/IBM/sarama"

	"andes/adapters/kafka"
	"andes/deadletters"
	"andes/eventstore"
	"andes/test/kafkatest"
)

var partitionTrials = []trial{
	{"KAFKA-11 order is kept over retries and DLQ whatever the topics' numbers of partitions are, and when there are more", oddPartitions},
	{"what an operator gave up is never handled: without a key, and of a partition that the replay topic does not have", givenUp},
}

// oddLadder has an origin of more partitions than there are to park in, and a DLQ of yet another number.
func oddLadder(t *testing.T, env *kafkatest.Env) {
	t.Helper()
	sizes := map[string]int32{env.Topics.DLQ(consumerName): 3, env.Topics.Events("order"): 5}
	for _, topic := range slices.Concat(env.Topics.All(registry(t)), env.Topics.Ladder(consumerName, short)) {
		env.Ensure(t, []kafka.Topic{topic}, kafka.Settings{Partitions: max(2, sizes[topic.Name])})
	}
}

// keyGate is a handler that refuses the first version of every key until that key is mended.
type keyGate struct {
	order
	mu     sync.Mutex
	mended bool
}

func (g *keyGate) handle(_ context.Context, record eventstore.Record) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if record.Version == 1 && !g.mended {
		return eventstore.Refuse("NO", "not as it is")
	}
	g.done(record)
	return nil
}

// pair runs two members until stop is called.
func pair(t *testing.T, env *kafkatest.Env, log *kafka.DeadLetterLog, handle handler) (stop func()) {
	t.Helper()
	one, two := consume(t, env, handle, tiers(short), ordered), consume(t, env, handle, tiers(short), ordered)
	kafkatest.Eventually(t, "two members run", func() bool {
		members, _, err := log.Members(t.Context(), consumerName)
		return err == nil && members == 2
	})
	return func() { one(); two() }
}

func letterLog(t *testing.T, env *kafkatest.Env) *kafka.DeadLetterLog {
	t.Helper()
	log, err := kafka.NewDeadLetterLog(t.Context(), kafka.DeadLetterLogConfig{Cluster: env.Cluster, Names: env.Topics, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	return log
}

// allLetters gives the letters of the consumer by partition and offset.
func allLetters(t *testing.T, log *kafka.DeadLetterLog) (all []deadletters.Return) {
	t.Helper()
	bounds, err := log.Bounds(t.Context(), consumerName)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bounds {
		err := log.Scan(t.Context(), consumerName, b.Partition, b.First, b.End, func(l *deadletters.Letter) bool {
			all = append(all, deadletters.Return{Letter: l, Value: l.Value, Replays: 1, Run: "run"})
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func oddPartitions(t *testing.T, env *kafkatest.Env) {
	oddLadder(t, env)
	log, gate := letterLog(t, env), &keyGate{}
	stop := pair(t, env, log, gate.handle)
	keys := make([]string, 12)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%02d", i)
		produceEvents(t, env, versionsOf(keys[i], 1, 3)...)
	}
	waitLetters(t, env, 3*len(keys))
	stop()
	for _, key := range keys {
		produceEvents(t, env, placedEvent(key, 4))
	}
	stop = pair(t, env, log, gate.handle) // they find out what is outstanding
	waitLetters(t, env, 4*len(keys))
	stop()
	if err := env.Admin(t).CreatePartitions(env.Topics.Events("order"), 7, nil, false); err != nil {
		t.Fatal(err)
	}
	later := make([]string, 12)
	for i := range later {
		later[i] = fmt.Sprintf("later-%02d", i)
		produceEvents(t, env, versionsOf(later[i], 1, 2)...)
	}
	pair(t, env, log, gate.handle)
	waitLetters(t, env, 4*len(keys)+2*len(later))
	if n := gate.count(); n != 0 {
		t.Errorf("%d records were handled before the first of their keys", n)
	}
	gate.mu.Lock()
	gate.mended = true
	gate.mu.Unlock()
	back := allLetters(t, log)
	slices.SortStableFunc(back, func(a, b deadletters.Return) int { return int(a.Letter.Origin.Offset - b.Letter.Origin.Offset) })
	if errs := log.Send(t.Context(), consumerName, back); errs != nil {
		t.Fatal(errs)
	}
	for _, key := range keys {
		gate.wait(t, key, 1, 2, 3, 4)
	}
	for _, key := range later {
		gate.wait(t, key, 1, 2)
	}
}

func givenUp(t *testing.T, env *kafkatest.Env) {
	oddLadder(t, env)
	log, gate := letterLog(t, env), &keyGate{}
	consume(t, env, gate.handle, tiers(short), ordered)
	keyless := kafka.EncodeRecord(env.Topics.Events("order"), placedEvent("gone", 1))
	keyless.Key = nil
	env.Produce(t, keyless, &sarama.ProducerMessage{Topic: env.Topics.Events("order"), Value: sarama.StringEncoder("x")})
	const keys = 10
	for i := range keys {
		produceEvents(t, env, placedEvent(fmt.Sprintf("o%d", i), 1))
	}
	waitLetters(t, env, keys+2)
	back := allLetters(t, log)
	for i := range back {
		back[i].Discard = true
	}
	if errs := log.Send(t.Context(), consumerName, back); errs != nil {
		t.Fatal(errs)
	}
	kafkatest.Eventually(t, "what was given up is worked off", func() bool {
		backlog, err := log.Backlog(t.Context(), consumerName)
		return err == nil && backlog == 0
	})
	if n := len(letters(t, env)); n != len(back) || gate.count() != 0 {
		t.Errorf("%d letters of %d, %d records handled", n, len(back), gate.count())
	}
	for i := range keys {
		produceEvents(t, env, placedEvent(fmt.Sprintf("o%d", i), 2))
	}
	for i := range keys {
		gate.wait(t, fmt.Sprintf("o%d", i), 2) // nothing holds them
	}
}
