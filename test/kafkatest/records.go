package kafkatest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"
)

// Produce writes raw records and waits for the acks.
func (e *Env) Produce(t testing.TB, messages ...*sarama.ProducerMessage) {
	t.Helper()
	config := e.config()
	config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1 // a busy broker's late answer makes no record come twice, or later
	producer, err := sarama.NewSyncProducer(e.Cluster.Brokers, config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = producer.Close() }()
	if err := producer.SendMessages(messages); err != nil {
		t.Fatal(err)
	}
}

// ReadAll gives every record of the topic, each partition in its order.
func (e *Env) ReadAll(t testing.TB, topic string) []*sarama.ConsumerMessage {
	t.Helper()
	client, err := sarama.NewClient(e.Cluster.Brokers, e.config())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = consumer.Close() }()
	partitions, err := client.Partitions(topic)
	if err != nil {
		t.Fatal(err)
	}
	var records []*sarama.ConsumerMessage
	for _, partition := range partitions {
		records = append(records, readPartition(t, client, consumer, topic, partition)...)
	}
	return records
}

// offset asks again while the topic, just created, has no leader that answers.
func offset(t testing.TB, client sarama.Client, topic string, partition int32, at int64) (found int64) {
	t.Helper()
	Eventually(t, fmt.Sprintf("the leader of %s/%d answers", topic, partition), func() bool {
		var err error
		if found, err = client.GetOffset(topic, partition, at); err != nil {
			_ = client.RefreshMetadata(topic)
		}
		return err == nil
	})
	return found
}

func readPartition(t testing.TB, client sarama.Client, consumer sarama.Consumer, topic string, partition int32) []*sarama.ConsumerMessage {
	t.Helper()
	oldest := offset(t, client, topic, partition, sarama.OffsetOldest)
	newest := offset(t, client, topic, partition, sarama.OffsetNewest)
	if oldest == newest {
		return nil
	}
	claim, err := consumer.ConsumePartition(topic, partition, oldest)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = claim.Close() }()
	deadline := time.NewTimer(Patience)
	defer deadline.Stop()
	var records []*sarama.ConsumerMessage
	for {
		select {
		case message := <-claim.Messages():
			records = append(records, message)
			if message.Offset >= newest-1 {
				return records
			}
		case err := <-claim.Errors():
			t.Fatal(err)
		case <-deadline.C:
			t.Fatalf("%s/%d: read %d records of offsets %d..%d", topic, partition, len(records), oldest, newest)
		}
	}
}

// Committed gives the group's committed offset, -1 for none.
func (e *Env) Committed(t testing.TB, group, topic string, partition int32) int64 {
	t.Helper()
	admin, err := sarama.NewClusterAdmin(e.Cluster.Brokers, e.config())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	response, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {partition}})
	if errors.Is(err, sarama.ErrGroupIDNotFound) {
		return -1 // nobody has joined yet
	}
	if err != nil {
		t.Fatal(err)
	}
	block := response.GetBlock(topic, partition)
	if block == nil {
		return -1
	}
	return block.Offset
}
