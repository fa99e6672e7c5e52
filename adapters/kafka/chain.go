package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"andes/eventstore"
)

const (
	tryBackoffMin = 50 * time.Millisecond
	tryBackoffMax = 500 * time.Millisecond

	// settleTime is what writing to a DLQ may take.
	settleTime = 30 * time.Second
)

// errRedeliver makes the lane deliver the record again; the failure itself is logged already.
var errRedeliver = errors.New("to be delivered again")

// chain is what a record passes on its way to a consumer's handler, outermost first:
//
//	settle      decides what becomes of a failure: DLQ, redelivery, or nothing while stopping
//	decode      the record, and with it the correlation
//	retry       transient failures, at once
//	timeout     of each try
//	recover     a panic is a permanent failure
type chain struct {
	consumer Consumer
	policy   Policy
	registry *eventstore.Registry
	dead     *deadLetters
	counters consumerCounters
	logger   *slog.Logger
}

func newChain(cfg ConsumeConfig, consumer Consumer, dead *deadLetters, metrics consumerMetrics) *chain {
	return &chain{
		consumer: consumer,
		policy:   consumer.Policy.withDefaults(),
		registry: cfg.Registry,
		dead:     dead,
		counters: metrics.of(consumer.Name),
		logger:   cfg.Logger.With("consumer", consumer.Name),
	}
}

func (c *chain) middlewares() []message.HandlerMiddleware {
	return []message.HandlerMiddleware{c.settle, c.decode, c.retry, c.timeout, c.recover}
}

func (c *chain) handle(m *message.Message) error {
	delivery, _ := Delivered(m.Context())
	return c.consumer.Handle(m.Context(), delivery.record)
}

// settle is the end of every failure: the error that it returns only makes the lane deliver again.
func (c *chain) settle(next message.HandlerFunc) message.HandlerFunc {
	return func(m *message.Message) ([]*message.Message, error) {
		ctx := m.Context()
		_, err := next(m)
		if err == nil {
			c.counters.handled.Inc()
			return nil, nil
		}
		delivery, found := Delivered(ctx)
		if !found {
			return nil, fmt.Errorf("consumer %s: the message did not come through lanes: %w", c.consumer.Name, err)
		}
		c.counters.failed.Inc()
		switch class := c.classify(ctx, delivery, err); class {
		case "":
			return nil, context.Canceled // stopping: nothing is wrong with the record
		case classTransient:
			c.counters.redelivered.Inc()
			c.log(ctx, slog.LevelWarn, "record failed and comes again", delivery, err)
			return nil, errRedeliver
		default:
			return nil, c.park(ctx, delivery, class, err)
		}
	}
}

// classify sorts a failure; "" is the shutdown. While the handler's context is done nothing counts
// against the record.
func (c *chain) classify(ctx context.Context, delivery *Delivery, err error) string {
	class := eventstore.Classify(err)
	switch {
	case class == eventstore.Shutdown || ctx.Err() != nil:
		return ""
	case errors.Is(err, ErrUndecodable):
		return classUndecodable
	case class == eventstore.Permanent:
		return classPermanent
	}
	if _, broken := c.registry.Decode(delivery.record); broken != nil {
		return classUndecodable // whatever the handler said: it will never read this one
	}
	return classTransient
}

// park sends the record to the DLQ; when that fails, it stays and comes again.
func (c *chain) park(ctx context.Context, delivery *Delivery, class string, err error) error {
	now := time.Now()
	first := delivery.FirstFailure
	if first.IsZero() {
		first = now
	}
	writing, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	failed := c.dead.park(writing, delivery.Message, cause{
		consumer: c.consumer.Name, class: class, err: err, attempt: delivery.Attempt, firstFailure: first, due: now,
	})
	if failed != nil {
		c.log(ctx, slog.LevelError, "DLQ can't be written, the record stays", delivery, errors.Join(failed, err))
		return errRedeliver
	}
	c.counters.dead.Inc()
	c.log(ctx, slog.LevelError, "record sent to the DLQ", delivery, err)
	return nil
}

func (c *chain) log(ctx context.Context, level slog.Level, what string, delivery *Delivery, err error) {
	c.logger.Log(ctx, level, what,
		"topic", delivery.Message.Topic, "partition", delivery.Message.Partition, "offset", delivery.Message.Offset,
		"attempt", delivery.Attempt, "type", delivery.record.Type, "stream", delivery.record.Stream.String(),
		"correlationId", delivery.record.Meta.CorrelationID, "error", err)
}

func (c *chain) decode(next message.HandlerFunc) message.HandlerFunc {
	return func(m *message.Message) ([]*message.Message, error) {
		delivery, found := Delivered(m.Context())
		if !found {
			return nil, errors.New("the message holds no Kafka record")
		}
		record, err := DecodeRecord(delivery.Message)
		if err != nil {
			return nil, err
		}
		delivery.record = record
		return next(m)
	}
}

func (c *chain) retry(next message.HandlerFunc) message.HandlerFunc {
	return func(m *message.Message) ([]*message.Message, error) {
		_, err := next(m)
		if err == nil {
			return nil, nil
		}
		began := time.Now()
		wait := backoff{least: tryBackoffMin, most: tryBackoffMax}
		for try := 1; try < c.policy.Tries && eventstore.Classify(err) == eventstore.Transient; try++ {
			pause := wait.next()
			if time.Since(began)+pause > c.policy.TriesWithin || !sleep(m.Context(), pause) {
				break
			}
			if _, err = next(m); err == nil {
				return nil, nil
			}
		}
		return nil, err
	}
}

// timeout bounds one try. The message's context is put back, so that the next try starts afresh.
func (c *chain) timeout(next message.HandlerFunc) message.HandlerFunc {
	return func(m *message.Message) ([]*message.Message, error) {
		whole := m.Context()
		ctx, cancel := context.WithTimeout(whole, c.policy.Timeout)
		m.SetContext(ctx)
		defer func() {
			cancel()
			m.SetContext(whole)
		}()
		return next(m)
	}
}

// recover makes a panic the record's failure instead of the process's end.
func (c *chain) recover(next message.HandlerFunc) message.HandlerFunc {
	return func(m *message.Message) (_ []*message.Message, err error) {
		defer func() {
			if cause := recover(); cause != nil {
				c.logger.Error("handler panicked", "panic", cause, "stack", string(debug.Stack()))
				err = eventstore.MarkPermanent(fmt.Errorf("the handler of %s panicked: %v", c.consumer.Name, cause))
			}
		}()
		return next(m)
	}
}
