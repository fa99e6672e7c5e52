package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/IBM/sarama"
)

// PartitionLag is how far a consumer group is behind a partition's end.
type PartitionLag struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"` // -1: nothing yet
	End       int64  `json:"end"`
	Lag       int64  `json:"lag"` // in offsets; compaction may have left fewer records
}

// Lag tells how far the group of a consumer is behind each partition of the topics.
func (r *StateReader) Lag(ctx context.Context, consumer string, categories []string) ([]PartitionLag, error) {
	parts, err := r.Parts(ctx, categories)
	if err != nil {
		return nil, err
	}
	lags := make([]PartitionLag, len(parts))
	asked := map[string][]int32{}
	for i, part := range parts {
		topic, partition, err := parsePart(part.Name)
		if err != nil {
			return nil, err
		}
		lags[i] = PartitionLag{Topic: topic, Partition: partition, Committed: -1, End: part.End, Lag: part.End - part.From}
		asked[topic] = append(asked[topic], partition)
	}
	committed, err := r.committed(ctx, r.config.Names.Group(consumer), asked)
	if err != nil || committed == nil {
		return lags, err
	}
	for i := range lags {
		block := committed.GetBlock(lags[i].Topic, lags[i].Partition)
		if block == nil || block.Offset < 0 {
			continue
		}
		lags[i].Committed = block.Offset
		lags[i].Lag = max(0, lags[i].End-max(block.Offset, parts[i].From))
	}
	return lags, nil
}

// committed asks for a group's offsets; nil where nobody has joined it yet.
func (r *StateReader) committed(ctx context.Context, group string, asked map[string][]int32) (*sarama.OffsetFetchResponse, error) {
	response, err := patiently(ctx, r, func() (*sarama.OffsetFetchResponse, error) {
		admin, err := sarama.NewClusterAdminFromClient(r.client)
		if err != nil {
			return nil, err
		}
		response, err := admin.ListConsumerGroupOffsets(group, asked) // the admin is the client's: it is closed with it
		if errors.Is(err, sarama.ErrGroupIDNotFound) {
			return nil, nil
		}
		return response, err
	})
	if err != nil {
		return nil, fmt.Errorf("offsets of group %s: %w", group, err)
	}
	return response, nil
}
