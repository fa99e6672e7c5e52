package kafka

import (
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
)

// errRedeliver makes the lane deliver the record again; the failure itself is logged already.
var errRedeliver = errors.New("to be delivered again")

// chain is what a record passes on its way to a consumer's handler, outermost first:
//
//	settle      whether it is its turn; what becomes of a failure: retry topic, DLQ, redelivery, or
//	            nothing while stopping
//	decode      the record, and with it the correlation
//	retry       transient failures, at once, with the progress of the try before
//	timeout     of each try
//	recover     a panic is a permanent failure
type chain struct {
	consumer Consumer
	policy   Policy
	ladder   ladder
	registry *eventstore.Registry
	parker   *parker
	counters consumerCounters
	logger   *slog.Logger
}

func newChain(cfg ConsumeConfig, consumer Consumer, parker *parker, counters consumerCounters) *chain {
	policy := consumer.Policy.withDefaults()
	return &chain{
		consumer: consumer,
		policy:   policy,
		ladder:   newLadder(cfg.Names, consumer.Name, policy),
		registry: cfg.Registry,
		parker:   parker,
		counters: counters,
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

// settle begins and ends a record's visit: the error that it returns only makes the lane deliver again.
func (c *chain) settle(next message.HandlerFunc) message.HandlerFunc {
	return func(m *message.Message) ([]*message.Message, error) {
		delivery, found := Delivered(m.Context())
		if !found {
			return nil, fmt.Errorf("consumer %s: the message did not come through lanes", c.consumer.Name)
		}
		m.SetContext(&delivery.ctx) // without the router's names around it, which nobody asks for
		if err := m.Context().Err(); err != nil {
			return nil, err // the lane has given up waiting: it is another member's
		}
		if its := c.turn(m.Context(), delivery); its.verdict != proceed {
			return nil, c.outOfTurn(m.Context(), delivery, its)
		}
		if delivery.parked != nil {
			c.observeLateness(delivery)
		}
		if _, err := next(m); err != nil {
			return nil, c.fail(m.Context(), delivery, err)
		}
		c.counters.handled.Inc()
		delivery.done()
		return nil, nil
	}
}

// observeLateness takes how late a retry is. What an operator sent back was due long before.
func (c *chain) observeLateness(delivery *Delivery) {
	if delivery.parked.class == classTransient && !delivery.due.IsZero() && delivery.Message.Topic != c.ladder.replay {
		c.counters.late.Observe(max(0, time.Since(delivery.due).Seconds()))
	}
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
		err := c.try(m, next)
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
			again := c.try(m, next)
			if again == nil {
				return nil, nil
			}
			if eventstore.Classify(again) == eventstore.Unavailable {
				break // this try was none; the one before it counts
			}
			err = again
		}
		return nil, err
	}
}

// try gives the handler the progress of the try before, and keeps what this one leaves.
func (c *chain) try(m *message.Message, next message.HandlerFunc) error {
	delivery, _ := Delivered(m.Context())
	if delivery.progress != "" {
		whole := m.Context()
		m.SetContext(eventstore.ContextWithProgress(whole, delivery.progress))
		defer m.SetContext(whole)
	}
	_, err := next(m)
	if progress := eventstore.ProgressOf(err); progress != "" {
		delivery.progress = progress
	}
	return err
}

// timeout bounds one try. The message's context is put back, so that the next try starts afresh.
func (c *chain) timeout(next message.HandlerFunc) message.HandlerFunc {
	return func(m *message.Message) ([]*message.Message, error) {
		whole := m.Context()
		ctx := withTimeout(whole, c.policy.Timeout)
		m.SetContext(ctx)
		defer func() {
			ctx.end()
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
