package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

// partition names one.
type partition struct {
	topic  string
	number int32
}

// brokerLog is where the platform's topics begin and end.
type brokerLog struct {
	client     sarama.Client
	admin      sarama.ClusterAdmin
	topics     map[string][]partition
	start, end map[partition]int64
}

// lookAtLog asks for the offsets of every topic whose name starts with the prefix.
func lookAtLog(ctx context.Context, client sarama.Client, prefix string) (*brokerLog, error) {
	if err := client.RefreshMetadata(); err != nil {
		return nil, fmt.Errorf("read the topics: %w", err)
	}
	names, err := client.Topics()
	if err != nil {
		return nil, fmt.Errorf("read the topics: %w", err)
	}
	admin, err := sarama.NewClusterAdminFromClient(client) // is closed with the client
	if err != nil {
		return nil, fmt.Errorf("read the topics: %w", err)
	}
	log := &brokerLog{client: client, admin: admin, topics: map[string][]partition{}}
	for _, name := range names {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		numbers, err := client.Partitions(name)
		if err != nil {
			return nil, fmt.Errorf("read topic %s: %w", name, err)
		}
		for _, number := range numbers {
			log.topics[name] = append(log.topics[name], partition{name, number})
		}
	}
	if log.start, err = log.offsets(sarama.OffsetOldest); err != nil {
		return nil, err
	}
	if log.end, err = log.offsets(sarama.OffsetNewest); err != nil {
		return nil, err
	}
	return log, ctx.Err()
}

func (l *brokerLog) offsets(which int64) (map[partition]int64, error) {
	asked := map[string]map[int32]int64{}
	for topic, partitions := range l.topics {
		asked[topic] = map[int32]int64{}
		for _, at := range partitions {
			asked[topic][at.number] = which
		}
	}
	found := map[partition]int64{}
	if len(asked) == 0 {
		return found, nil
	}
	answered, err := l.admin.ListOffsets(asked, nil)
	if err != nil {
		return nil, fmt.Errorf("read the offsets: %w", err)
	}
	for topic, partitions := range answered {
		for number, result := range partitions {
			if result.Err != nil && !errors.Is(result.Err, sarama.ErrNoError) {
				return nil, fmt.Errorf("read the offsets of %s/%d: %w", topic, number, result.Err)
			}
			found[partition{topic, number}] = result.Offset
		}
	}
	return found, nil
}

func (l *brokerLog) has(topic string) bool { return len(l.topics[topic]) > 0 }

func (l *brokerLog) partitions(topic string) []partition { return l.topics[topic] }

// starting lists the topics whose names start like this, sorted.
func (l *brokerLog) starting(prefix string) []string {
	var found []string
	for topic := range l.topics {
		if strings.HasPrefix(topic, prefix) {
			found = append(found, topic)
		}
	}
	slices.Sort(found)
	return found
}

// committed gives the offsets that a group has committed. It has none where it never did.
func (l *brokerLog) committed(group string, topics []string) (map[partition]int64, error) {
	asked := map[string][]int32{}
	for _, topic := range topics {
		for _, at := range l.topics[topic] {
			asked[topic] = append(asked[topic], at.number)
		}
	}
	found := map[partition]int64{}
	if len(asked) == 0 {
		return found, nil
	}
	response, err := l.admin.ListConsumerGroupOffsets(group, asked)
	if errors.Is(err, sarama.ErrGroupIDNotFound) {
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the offsets of group %s: %w", group, err)
	}
	for topic, numbers := range asked {
		for _, number := range numbers {
			if block := response.GetBlock(topic, number); block != nil && block.Offset >= 0 {
				found[partition{topic, number}] = block.Offset
			}
		}
	}
	return found, nil
}

// open gives the offsets that are not done: from the committed one, or from the start where there is none
// or none that the topic still has, to the end.
func (l *brokerLog) open(at partition, committed map[partition]int64) (from, end int64) {
	start, end := l.start[at], l.end[at]
	from, done := committed[at]
	if !done || from < start || from > end {
		from = start
	}
	return from, end
}

// head is the first record of what is not done.
type head struct {
	from int64 // the offset that it was looked for from
	at   time.Time
	due  time.Time
	gone bool // compacted away, or markers only
}

const (
	headFetchVersion = 11
	headFetchWait    = 100 // milliseconds; there is a record, or it is not waited for
	headBatches      = 8   // that are skipped at most, because nothing is left in them
)

// head reads the first record from an offset on. It asks for one byte: the broker gives the first batch
// whole, however large it is.
func (l *brokerLog) head(at partition, from, end int64) (head, error) {
	next := from
	for range headBatches {
		if next >= end {
			break
		}
		leader, err := l.client.Leader(at.topic, at.number)
		if err != nil {
			return head{}, err
		}
		request := &sarama.FetchRequest{Version: headFetchVersion, MinBytes: 1, MaxBytes: 1, MaxWaitTime: headFetchWait, SessionEpoch: -1}
		request.AddBlock(at.topic, at.number, next, 1, -1)
		response, err := leader.Fetch(request)
		if err != nil {
			return head{}, err
		}
		block := response.GetBlock(at.topic, at.number)
		if block == nil {
			return head{}, sarama.ErrIncompleteResponse
		}
		if !errors.Is(block.Err, sarama.ErrNoError) {
			return head{}, block.Err
		}
		found, behind := firstRecord(block, next)
		if found != nil {
			return head{from: from, at: found.at, due: found.due}, nil
		}
		if behind <= next {
			break
		}
		next = behind
	}
	return head{from: from, gone: true}, nil
}

// firstRecord finds the first record from an offset on, or where the answer ends.
func firstRecord(block *sarama.FetchResponseBlock, from int64) (found *head, behind int64) {
	for _, set := range block.RecordsSet {
		batch := set.RecordBatch
		if batch == nil || batch.PartialTrailingRecord {
			continue
		}
		behind = batch.LastOffset() + 1
		if batch.Control {
			continue
		}
		for _, record := range batch.Records {
			if batch.FirstOffset+record.OffsetDelta < from {
				continue
			}
			at := batch.FirstTimestamp.Add(record.TimestampDelta)
			if batch.LogAppendTime {
				at = batch.MaxTimestamp
			}
			return &head{at: at, due: dueTime(record, at)}, behind
		}
	}
	return nil, behind
}

// dueTime is when a record is to be worked on: at once, if it does not say.
func dueTime(record *sarama.Record, at time.Time) time.Time {
	for _, header := range record.Headers {
		if string(header.Key) == headerDue {
			if due, err := time.Parse(time.RFC3339Nano, string(header.Value)); err == nil {
				return due
			}
		}
	}
	return at
}
