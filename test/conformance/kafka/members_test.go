package kafka_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"andes/adapters/kafka"
	"andes/test/kafkatest"
	"andes/test/members"
)

var memberTrials = []trial{
	{"KAFKA-09 nothing is lost, doubled or out of order while members join, leave, are killed and are cut off", membersComeAndGo},
}

// A round is produced while something happens to the members.
const (
	roundKeys     = 34
	roundVersions = 60 // of each key
	roundEvery    = 400 * time.Millisecond
)

func membersComeAndGo(t *testing.T, env *kafkatest.Env) {
	delays := []time.Duration{200 * time.Millisecond, 500 * time.Millisecond}
	known, err := members.Registry()
	if err != nil {
		t.Fatal(err)
	}
	env.Ensure(t, slices.Concat(env.Topics.All(known), env.Topics.Ladder(consumerName, delays...)), kafka.Settings{Partitions: 6})
	group := members.NewGroup(members.Config{
		Brokers: env.Cluster.Brokers, Prefix: env.Topics.Prefix, Consumer: consumerName, Tiers: delays, Failing: 10, Work: 2 * time.Millisecond,
	})
	all := []*members.Member{}
	join := func() {
		member, err := group.Start()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, member)
	}
	t.Cleanup(func() {
		for _, member := range all {
			_ = member.Kill()
			member.Wait()
		}
	})
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	join()
	join()
	happens := map[int64]func(){
		3:  join,
		8:  func() { must(all[0].Kill()) },
		12: func() { must(all[1].Pause()) }, // for longer than its session
		42: func() { must(all[1].Resume()) },
		46: join,
		50: func() { must(all[2].Leave()) },
		54: join,
		58: func() { must(all[3].Kill()) },
	}
	rounds := time.NewTicker(roundEvery)
	defer rounds.Stop()
	for version := int64(1); version <= roundVersions; version++ {
		produceVersion(t, env, version)
		if event := happens[version]; event != nil {
			event()
		}
		<-rounds.C
	}
	kafkatest.Eventually(t, "every key reaches its last version", func() bool { return group.Reached(roundVersions) == roundKeys })
	for _, member := range []*members.Member{all[1], all[4]} {
		must(member.Leave())
		member.Wait()
	}
	account := group.Account()
	t.Logf("%+v", account)
	if account.Done != roundKeys*roundVersions || account.Disorder != 0 {
		t.Errorf("%+v, want %d done and none out of order", account, roundKeys*roundVersions)
	}
	if n := len(letters(t, env)); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

func produceVersion(t *testing.T, env *kafkatest.Env, version int64) {
	t.Helper()
	var messages []*sarama.ProducerMessage
	for key := range roundKeys {
		messages = append(messages, kafka.EncodeRecord(env.Topics.Events("order"), members.Record(fmt.Sprintf("o%d", key), version)))
	}
	env.Produce(t, messages...)
}
