package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"

	"andes/deadletters"
)

// Send implements deadletters.Log. That a letter is let go is told where somebody listens: not for a foreign
// one, and not to a consumer without a replay topic.
func (l *DeadLetterLog) Send(ctx context.Context, consumer string, letters []deadletters.Return) []error {
	topic := l.config.Names.Replay(consumer)
	partitions, err := l.partitions(topic)
	if err != nil {
		return failEach(letters, err)
	}
	messages := make([]*sarama.ProducerMessage, 0, len(letters))
	for i, letter := range letters {
		if letter.Sent || letter.Discard && (letter.Letter.Foreign != "" || len(partitions) == 0) {
			continue
		}
		message := returned(topic, letter)
		message.Metadata = i
		messages = append(messages, message)
	}
	if len(messages) == 0 {
		return nil
	}
	out, err := l.connect()
	if err != nil {
		return failEach(letters, fmt.Errorf("%w: connect producer: %w", deadletters.ErrLogUnavailable, err))
	}
	sent := make(chan error, 1)
	go func() { sent <- out.SendMessages(messages) }()
	select {
	case err = <-sent:
	case <-ctx.Done():
		return failEach(letters, fmt.Errorf("%w: %w", errAbandoned, ctx.Err()))
	}
	if err == nil {
		return nil
	}
	failed, some := errors.AsType[sarama.ProducerErrors](err)
	if !some {
		return failEach(letters, err)
	}
	errs := make([]error, len(letters))
	for _, one := range failed {
		errs[one.Msg.Metadata.(int)] = fmt.Errorf("write to %s: %w", topic, one.Err)
	}
	return errs
}

func failEach(letters []deadletters.Return, err error) []error {
	errs := make([]error, len(letters))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

func (l *DeadLetterLog) connect() (sarama.SyncProducer, error) {
	l.connecting.Lock()
	defer l.connecting.Unlock()
	if l.out != nil {
		return l.out, nil
	}
	config := l.config.Cluster.producerConfig(l.config.MaxRecordBytes + parkingHeadroom)
	config.Producer.Partitioner = newSamePartition
	out, err := sarama.NewSyncProducer(l.config.Cluster.Brokers, config)
	if err != nil {
		return nil, err
	}
	l.out = out
	return out, nil
}

// Sent implements deadletters.Log.
func (l *DeadLetterLog) Sent(ctx context.Context, consumer string, partition int32, since time.Time, runs []string) (map[deadletters.Place]bool, error) {
	sent := map[deadletters.Place]bool{}
	topic := l.config.Names.Replay(consumer)
	partitions, err := l.partitions(topic)
	if err != nil || len(partitions) == 0 {
		return sent, err
	}
	partition %= int32(len(partitions)) // as Send does
	first, err := l.offset(ctx, topic, partition, since.UnixMilli())
	if err != nil || first < 0 {
		return sent, err
	}
	end, err := l.offset(ctx, topic, partition, sarama.OffsetNewest)
	if err != nil {
		return nil, err
	}
	err = l.read(ctx, topic, partition, first, end, func(message *sarama.ConsumerMessage) (int64, bool) {
		if j, ours := readJourney(message); ours && slices.Contains(runs, j.replayRun) {
			sent[deadletters.Place{Topic: j.topic, Partition: j.partition, Offset: j.offset}] = true
		}
		return message.Offset + 1, true
	})
	return sent, err
}

var _ deadletters.Log = (*DeadLetterLog)(nil)
