package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// errAbandoned is what became of messages whose acks were not waited for any longer.
var errAbandoned = errors.New("stopped before the broker acknowledged")

// producer sends batches and waits for their acks. It connects when it is first needed and again after
// a failure, so that nothing of a broken connection's state outlives it. It has one user at a time.
type producer struct {
	cluster        Cluster
	maxRecordBytes int
	drain          time.Duration // how long acks are waited for once ctx is done
	async          sarama.AsyncProducer
}

// failure is a message that was not acknowledged.
type failure struct {
	message *sarama.ProducerMessage
	err     error
}

// send publishes the messages in their order and returns when each is acknowledged or failed.
func (p *producer) send(ctx context.Context, messages []*sarama.ProducerMessage) []failure {
	if len(messages) == 0 {
		return nil
	}
	if err := p.connect(ctx); err != nil {
		return failAll(messages, err)
	}
	failed, settled := p.exchange(ctx, messages)
	if !settled {
		// The rest is still under way in there, so it can't be used any more, nor closed in time.
		abandoned := p.async
		p.async = nil
		go func() { _ = abandoned.Close() }()
		return failAll(messages, errAbandoned)
	}
	if len(failed) > 0 {
		p.close()
	}
	return failed
}

func failAll(messages []*sarama.ProducerMessage, err error) []failure {
	failed := make([]failure, len(messages))
	for i, message := range messages {
		failed[i] = failure{message, err}
	}
	return failed
}

// connect makes the connection in ctx's time, though the client's own attempts may take longer.
func (p *producer) connect(ctx context.Context) error {
	if p.async != nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	type attempt struct {
		async sarama.AsyncProducer
		err   error
	}
	made := make(chan attempt, 1)
	go func() {
		async, err := sarama.NewAsyncProducer(p.cluster.Brokers, p.cluster.producerConfig(p.maxRecordBytes))
		made <- attempt{async, err}
	}()
	select {
	case result := <-made:
		if result.err != nil {
			return fmt.Errorf("connect producer: %w", result.err)
		}
		p.async = result.async
		return nil
	case <-ctx.Done():
		go func() {
			if late := <-made; late.err == nil {
				_ = late.async.Close()
			}
		}()
		return ctx.Err()
	}
}

// exchange feeds the producer and collects its results in one loop. When ctx is done it sends nothing
// more and gives the acks that are due the drain time; settled tells that none is left.
func (p *producer) exchange(ctx context.Context, messages []*sarama.ProducerMessage) (failed []failure, settled bool) {
	done := ctx.Done()
	var expired <-chan time.Time
	sent, pending := 0, 0
	for sent < len(messages) || pending > 0 {
		var input chan<- *sarama.ProducerMessage
		var next *sarama.ProducerMessage
		if sent < len(messages) {
			input, next = p.async.Input(), messages[sent]
		}
		select {
		case input <- next:
			sent++
			pending++
		case <-p.async.Successes():
			pending--
		case result := <-p.async.Errors():
			pending--
			failed = append(failed, failure{result.Msg, result.Err})
		case <-done:
			done = nil
			failed = append(failed, failAll(messages[sent:], ctx.Err())...)
			messages = messages[:sent]
			timer := time.NewTimer(p.drain)
			defer timer.Stop()
			expired = timer.C
		case <-expired:
			return failed, false
		}
	}
	return failed, true
}

func (p *producer) close() {
	if p.async != nil {
		_ = p.async.Close() // every message is settled: nothing is left to fail
		p.async = nil
	}
}

// tooLarge tells that the broker or the client refused the size of a message.
func tooLarge(err error) bool {
	_, byClient := errors.AsType[sarama.ConfigurationError](err)
	return byClient || errors.Is(err, sarama.ErrMessageSizeTooLarge) || errors.Is(err, sarama.ErrMessageSetSizeTooLarge)
}

// topicFaults are answers of a broker that works, about one topic.
var topicFaultCodes = []sarama.KError{
	sarama.ErrUnknownTopicOrPartition, sarama.ErrTopicAuthorizationFailed, sarama.ErrInvalidTopic,
	sarama.ErrNotEnoughReplicas, sarama.ErrNotEnoughReplicasAfterAppend, sarama.ErrPolicyViolation,
	sarama.ErrKafkaStorageError, sarama.ErrLeaderNotAvailable,
}

func topicFault(err error) bool {
	for _, code := range topicFaultCodes {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}
