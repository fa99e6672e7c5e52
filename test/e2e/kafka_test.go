package e2e

import (
	"os"
	"strings"

	"github.com/IBM/sarama"
)

// broker is a client of the real broker, to look at what was published.
func (s *scene) broker() sarama.Client {
	s.t.Helper()
	config := sarama.NewConfig()
	config.Version = sarama.V4_0_0_0
	config.Producer.Return.Successes = true
	client, err := sarama.NewClient(strings.Split(os.Getenv("ANDES_KAFKA_BROKERS"), ","), config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

// published reads a topic from its beginning to the end that it has now.
func (s *scene) published(client sarama.Client, topic string) []*sarama.ConsumerMessage {
	s.t.Helper()
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = consumer.Close() }()
	partitions, err := client.Partitions(topic)
	if err != nil {
		s.t.Fatalf("%s: %v", topic, err)
	}
	var all []*sarama.ConsumerMessage
	for _, partition := range partitions {
		end, err := client.GetOffset(topic, partition, sarama.OffsetNewest)
		if err != nil {
			s.t.Fatal(err)
		}
		if end == 0 {
			continue
		}
		reading, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
		if err != nil {
			s.t.Fatal(err)
		}
		for message := range reading.Messages() {
			all = append(all, message)
			if message.Offset == end-1 {
				break
			}
		}
		_ = reading.Close()
	}
	return all
}

// deadLetters counts the records of every DLQ.
func (s *scene) deadLetters(client sarama.Client) int {
	s.t.Helper()
	topics, err := client.Topics()
	if err != nil {
		s.t.Fatal(err)
	}
	count := 0
	for _, topic := range topics {
		if strings.HasPrefix(topic, s.schema+".") && strings.HasSuffix(topic, ".dlq") {
			count += len(s.published(client, topic))
		}
	}
	return count
}

func header(message *sarama.ConsumerMessage, name string) string {
	for _, h := range message.Headers {
		if string(h.Key) == name {
			return string(h.Value)
		}
	}
	return ""
}
