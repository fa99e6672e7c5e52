package kafka

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/IBM/sarama"

	"andes/projections"
)

// FeedProgress tells how far the members of a StateFeed's group have come, all of them together: what was
// handled is committed.
type FeedProgress struct {
	Cluster Cluster
	Names   Topics
	Group   string // the projector's name

	mu     sync.Mutex
	client sarama.Client // nil: not connected
}

// Parts tells of each partition of the category's state topic where it ends and up to where it was handled.
func (p *FeedProgress) Parts(ctx context.Context, category string) (map[string]projections.Reached, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reached, err := p.parts(p.Names.State(category))
	if err != nil {
		p.disconnect()
		return nil, fmt.Errorf("progress of group %s: %w", p.Names.Group(p.Group), err)
	}
	return reached, ctx.Err()
}

func (p *FeedProgress) parts(topic string) (map[string]projections.Reached, error) {
	if p.client == nil {
		client, err := sarama.NewClient(p.Cluster.Brokers, p.Cluster.lagConfig())
		if err != nil {
			return nil, fmt.Errorf("connect to Kafka: %w", err)
		}
		p.client = client
	}
	admin, err := sarama.NewClusterAdminFromClient(p.client) // is closed with the client
	if err != nil {
		return nil, err
	}
	numbers, err := p.client.Partitions(topic)
	if err != nil {
		return nil, err
	}
	log := &brokerLog{client: p.client, admin: admin, topics: map[string][]partition{}}
	for _, number := range numbers {
		log.topics[topic] = append(log.topics[topic], partition{topic, number})
	}
	if log.start, err = log.offsets(sarama.OffsetOldest); err != nil {
		return nil, err
	}
	if log.end, err = log.offsets(sarama.OffsetNewest); err != nil {
		return nil, err
	}
	committed, err := log.committed(p.Names.Group(p.Group), []string{topic})
	if err != nil {
		return nil, err
	}
	reached := make(map[string]projections.Reached, len(numbers))
	for _, at := range log.topics[topic] {
		if _, known := log.end[at]; !known {
			return nil, errors.New("a partition did not tell where it ends")
		}
		from, end := log.open(at, committed)
		reached[strconv.Itoa(int(at.number))] = projections.Reached{Applied: from, End: end}
	}
	return reached, nil
}

// Close ends the connection.
func (p *FeedProgress) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disconnect()
}

func (p *FeedProgress) disconnect() {
	if p.client != nil {
		_ = p.client.Close()
		p.client = nil
	}
}
