package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"andes/deadletters"
)

// movedCodes are answers of a broker that does not coordinate the group, or not yet: it has just started, or
// another has.
var movedCodes = []sarama.KError{sarama.ErrNotCoordinatorForConsumer, sarama.ErrConsumerCoordinatorNotAvailable, sarama.ErrOffsetsLoadInProgress}

// coordinated asks about a group, and again while its coordinator is being found. A group that has never run
// is not an error.
func coordinated[T any](ctx context.Context, l *DeadLetterLog, group string, ask func() (T, error)) (T, error) {
	wait := backoff{least: readBackoffMin, most: readBackoffMax}
	for began := time.Now(); ; {
		answer, err := bounded(ctx, ask)
		if errors.Is(err, sarama.ErrGroupIDNotFound) {
			return answer, nil
		}
		moved := false
		for _, code := range movedCodes {
			moved = moved || errors.Is(err, code)
		}
		if !moved || time.Since(began) > l.config.Patience {
			return answer, err
		}
		if !wait.pause(ctx) {
			return answer, ctx.Err()
		}
		_, _ = bounded(ctx, func() (any, error) { return nil, l.reader.client.RefreshCoordinator(group) }) // the next attempt finds out
	}
}

// Members implements deadletters.Log.
func (l *DeadLetterLog) Members(ctx context.Context, consumer string) (members int, replay bool, err error) {
	partitions, err := l.partitions(l.config.Names.Replay(consumer))
	if err != nil {
		return 0, false, err
	}
	group := l.config.Names.Group(consumer)
	found, err := coordinated(ctx, l, group, func() ([]*sarama.GroupDescription, error) {
		found, err := l.admin.DescribeConsumerGroups([]string{group})
		if err != nil {
			return nil, err
		}
		for _, described := range found {
			if err := fault(described.Err); err != nil {
				return nil, err
			}
		}
		return found, nil
	})
	if err != nil {
		return 0, false, fmt.Errorf("%w: consumer group %s: %w", deadletters.ErrLogUnavailable, group, err)
	}
	for _, described := range found {
		members += len(described.Members)
	}
	return members, len(partitions) > 0, nil
}

// Backlog implements deadletters.Log.
func (l *DeadLetterLog) Backlog(ctx context.Context, consumer string) (int64, error) {
	topic, group := l.config.Names.Replay(consumer), l.config.Names.Group(consumer)
	partitions, err := l.partitions(topic)
	if err != nil || len(partitions) == 0 {
		return 0, err
	}
	committed, err := coordinated(ctx, l, group, func() (*sarama.OffsetFetchResponse, error) {
		committed, err := l.admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: partitions})
		if err != nil {
			return nil, err
		}
		return committed, fault(committed.Err)
	})
	if err != nil {
		return 0, fmt.Errorf("%w: offsets of group %s: %w", deadletters.ErrLogUnavailable, group, err)
	}
	open := int64(0)
	for _, partition := range partitions {
		first, err := l.offset(ctx, topic, partition, sarama.OffsetOldest)
		if err != nil {
			return 0, err
		}
		end, err := l.offset(ctx, topic, partition, sarama.OffsetNewest)
		if err != nil {
			return 0, err
		}
		if committed != nil {
			if block := committed.GetBlock(topic, partition); block != nil {
				first = max(first, block.Offset)
			}
		}
		open += max(0, end-first)
	}
	return open, nil
}
