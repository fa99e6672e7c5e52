package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"andes/eventstore"
	"andes/rebuild"
)

func partName(topic string, partition int32) string {
	return topic + "/" + strconv.FormatInt(int64(partition), 10)
}

func parsePart(name string) (topic string, partition int32, err error) {
	topic, number, _ := strings.Cut(name, "/")
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return "", 0, fmt.Errorf("%q is no partition of a topic", name)
	}
	return topic, int32(n), nil
}

// Read implements rebuild.Source.
func (r *StateReader) Read(ctx context.Context, part rebuild.Part, take func(ctx context.Context, batch rebuild.Batch) error) error {
	topic, partition, err := parsePart(part.Name)
	if err != nil {
		return err
	}
	size := r.config.FetchBytes
	moved := time.Now()
	for part.Next < part.End {
		block, err := r.fetch(ctx, topic, partition, part.Next, size)
		if errors.Is(err, sarama.ErrOffsetOutOfRange) {
			if part, err = r.skipToOldest(ctx, part, topic, partition); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", part.Name, err)
		}
		taken := unpack(block, topic, partition, part.Next)
		if taken.cut {
			if size >= maxReadBytes {
				return fmt.Errorf("read %s: a batch at offset %d is larger than %d bytes", part.Name, part.Next, maxReadBytes)
			}
			size *= 2
			continue
		}
		if taken.next == part.Next && time.Since(moved) > r.config.Patience {
			return fmt.Errorf("%w: %s gives nothing at offset %d, though it ended at %d: it was emptied or made anew", rebuild.ErrSourceLost, part.Name, part.Next, part.End)
		}
		if taken.next == part.Next {
			continue // the broker waited for more
		}
		moved = time.Now()
		size = r.config.FetchBytes
		part.Next = taken.next
		part.Complete = part.Next >= part.End
		batch, err := r.decode(ctx, part, taken.messages)
		if err != nil {
			return err
		}
		if err := take(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// skipToOldest goes on where the log begins now. What was before it has been deleted.
func (r *StateReader) skipToOldest(ctx context.Context, part rebuild.Part, topic string, partition int32) (rebuild.Part, error) {
	oldest, err := r.offset(ctx, topic, partition, sarama.OffsetOldest)
	if err != nil {
		return part, err
	}
	if oldest <= part.Next {
		return part, fmt.Errorf("%w: %s has no offset %d any more: it was emptied or made anew", rebuild.ErrSourceLost, part.Name, part.Next)
	}
	part.Next = oldest
	return part, nil
}

// decode makes a batch. What is no state goes to the DLQ at once.
func (r *StateReader) decode(ctx context.Context, part rebuild.Part, messages []sarama.ConsumerMessage) (rebuild.Batch, error) {
	batch := rebuild.Batch{Part: part, Records: make([]eventstore.StateRecord, 0, len(messages))}
	kept := make([]*sarama.ConsumerMessage, 0, len(messages))
	for i := range messages {
		message := &messages[i]
		state, err := DecodeState(message)
		if err != nil {
			broken, err := r.park(ctx, message, classUndecodable, err)
			if err != nil {
				return batch, err
			}
			batch.Broken = append(batch.Broken, broken)
			continue
		}
		batch.Records = append(batch.Records, state)
		kept = append(kept, message)
	}
	batch.Reject = func(ctx context.Context, record int, why error) (rebuild.Broken, error) {
		return r.park(ctx, kept[record], classPermanent, why)
	}
	return batch, nil
}

// park puts a record into the DLQ unless it is there, and fails when that does not work for long.
func (r *StateReader) park(ctx context.Context, message *sarama.ConsumerMessage, class string, why error) (rebuild.Broken, error) {
	broken := rebuild.Broken{Where: partName(message.Topic, message.Partition) + "@" + strconv.FormatInt(message.Offset, 10), Why: why.Error()}
	if before, err := r.parkedBefore(ctx, message); before || err != nil {
		return broken, err
	}
	began := time.Now()
	wait := backoff{least: readBackoffMin, most: readBackoffMax}
	for attempt := 1; ; attempt++ {
		cause := cause{consumer: r.config.Group, class: class, err: why, attempt: attempt, firstFailure: began, due: began}
		err := r.dead.park(ctx, message, cause)
		if err == nil {
			return broken, nil
		}
		if time.Since(began) > r.config.Patience {
			return broken, fmt.Errorf("%w: the broken record %s can't be parked: %w", rebuild.ErrSourceLost, broken.Where, err)
		}
		if !wait.pause(ctx) {
			return broken, ctx.Err()
		}
	}
}

// unpacked is what an answer of the broker holds.
type unpacked struct {
	messages []sarama.ConsumerMessage
	next     int64 // the offset behind it
	cut      bool  // not even one batch is whole
}

// unpack takes the records from the offset on out of a block: neither control records nor those of
// aborted transactions.
func unpack(block *sarama.FetchResponseBlock, topic string, partition int32, offset int64) unpacked {
	whole := unpacked{next: offset}
	aborted := map[int64]bool{} // producers
	transactions := slices.SortedFunc(slices.Values(block.AbortedTransactions), func(a, b *sarama.AbortedTransaction) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
	for _, set := range block.RecordsSet {
		batch := set.RecordBatch
		if batch == nil || batch.PartialTrailingRecord {
			break
		}
		for len(transactions) > 0 && transactions[0].FirstOffset <= batch.LastOffset() {
			aborted[transactions[0].ProducerID] = true
			transactions = transactions[1:]
		}
		whole.next = max(whole.next, batch.LastOffset()+1)
		switch {
		case batch.Control:
			delete(aborted, batch.ProducerID) // the end of its transaction, whichever way
		case batch.IsTransactional && aborted[batch.ProducerID]:
		default:
			whole.take(batch, topic, partition, offset)
		}
	}
	if whole.next == offset {
		whole.next, whole.cut = behindEmpty(block, offset)
	}
	return whole
}

func (u *unpacked) take(batch *sarama.RecordBatch, topic string, partition int32, from int64) {
	for _, record := range batch.Records {
		offset := batch.FirstOffset + record.OffsetDelta
		if offset < from {
			continue
		}
		at := batch.FirstTimestamp.Add(record.TimestampDelta)
		if batch.LogAppendTime {
			at = batch.MaxTimestamp
		}
		u.messages = append(u.messages, sarama.ConsumerMessage{
			Topic: topic, Partition: partition, Offset: offset, Timestamp: at,
			Key: record.Key, Value: record.Value, Headers: record.Headers,
		})
	}
}

// behindEmpty gives the offset behind batches that compaction has emptied. sarama leaves them out of the
// block and keeps their end to itself, in fields that can be read but not named; should they go, the next
// offset is as right, and slower.
func behindEmpty(block *sarama.FetchResponseBlock, offset int64) (next int64, cut bool) {
	fields := reflect.ValueOf(block).Elem()
	partial := fields.FieldByName("partialBatchSize")
	if block.Partial || len(block.RecordsSet) > 0 || partial.IsValid() && partial.Int() > 0 {
		return offset, true
	}
	if end := fields.FieldByName("recordsNextOffset"); end.IsValid() && !end.IsNil() {
		return max(end.Elem().Int(), offset+1), false
	}
	if offset < block.LastStableOffset {
		return offset + 1, false
	}
	return offset, false
}
