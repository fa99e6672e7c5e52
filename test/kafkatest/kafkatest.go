// Package kafkatest gives a test topics of its own on a Kafka, so that tests run in parallel: on the
// broker of ANDES_KAFKA_BROKERS, or on an embedded one that the test may stop and start.
package kafkatest

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"go.uber.org/goleak"

	"andes/adapters/kafka"
	"andes/test/broker"
)

const (
	// Patience is how long a test waits for what must happen.
	Patience = 90 * time.Second
	// Poll is how often Eventually looks.
	Poll = 10 * time.Millisecond
)

// Env is a Kafka with a topic prefix of the test's own.
type Env struct {
	Cluster kafka.Cluster
	Topics  kafka.Topics

	dir      string           // of the embedded broker
	embedded *broker.Embedded // nil: the environment's broker, or stopped
}

var counter atomic.Int64

func newEnv(brokers ...string) *Env {
	return &Env{
		Cluster: kafka.Cluster{Brokers: brokers, ClientID: "andes-test"},
		Topics:  kafka.Topics{Prefix: fmt.Sprintf("t%d-%d-%d.", os.Getpid(), time.Now().UnixNano()%1e9, counter.Add(1))},
	}
}

// New uses the broker of ANDES_KAFKA_BROKERS, or fails the test: a missing service is a failure. The
// test's topics and groups are deleted when it ends.
func New(t testing.TB) *Env {
	t.Helper()
	brokers := os.Getenv("ANDES_KAFKA_BROKERS")
	if brokers == "" {
		t.Fatal("ANDES_KAFKA_BROKERS is not set: run the tests by `make test`, or `eval \"$(scripts/services env test)\"` after `scripts/services start test`")
	}
	env := newEnv(strings.Split(brokers, ",")...)
	t.Cleanup(func() { env.deleteAll(t) })
	return env
}

// Embedded runs a broker for this test alone, which can be stopped and started.
func Embedded(t testing.TB) *Env {
	t.Helper()
	env := newEnv()
	env.dir = t.TempDir()
	env.start(t, "127.0.0.1:0")
	env.Cluster.Brokers = []string{env.embedded.Addr()}
	t.Cleanup(func() { env.Stop(t) })
	return env
}

func (e *Env) start(t testing.TB, address string) {
	t.Helper()
	started, err := broker.Start(broker.Config{Addr: address, Dir: e.dir, SyncWrites: true})
	if err != nil {
		t.Fatal(err)
	}
	e.embedded = started
}

// Stop takes the embedded broker down; its records stay.
func (e *Env) Stop(t testing.TB) {
	t.Helper()
	if e.embedded != nil {
		e.embedded.Close()
		e.embedded = nil
	}
}

// Start brings a stopped broker back at its address.
func (e *Env) Start(t testing.TB) {
	t.Helper()
	e.start(t, e.Cluster.Brokers[0])
}

// Compact runs the embedded broker's compaction.
func (e *Env) Compact() { e.embedded.Compact() }

// Admin gives a client for administration that is closed when the test ends.
func (e *Env) Admin(t testing.TB) sarama.ClusterAdmin {
	t.Helper()
	admin, err := sarama.NewClusterAdmin(e.Cluster.Brokers, e.config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })
	return admin
}

func (e *Env) config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.ClientID = e.Cluster.ClientID
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewMurmur2Partitioner
	config.Producer.Retry.Max = 300 // a topic that was just created takes a moment to have a leader
	config.Admin.Timeout = Patience
	config.Consumer.Return.Errors = true
	config.Consumer.MaxWaitTime = 20 * time.Millisecond // closing waits for the fetch that is under way
	return config
}

// Lose deletes the topic and waits until the broker knows it no more, so that it takes no further record either.
func (e *Env) Lose(t testing.TB, topic string) {
	t.Helper()
	admin := e.Admin(t)
	if err := admin.DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
	Eventually(t, topic+" is gone", func() bool {
		topics, err := admin.DescribeTopics([]string{topic})
		return err == nil && len(topics) == 1 && topics[0].Err == sarama.ErrUnknownTopicOrPartition
	})
}

// Ensure creates the topics.
func (e *Env) Ensure(t testing.TB, topics []kafka.Topic, settings kafka.Settings) {
	t.Helper()
	provision := kafka.Provision{Cluster: e.Cluster, Topics: topics, Settings: settings}
	if err := provision.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (e *Env) deleteAll(t testing.TB) {
	admin, err := sarama.NewClusterAdmin(e.Cluster.Brokers, e.config())
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = admin.Close() }()
	topics, err := admin.ListTopics()
	if err != nil {
		t.Error(err)
	}
	for topic := range topics {
		if strings.HasPrefix(topic, e.Topics.Prefix) {
			if err := admin.DeleteTopic(topic); err != nil {
				t.Errorf("delete topic %s: %v", topic, err)
			}
		}
	}
	groups, err := admin.ListConsumerGroups()
	if err != nil {
		t.Error(err)
	}
	for group := range groups {
		if strings.HasPrefix(group, e.Topics.Prefix) {
			if err := admin.DeleteConsumerGroup(group); err != nil {
				t.Logf("consumer group %s is left behind: %v", group, err)
			}
		}
	}
}

// Eventually waits until the condition holds, and fails the test when it does not in time.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	ticker := time.NewTicker(Poll)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-ticker.C:
		case <-deadline.C:
			t.Fatalf("not within %s: %s", Patience, what)
		}
	}
}

// Main runs a package's tests and fails when goroutines are left behind.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m,
		// sarama's metrics share one ticker per process that is never stopped.
		goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}
