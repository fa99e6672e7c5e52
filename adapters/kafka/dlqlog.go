package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"andes/deadletters"
)

// DeadLetterLogConfig says where the DLQs are.
type DeadLetterLogConfig struct {
	Cluster        Cluster
	Names          Topics
	MaxRecordBytes int           // of the topics' settings; 0: DefaultMaxRecordBytes
	Patience       time.Duration // without an answer of Kafka for so long an operation fails; 0: 10 s
	Logger         *slog.Logger
}

// DeadLetterLog reads DLQs and sends letters back. It is safe for concurrent use.
type DeadLetterLog struct {
	config DeadLetterLogConfig
	reader *StateReader // for its requests, which tell the position behind what they read
	admin  sarama.ClusterAdmin

	connecting sync.Mutex
	out        sarama.SyncProducer
}

// Bounds of reading a DLQ.
const (
	letterFetchBytes  = 1 << 20 // of one answer; a larger record comes alone
	letterPatience    = 10 * time.Second
	letterEmptyAnswer = 50 // answers without anything before a partition's end
)

// NewDeadLetterLog connects to the brokers.
func NewDeadLetterLog(ctx context.Context, config DeadLetterLogConfig) (*DeadLetterLog, error) {
	setDefault(&config.MaxRecordBytes, DefaultMaxRecordBytes)
	setDefault(&config.Patience, letterPatience)
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if err := errors.Join(config.Cluster.validate(), ctx.Err()); err != nil {
		return nil, err
	}
	settings := config.Cluster.readerConfig()
	settings.Metadata.Full = true // administration needs to know the brokers before it asks for a topic
	client, err := sarama.NewClient(config.Cluster.Brokers, settings)
	if err != nil {
		return nil, fmt.Errorf("connect to Kafka: %w", err)
	}
	admin, err := sarama.NewClusterAdminFromClient(client)
	if err != nil {
		_ = client.Close()
		return nil, fmt.Errorf("connect to Kafka: %w", err)
	}
	reader := &StateReader{
		config: StateReaderConfig{Cluster: config.Cluster, Names: config.Names, FetchBytes: letterFetchBytes, Patience: config.Patience},
		client: client, dead: &parker{},
	}
	return &DeadLetterLog{config: config, reader: reader, admin: admin}, nil
}

// Close ends the connections.
func (l *DeadLetterLog) Close() {
	l.connecting.Lock()
	defer l.connecting.Unlock()
	if l.out != nil {
		_ = l.out.Close() // every message was waited for
		l.out = nil
	}
	l.reader.Close() // the administration's connections are the same
}

// partitions lists a topic's partitions; none: there is no such topic.
func (l *DeadLetterLog) partitions(topic string) ([]int32, error) {
	partitions, err := l.reader.client.Partitions(topic)
	if errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: topic %s: %w", deadletters.ErrLogUnavailable, topic, err)
	}
	return slices.Sorted(slices.Values(partitions)), nil
}

// offset asks for the log's beginning or end, or for the first record of a time; -1: none is as new as that.
func (l *DeadLetterLog) offset(ctx context.Context, topic string, partition int32, which int64) (int64, error) {
	found, err := l.reader.offset(ctx, topic, partition, which)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", deadletters.ErrLogUnavailable, err)
	}
	return found, nil
}

// Bounds implements deadletters.Log.
func (l *DeadLetterLog) Bounds(ctx context.Context, consumer string) ([]deadletters.Bounds, error) {
	topic := l.config.Names.DLQ(consumer)
	partitions, err := l.partitions(topic)
	if err != nil {
		return nil, err
	}
	bounds := make([]deadletters.Bounds, len(partitions))
	for i, partition := range partitions {
		b := deadletters.Bounds{Partition: partition}
		if b.First, err = l.offset(ctx, topic, partition, sarama.OffsetOldest); err != nil {
			return nil, err
		}
		if b.End, err = l.offset(ctx, topic, partition, sarama.OffsetNewest); err != nil {
			return nil, err
		}
		bounds[i] = b
	}
	return bounds, nil
}

// ParkedSince implements deadletters.Log.
func (l *DeadLetterLog) ParkedSince(ctx context.Context, consumer string, moment time.Time) (int64, error) {
	bounds, err := l.Bounds(ctx, consumer)
	if err != nil {
		return 0, err
	}
	count := int64(0)
	for _, b := range bounds {
		first, err := l.offset(ctx, l.config.Names.DLQ(consumer), b.Partition, moment.UnixMilli())
		if err != nil {
			return 0, err
		}
		if first >= 0 { // else none is as new as that
			count += max(0, b.End-first)
		}
	}
	return count, nil
}

// Scan implements deadletters.Log.
func (l *DeadLetterLog) Scan(ctx context.Context, consumer string, partition int32, from, until int64, each func(*deadletters.Letter) bool) error {
	return l.read(ctx, l.config.Names.DLQ(consumer), partition, from, until, func(message *sarama.ConsumerMessage) (next int64, goOn bool) {
		return message.Offset + 1, each(letterOf(consumer, message))
	})
}

// Fetch implements deadletters.Log.
func (l *DeadLetterLog) Fetch(ctx context.Context, consumer string, partition int32, offsets []int64) ([]*deadletters.Letter, error) {
	if len(offsets) == 0 {
		return nil, nil
	}
	topic := l.config.Names.DLQ(consumer)
	partitions, err := l.partitions(topic)
	if err != nil || !slices.Contains(partitions, partition) {
		return nil, err
	}
	wanted := slices.Sorted(slices.Values(offsets))
	found := make(map[int64]*deadletters.Letter, len(wanted))
	last := wanted[len(wanted)-1]
	end, err := l.offset(ctx, topic, partition, sarama.OffsetNewest)
	if err != nil {
		return nil, err
	}
	err = l.read(ctx, topic, partition, wanted[0], min(last+1, end), func(message *sarama.ConsumerMessage) (int64, bool) {
		at, is := slices.BinarySearch(wanted, message.Offset)
		if is {
			found[message.Offset] = letterOf(consumer, message)
			at++
		}
		if at >= len(wanted) {
			return message.Offset + 1, false
		}
		return wanted[at], true
	})
	letters := make([]*deadletters.Letter, 0, len(found))
	for _, offset := range offsets {
		if letter, there := found[offset]; there {
			letters = append(letters, letter)
		}
	}
	return letters, err
}

// read hands over the records of a partition with from <= offset < until. take says which offset it wants
// next, so that what lies between need not be read, and whether it wants more.
func (l *DeadLetterLog) read(ctx context.Context, topic string, partition int32, from, until int64, take func(*sarama.ConsumerMessage) (next int64, goOn bool)) error {
	size, empty := int32(letterFetchBytes), 0
	for from < until {
		block, err := l.reader.fetch(ctx, topic, partition, from, size)
		if errors.Is(err, sarama.ErrOffsetOutOfRange) {
			oldest, err := l.offset(ctx, topic, partition, sarama.OffsetOldest)
			if err != nil || oldest <= from {
				return err // made anew, and shorter: there is nothing to read
			}
			from = oldest // retention has been there
			continue
		}
		if err != nil {
			return fmt.Errorf("%w: read %s: %w", deadletters.ErrLogUnavailable, partName(topic, partition), err)
		}
		taken := unpack(block, topic, partition, from)
		switch {
		case taken.cut && size >= maxReadBytes:
			return fmt.Errorf("read %s: a batch at offset %d is larger than %d bytes", partName(topic, partition), from, maxReadBytes)
		case taken.cut:
			size *= 2
			continue
		case taken.next == from:
			if empty++; empty > letterEmptyAnswer {
				return fmt.Errorf("%w: %s gives nothing at offset %d, though it ended at %d", deadletters.ErrLogUnavailable, partName(topic, partition), from, until)
			}
			continue
		}
		size, empty = letterFetchBytes, 0
		next := taken.next
		for i := range taken.messages {
			message := &taken.messages[i]
			if message.Offset >= until {
				return nil
			}
			if message.Offset < from {
				continue
			}
			wanted, goOn := take(message)
			if !goOn {
				return nil
			}
			from = wanted
		}
		from = max(from, next)
	}
	return nil
}
