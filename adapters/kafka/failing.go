package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"andes/eventstore"
)

// settleTime is what writing to a retry topic or a DLQ may take.
const settleTime = 30 * time.Second

// What becomes of a failure that is not parked.
const (
	classStopping = "stopping" // nothing is wrong with the record
	classPutOff   = "put off"  // it was not really tried
)

// fail decides what becomes of a failure. While the partition is being given up nothing is parked: whoever
// reads it next tries again.
func (c *chain) fail(ctx context.Context, delivery *Delivery, err error) error {
	class := c.classify(ctx, delivery, err)
	switch class {
	case classStopping:
		return context.Canceled
	case classPutOff:
		delivery.putOff = true
		c.counters.putOff.Inc()
		c.log(ctx, slog.LevelWarn, "record is put off", delivery, err)
		return errRedeliver
	}
	c.counters.failed.Inc()
	now := time.Now()
	if delivery.FirstFailure.IsZero() {
		delivery.FirstFailure = now
	}
	target := c.ladder.dlq
	if class == classTransient {
		if len(c.ladder.tiers) == 0 {
			c.counters.redelivered.Inc()
			c.log(ctx, slog.LevelWarn, "record failed and comes again", delivery, err)
			return errRedeliver
		}
		target = c.ladder.after(delivery.climbedFrom(), delivery.FirstFailure, now)
	}
	return c.park(ctx, delivery, target, class, err)
}

// classify sorts a failure. While the handler's context is done, or the partition is no longer ours, nothing
// counts against the record.
func (c *chain) classify(ctx context.Context, delivery *Delivery, err error) string {
	class := eventstore.Classify(err)
	switch {
	case class == eventstore.Shutdown || ctx.Err() != nil || delivery.abandoned():
		return classStopping
	case errors.Is(err, ErrUndecodable):
		return classUndecodable
	case class == eventstore.Permanent:
		return classPermanent
	case class == eventstore.Unavailable:
		return classPutOff
	}
	if _, broken := c.registry.Decode(delivery.record); broken != nil {
		return classUndecodable // whatever the handler said: it will never read this one
	}
	return classTransient
}

// outOfTurn settles a record that is not to be handled now.
func (c *chain) outOfTurn(ctx context.Context, delivery *Delivery, its turn) error {
	switch {
	case its.verdict == drop:
		c.counters.dropped.Inc()
		c.log(ctx, slog.LevelInfo, "copy of a record that is parked elsewhere or done is dropped", delivery, nil)
		return nil
	case its.verdict == release:
		delivery.done()
		c.counters.discarded.Inc()
		c.log(ctx, slog.LevelInfo, "record was given up by an operator", delivery, nil)
		return nil
	case its.verdict == hold || delivery.abandoned():
		delivery.putOff = true
		return context.Canceled // asked about again in a moment, or by another member
	}
	return c.park(ctx, delivery, its.topic, classBehind, fmt.Errorf("an earlier record of its key waits in %s", its.topic))
}

// park sends the record to another topic; when that fails, it stays and comes again.
func (c *chain) park(ctx context.Context, delivery *Delivery, target, class string, err error) error {
	now := time.Now()
	text := err.Error()
	j := delivery.way()
	if class == classBehind {
		j.attempt-- // it was not delivered
	} else {
		j.failures = withFailure(j.failures, now, delivery.Attempt, class, text)
	}
	writing, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if err := c.stillOurs(writing, delivery); err != nil {
		c.log(ctx, slog.LevelWarn, "record is parked nowhere: its partition may be another member's by now", delivery, err)
		delivery.putOff = true
		return errRedeliver
	}
	landed := delivery.leave(target)
	position, failed := c.parker.put(writing, delivery.Message, parking{
		consumer: c.consumer.Name, topic: target, dead: target == c.ladder.dlq, class: class, reason: text,
		due: now.Add(c.ladder.delay(target)), journey: j,
	})
	landed(position, failed)
	if failed != nil {
		delivery.putOff = class == classBehind
		c.log(ctx, slog.LevelError, "record can't be parked and stays", delivery, errors.Join(failed, err))
		return errRedeliver
	}
	c.tellParked(ctx, delivery, target, class, err)
	return nil
}

// climbedFrom is the topic that the record waited in because of a failure of its own.
func (d *Delivery) climbedFrom() string {
	if d.parked != nil && d.parked.class == classBehind {
		return ""
	}
	return d.Message.Topic
}

// way is the record's journey up to now.
func (d *Delivery) way() journey {
	j := journey{origin: d.origin()}
	if d.parked != nil {
		j = *d.parked
	}
	j.attempt, j.firstFailure, j.progress = d.Attempt, d.FirstFailure, d.progress
	return j
}

func (c *chain) tellParked(ctx context.Context, delivery *Delivery, target, class string, err error) {
	level, what := slog.LevelWarn, "record sent to a retry topic"
	switch {
	case class == classBehind:
		c.counters.behind.Inc()
		level, what = slog.LevelInfo, "record sent behind an earlier one of its key"
	case target == c.ladder.dlq:
		c.counters.dead.Inc()
		level, what = slog.LevelError, "record sent to the DLQ"
	default:
		c.counters.retried(c.ladder.delay(target))
	}
	c.log(ctx, level, what, delivery, err, "to", target, "class", class)
}

func (c *chain) log(ctx context.Context, level slog.Level, what string, delivery *Delivery, err error, more ...any) {
	told := func(header string) string { return boundedText(headerOf(delivery.Message, header), maxFailureText) }
	args := append([]any{
		"topic", delivery.Message.Topic, "partition", delivery.Message.Partition, "offset", delivery.Message.Offset,
		"attempt", delivery.Attempt, "type", told(headerType), "stream", told(headerSubject), "correlationId", told(headerCorrelationID),
	}, more...)
	if err != nil {
		args = append(args, "error", err)
	}
	c.logger.Log(ctx, level, what, args...)
}
