package kafka_test

import (
	"slices"
	"testing"
	"time"

	"andes/adapters/kafka"
	"andes/test/kafkatest"
	"andes/test/members"
)

var zombieTrials = []trial{
	{"KAFKA-09 a member that was paused for longer than its session sends nothing to the DLQ when it goes on", zombieParksNothing},
}

// A member is stopped in the middle of its work. The group goes on without it, and another one handles the record.
// Then it goes on as if nothing had been: its try fails, and a letter would hold the key for nothing.
func zombieParksNothing(t *testing.T, env *kafkatest.Env) {
	known, err := members.Registry()
	if err != nil {
		t.Fatal(err)
	}
	env.Ensure(t, slices.Concat(env.Topics.All(known), env.Topics.Ladder(consumerName)), kafka.Settings{Partitions: 1})
	config := members.Config{Brokers: env.Cluster.Brokers, Prefix: env.Topics.Prefix, Consumer: consumerName, Work: 3 * time.Second, Refuses: true}
	zombies := members.NewGroup(config)
	start := func(group *members.Group) *members.Member {
		member, err := group.Start()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = member.Kill()
			member.Wait()
		})
		return member
	}
	zombie := start(zombies)
	env.Produce(t, kafka.EncodeRecord(env.Topics.Events("order"), members.Record("o1", 1)))
	kafkatest.Eventually(t, "the first member works on it", func() bool { return zombies.Begun() == 1 })
	if err := zombie.Pause(); err != nil {
		t.Fatal(err)
	}
	config.Work, config.Refuses = 0, false
	others := members.NewGroup(config)
	start(others)
	kafkatest.Eventually(t, "the other member has handled it", func() bool { return others.Reached(1) == 1 })
	if err := zombie.Resume(); err != nil {
		t.Fatal(err)
	}
	kafkatest.Eventually(t, "the first member has come to its senses", func() bool { return zombies.Refused() >= 1 })
	env.Produce(t, kafka.EncodeRecord(env.Topics.Events("order"), members.Record("o1", 2)))
	kafkatest.Eventually(t, "the next one is handled", func() bool { return others.Reached(2) == 1 })
	if err := zombie.Leave(); err != nil {
		t.Fatal(err)
	}
	zombie.Wait()
	if dead := letters(t, env); len(dead) != 0 {
		t.Errorf("%d letters of records that are handled: %v", len(dead), classes(dead))
	}
}
