package kafka_test

import (
	"strings"
	"testing"

	"github.com/IBM/sarama"

	"andes/adapters/kafka"
	"andes/test/kafkatest"
)

var topicTrials = []trial{
	{"topics are created with explicit settings, twice without harm, and pass the check", topicsAreCreated},
	{"the check names every dangerous topic in one error", dangerousTopicsAreNamed},
	{"the check names every missing topic", missingTopicsAreNamed},
}

func topicsAreCreated(t *testing.T, env *kafkatest.Env) {
	known := registry(t)
	provision := kafka.Provision{Cluster: env.Cluster, Topics: env.Topics.All(known, "saga")}
	for range 2 {
		if err := provision.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := provision.Check(t.Context()); err != nil {
		t.Errorf("check after ensure: %v", err)
	}
	admin := env.Admin(t)
	for topic, wanted := range map[string]map[string]string{
		env.Topics.Events("order"): {"cleanup.policy": "delete", "retention.ms": "2592000000"},
		env.Topics.Commands("oms"): {"cleanup.policy": "delete", "retention.ms": "2592000000"},
		env.Topics.State("stock"):  {"cleanup.policy": "compact", "retention.ms": "-1", "min.compaction.lag.ms": "60000"},
		env.Topics.DLQ("saga"):     {"cleanup.policy": "delete", "max.message.bytes": "1114112"},
	} {
		described, err := admin.DescribeConfigs([]*sarama.ConfigResource{{Type: sarama.TopicResource, Name: topic}}, sarama.DescribeConfigsOptions{})
		if err != nil || len(described) != 1 {
			t.Fatalf("%d results, %v", len(described), err)
		}
		for _, entry := range described[0].Configs {
			if value, asked := wanted[entry.Name]; asked && entry.Value != value {
				t.Errorf("%s: %s is %s, want %s", topic, entry.Name, entry.Value, value)
			}
		}
	}
}

func dangerousTopicsAreNamed(t *testing.T, env *kafkatest.Env) {
	known := ensure(t, env, kafka.Settings{Partitions: 1})
	admin := env.Admin(t)
	change := func(topic, name, value string) {
		entry := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}
		err := admin.IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{name: entry}, false)
		if err != nil {
			t.Fatal(err)
		}
	}
	change(env.Topics.State("stock"), "cleanup.policy", "compact,delete")
	change(env.Topics.State("order"), "retention.ms", "60000")
	change(env.Topics.Events("order"), "retention.ms", "60000")
	change(env.Topics.Commands("oms"), "retention.bytes", "1000000")

	provision := kafka.Provision{Cluster: env.Cluster, Topics: env.Topics.All(known)}
	var text string
	kafkatest.Eventually(t, "the broker shows the changed settings", func() bool {
		if err := provision.Check(t.Context()); err != nil {
			text = err.Error()
		}
		return strings.Count(text, "\n") == 3
	})
	for _, name := range []string{env.Topics.State("stock"), env.Topics.State("order"), env.Topics.Events("order"), env.Topics.Commands("oms")} {
		if !strings.Contains(text, name) {
			t.Errorf("the error does not name %s:\n%s", name, text)
		}
	}
}

func missingTopicsAreNamed(t *testing.T, env *kafkatest.Env) {
	topics := env.Topics.All(registry(t))
	env.Ensure(t, topics[:1], kafka.Settings{Partitions: 1})
	err := kafka.Provision{Cluster: env.Cluster, Topics: topics}.Check(t.Context())
	if err == nil {
		t.Fatal("missing topics pass the check")
	}
	for _, topic := range topics[1:] {
		if !strings.Contains(err.Error(), topic.Name+" is missing") {
			t.Errorf("the error does not name %s:\n%s", topic.Name, err)
		}
	}
}
