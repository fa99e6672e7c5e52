package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/IBM/sarama"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// Settled tells which dead letters operators are done with.
type Settled interface {
	// Settled gives the offsets of the consumer's dead letters, by partition of its DLQ, that are no longer
	// outstanding for certain: a record that was sent back is in the replay topic by then.
	Settled(ctx context.Context, consumer string) (map[int32][]int64, error)
}

// Settlements is where it is noted which dead letters operators are done with.
type Settlements interface {
	Settled
	// ForgetSettled drops what was noted of dead letters from an offset on before that one was written: they
	// were those of a topic that was deleted and made anew.
	ForgetSettled(ctx context.Context, consumer string, partition int32, from int64) error
}

// sequencing finds out what is outstanding when partitions are assigned.
type sequencing struct {
	cluster  Cluster
	consumer string
	group    string
	origins  []string
	ladder   ladder
	settled  Settled // nil: nothing is settled
	keys     prometheus.Gauge
	logger   *slog.Logger
}

const (
	// findOutIdle is how long the reading may come to nothing before it is given up and begun again.
	findOutIdle = 30 * time.Second
	// findOutTries is how often it is tried in one session.
	findOutTries = 8
	// findOutWait is short: whoever stops reading waits for the fetch that is under way.
	findOutWait = 20 * time.Millisecond
)

// topics are all that the consumer reads.
func (q *sequencing) topics() []string { return append(slices.Clone(q.origins), q.parkedTopics()...) }

// parkedTopics are read from the committed offset on.
func (q *sequencing) parkedTopics() []string {
	return append(slices.Clone(q.ladder.tiers), q.ladder.replay)
}

// begin gives the sequences of a session, by partition. Nobody else writes for these partitions any more, except a
// member that was cut off and does not know it yet.
func (q *sequencing) begin(ctx context.Context, claims map[string][]int32) (map[int32]*sequence, error) {
	sequences := map[int32]*sequence{}
	began := time.Now()
	found, err := q.findOutPatiently(ctx, claims)
	if err != nil {
		return nil, fmt.Errorf("find out what is outstanding: %w", err)
	}
	if len(found.broken) > 0 {
		q.logger.ErrorContext(ctx, "order per key is not kept over retries: the topics of a partition are not all assigned to one member",
			"consumer", q.consumer, "partitions", found.broken)
	}
	total := 0
	for _, part := range found.whole {
		s := newSequence(part, found.parts, q.ladder.replay, q.ladder.dlq, q.keys)
		for _, c := range found.copies[part] {
			s.add(c.keyed, c.outstanding)
		}
		total += len(s.lines)
		for _, partition := range found.of(part, found.most()) {
			sequences[partition] = s
		}
	}
	q.logger.InfoContext(ctx, "partitions assigned", "consumer", q.consumer, "partitions", found.whole, "of", found.parts,
		"outstandingKeys", total, "took", time.Since(began))
	return sequences, nil
}

// foundOut is what was found out about a session's partitions.
type foundOut struct {
	shares
	whole, broken []int32                // parts
	copies        map[int32][]parkedCopy // that are outstanding, by part
}

// findOutPatiently tries again while the broker has no clear answer, as about a topic that was just created:
// beginning a session anew would take longer.
func (q *sequencing) findOutPatiently(ctx context.Context, claims map[string][]int32) (foundOut, error) {
	config := q.cluster.config()
	config.Consumer.Return.Errors = true
	config.Consumer.MaxWaitTime = findOutWait
	client, err := sarama.NewClient(q.cluster.Brokers, config)
	if err != nil {
		return foundOut{}, err
	}
	defer func() { _ = client.Close() }()
	wait := backoff{least: 20 * time.Millisecond, most: time.Second}
	for try := 1; ; try++ {
		found, err := q.look(ctx, client, claims)
		if err == nil || try == findOutTries || !wait.pause(ctx) {
			return found, err
		}
		q.logger.InfoContext(ctx, "what is outstanding can't be told yet", "consumer", q.consumer, "error", err)
	}
}

// look finds out which parts are this member's and what is outstanding in them.
func (q *sequencing) look(ctx context.Context, client sarama.Client, claims map[string][]int32) (found foundOut, err error) {
	counts := map[string]int32{}
	for _, topic := range q.topics() {
		partitions, err := client.Partitions(topic)
		if err != nil {
			return found, fmt.Errorf("%s: %w", topic, err)
		}
		counts[topic] = int32(len(partitions))
	}
	if found.shares, err = sharesOf(counts, q.parkedTopics()); err != nil {
		return found, err
	}
	if found.whole, found.broken = found.owned(claims); len(found.whole) > 0 {
		found.copies, err = q.findOut(ctx, client, found.shares, found.whole)
	}
	return found, err
}

// letter names a dead letter.
type letter struct {
	partition int32
	offset    int64
}

func (q *sequencing) settledLetters(ctx context.Context) (map[letter]bool, error) {
	settled := map[letter]bool{}
	if q.settled == nil {
		return settled, nil
	}
	told, err := q.settled.Settled(ctx, q.consumer)
	for partition, offsets := range told {
		for _, offset := range offsets {
			settled[letter{partition, offset}] = true
		}
	}
	return settled, err
}

// parkedCopy is a parked record as it was found.
type parkedCopy struct {
	keyed
	outstanding
	written time.Time
}

// findOut reads, for each part, the copies that are outstanding, the newest of a record last. The order
// of its looks makes sure that a record on its way is seen at one place at least: it is written to the next
// one before its offset is committed, and to replay before it is settled.
func (q *sequencing) findOut(ctx context.Context, client sarama.Client, of shares, parts []int32) (map[int32][]parkedCopy, error) {
	settled, err := q.settledLetters(ctx)
	if err != nil {
		return nil, fmt.Errorf("settled dead letters: %w", err)
	}
	letters, err := client.Partitions(q.ladder.dlq)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", q.ladder.dlq, err)
	}
	ranges, err := q.ranges(client, of, parts, int32(len(letters)))
	if err != nil {
		return nil, err
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return nil, err
	}
	defer func() { _ = consumer.Close() }()
	copies := make([][]parkedCopy, len(ranges))
	reading, ctx := errgroup.WithContext(ctx)
	reading.SetLimit(maxParallelReads)
	for i, r := range ranges {
		reading.Go(func() error {
			return r.read(ctx, consumer, func(message *sarama.ConsumerMessage) {
				if c, outstanding := q.copyOf(message, of, settled); outstanding {
					copies[i] = append(copies[i], c)
				}
			})
		})
	}
	if err := reading.Wait(); err != nil {
		return nil, err
	}
	found := map[int32][]parkedCopy{}
	for _, c := range slices.Concat(copies...) {
		part := c.partition % of.parts
		found[part] = append(found[part], c)
	}
	for _, list := range found {
		slices.SortStableFunc(list, func(a, b parkedCopy) int { return a.written.Compare(b.written) })
	}
	return found, nil
}

// maxParallelReads bounds the partitions that are read at once.
const maxParallelReads = 16

// copyOf makes a copy of what was read, unless it is settled. A retry topic's record of another part has no order that
// could be kept where it is read.
func (q *sequencing) copyOf(message *sarama.ConsumerMessage, of shares, settled map[letter]bool) (parkedCopy, bool) {
	j, ours := readJourney(message)
	dead := message.Topic == q.ladder.dlq
	if !ours || j.discard || message.Key == nil || dead && settled[letter{message.Partition, message.Offset}] || !dead && j.partition%of.parts != message.Partition%of.parts {
		return parkedCopy{}, false
	}
	return parkedCopy{
		keyed:       j.keyOf(message.Key),
		outstanding: outstanding{offset: j.offset, at: j.at.UnixMilli(), topic: message.Topic, position: message.Offset},
		written:     message.Timestamp,
	}, true
}

// span is what has to be read of a topic's partition.
type span struct {
	topic     string
	partition int32
	from, to  int64 // to is the end that was seen
}

// ranges asks for the committed offsets first and for the ends afterwards.
func (q *sequencing) ranges(client sarama.Client, of shares, parts []int32, letters int32) ([]span, error) {
	parked := map[string][]int32{}
	for _, topic := range q.parkedTopics() {
		for _, part := range parts {
			parked[topic] = append(parked[topic], of.of(part, of.counts[topic])...)
		}
	}
	committed, err := committedOffsets(client, q.group, parked)
	if err != nil {
		return nil, fmt.Errorf("committed offsets: %w", err)
	}
	var spans []span
	for topic, partitions := range parked {
		for _, partition := range partitions {
			spans = append(spans, span{topic: topic, partition: partition, from: committed(topic, partition)})
		}
	}
	for _, part := range parts {
		for _, partition := range of.letters(part, letters) {
			if dead := (span{topic: q.ladder.dlq, partition: partition, from: -1}); !slices.Contains(spans, dead) {
				spans = append(spans, dead)
			}
		}
	}
	oldest, err := offsetsAt(client, spans, sarama.OffsetOldest)
	if err != nil {
		return nil, fmt.Errorf("oldest offsets: %w", err)
	}
	newest, err := offsetsAt(client, spans, sarama.OffsetNewest)
	if err != nil {
		return nil, fmt.Errorf("newest offsets: %w", err)
	}
	filled := spans[:0]
	for i, s := range spans {
		s.from, s.to = max(s.from, oldest[i]), newest[i]
		if s.from < s.to {
			filled = append(filled, s)
		}
	}
	return filled, nil
}

// committedOffsets gives the group's offsets; -1 for none.
func committedOffsets(client sarama.Client, group string, of map[string][]int32) (func(topic string, partition int32) int64, error) {
	coordinator, err := client.Coordinator(group)
	if err != nil {
		return nil, err
	}
	response, err := coordinator.FetchOffset(sarama.NewOffsetFetchRequest(protocolVersion, group, of))
	if err != nil {
		return nil, err
	}
	if fault := response.GroupError(); !errors.Is(fault, sarama.ErrNoError) {
		return nil, fault
	}
	for topic, partitions := range of {
		for _, partition := range partitions {
			if block := response.GetBlock(topic, partition); block == nil || block.Err != sarama.ErrNoError {
				return nil, fmt.Errorf("%s/%d: %w", topic, partition, sarama.ErrIncompleteResponse)
			}
		}
	}
	return func(topic string, partition int32) int64 { return response.GetBlock(topic, partition).Offset }, nil
}

// offsetsAt asks each broker once.
func offsetsAt(client sarama.Client, spans []span, at int64) ([]int64, error) {
	requests := map[int32]*sarama.OffsetRequest{}
	leaders := make([]*sarama.Broker, len(spans))
	for i, s := range spans {
		leader, err := client.Leader(s.topic, s.partition)
		if err != nil {
			return nil, fmt.Errorf("%s/%d: %w", s.topic, s.partition, err)
		}
		leaders[i] = leader
		if requests[leader.ID()] == nil {
			requests[leader.ID()] = sarama.NewOffsetRequest(protocolVersion)
		}
		requests[leader.ID()].AddBlock(s.topic, s.partition, at, 1)
	}
	responses := map[int32]*sarama.OffsetResponse{}
	offsets := make([]int64, len(spans))
	for i, s := range spans {
		id := leaders[i].ID()
		if responses[id] == nil {
			response, err := leaders[i].GetAvailableOffsets(requests[id])
			if err != nil {
				return nil, err
			}
			responses[id] = response
		}
		block := responses[id].GetBlock(s.topic, s.partition)
		if block == nil || len(block.Offsets) != 1 {
			return nil, fmt.Errorf("%s/%d: %w", s.topic, s.partition, sarama.ErrIncompleteResponse)
		}
		if block.Err != sarama.ErrNoError {
			_ = client.RefreshMetadata(s.topic) // perhaps another broker leads it; the next try asks that one
			return nil, fmt.Errorf("%s/%d: %w", s.topic, s.partition, block.Err)
		}
		offsets[i] = block.Offsets[0]
	}
	return offsets, nil
}

// read hands over the records up to the end that was seen. Nobody writes to these topics in transactions, so
// the last offset is that of a record.
func (s span) read(ctx context.Context, consumer sarama.Consumer, each func(*sarama.ConsumerMessage)) error {
	claim, err := consumer.ConsumePartition(s.topic, s.partition, s.from)
	if err != nil {
		return fmt.Errorf("read %s/%d: %w", s.topic, s.partition, err)
	}
	defer func() { _ = claim.Close() }()
	idle := time.NewTimer(findOutIdle)
	defer idle.Stop()
	for {
		select {
		case message := <-claim.Messages():
			each(message)
			if message.Offset >= s.to-1 {
				return nil
			}
			idle.Reset(findOutIdle)
		case err := <-claim.Errors():
			return fmt.Errorf("read %s/%d: %w", s.topic, s.partition, err)
		case <-idle.C:
			return fmt.Errorf("read %s/%d: nothing comes before offset %d", s.topic, s.partition, s.to)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
