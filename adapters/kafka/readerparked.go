package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/IBM/sarama"
)

// maxParkedKnown bounds of how many letters the origins are known. What is behind them may be parked twice.
const maxParkedKnown = 1_000_000

// parkedOrigins tell what is in a DLQ already: every reader of a topic meets the same broken records again, and what was
// parked once, by the projector or by a run before, is not parked again. The DLQ itself is asked, and so a run that
// was killed is known too.
type parkedOrigins struct {
	mu      sync.Mutex
	known   map[parkedRecord]struct{}
	scanned map[int32]int64 // up to which offset the DLQ's partitions were read
}

// parkedBefore tells whether a record is in the DLQ. Letters go to the partition that the record was in.
func (r *StateReader) parkedBefore(ctx context.Context, message *sarama.ConsumerMessage) (bool, error) {
	r.parked.mu.Lock()
	defer r.parked.mu.Unlock()
	topic := r.config.Names.DLQ(r.config.Group)
	partitions, err := patiently(ctx, r, func() ([]int32, error) { return r.client.Partitions(topic) })
	if err != nil || len(partitions) == 0 {
		return false, fmt.Errorf("read topic %s: %w", topic, err)
	}
	if err := r.scanParked(ctx, topic, message.Partition%int32(len(partitions))); err != nil {
		return false, fmt.Errorf("read topic %s: %w", topic, err)
	}
	_, known := r.parked.known[parkedAs(originOf(message))]
	return known, nil
}

// scanParked reads what has come into a partition of the DLQ since the last look.
func (r *StateReader) scanParked(ctx context.Context, topic string, partition int32) error {
	oldest, err := r.offset(ctx, topic, partition, sarama.OffsetOldest)
	if err != nil {
		return err
	}
	end, err := r.offset(ctx, topic, partition, sarama.OffsetNewest)
	if err != nil {
		return err
	}
	next, size := max(oldest, r.parked.scanned[partition]), r.config.FetchBytes
	for next < end && len(r.parked.known) < maxParkedKnown {
		block, err := r.fetch(ctx, topic, partition, next, size)
		if errors.Is(err, sarama.ErrOffsetOutOfRange) {
			return nil // deleted meanwhile; the next look begins at what is left
		}
		if err != nil {
			return err
		}
		taken := unpack(block, topic, partition, next)
		if taken.cut && size < maxReadBytes {
			size *= 2
			continue
		}
		for i := range taken.messages {
			if j, ours := readJourney(&taken.messages[i]); ours {
				r.parked.known[parkedAs(j.origin)] = struct{}{}
			}
		}
		next = taken.next
		r.parked.scanned[partition] = next
	}
	return nil
}

// parkedRecord names a record as the headers of its letter do.
type parkedRecord struct {
	topic     string
	partition int32
	offset    int64
	at        int64 // milliseconds
}

func parkedAs(o origin) parkedRecord {
	return parkedRecord{o.topic, o.partition, o.offset, o.at.UnixMilli()}
}
