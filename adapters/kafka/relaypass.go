package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"andes/eventstore"
)

const (
	// A topic that keeps failing while others work is left behind after patientRounds, and tried
	// again with a growing pause.
	patientRounds     = 2
	behindBackoffMin  = 500 * time.Millisecond
	behindBackoffMax  = 30 * time.Second
	catchUpBatches    = 16 // in a row, before the head has its turn again
	roundBackoffMin   = 100 * time.Millisecond
	roundBackoffMax   = 5 * time.Second
	noCheckpointSaved = -1
)

// pass is one session's progress through the log.
type pass struct {
	*Relay
	session Session
	head    int64
	saved   int64
	behind  map[string]*laggard
	again   struct { // when publishing again is tried after a failure
		retryAt time.Time
		wait    backoff
	}
}

// laggard is a topic that could not be published to when the others could.
type laggard struct {
	position int64 // everything up to it is published
	retryAt  time.Time
	wait     backoff
}

func (r *Relay) newPass(session Session) *pass {
	checkpoint := session.Checkpoint()
	r.metrics.position.Set(float64(checkpoint))
	r.metrics.checkpoint.Set(float64(checkpoint))
	p := &pass{Relay: r, session: session, head: checkpoint, saved: noCheckpointSaved, behind: map[string]*laggard{}}
	p.again.wait = backoff{least: behindBackoffMin, most: behindBackoffMax}
	return p
}

func (p *pass) follow(ctx context.Context) error {
	for {
		records, states, err := p.session.Next(ctx, p.head)
		if err != nil {
			return fmt.Errorf("read the log after %d: %w", p.head, err)
		}
		if len(records) > 0 {
			if err := p.advance(ctx, records, states); err != nil {
				return err
			}
		}
		if err := p.catchUp(ctx); err != nil {
			return err
		}
		if err := p.save(ctx); err != nil {
			return err
		}
		if err := p.republish(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// advance publishes what follows the head, except to the topics that are behind.
func (p *pass) advance(ctx context.Context, records []eventstore.Record, states []eventstore.StateRecord) error {
	messages := p.messages(records, states, func(topic string) bool { return p.behind[topic] == nil })
	failing, err := p.publish(ctx, messages)
	if err != nil {
		return err
	}
	for topic, err := range failing {
		p.failed("relay: topic fails and is left behind", err, "topic", topic, "position", p.head)
		late := &laggard{position: p.head, wait: backoff{least: behindBackoffMin, most: behindBackoffMax}}
		late.retryAt = time.Now().Add(late.wait.next())
		p.behind[topic] = late
	}
	last := records[len(records)-1]
	p.head = last.Position
	p.metrics.position.Set(float64(p.head))
	p.metrics.lag.Set(time.Since(last.RecordedAt).Seconds())
	p.metrics.behind.Set(float64(len(p.behind)))
	return nil
}

// publish sends until every message is acknowledged. The topics that it gives up on, for now, are
// returned with their errors; an outage of all of Kafka is waited for.
func (p *pass) publish(ctx context.Context, messages []*sarama.ProducerMessage) (map[string]error, error) {
	left := map[string]error{}
	wait := backoff{least: roundBackoffMin, most: roundBackoffMax}
	topics := countTopics(messages)
	for round := 1; len(messages) > 0; round++ {
		failures := p.out.send(ctx, messages)
		failing := map[string]error{}
		for _, failure := range failures {
			failing[failure.message.Topic] = failure.err
		}
		p.count(messages, failing)
		if len(failing) == 0 {
			break
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("publish after %d: %w", p.head, ctx.Err())
		}
		messages = ofTopics(messages, failing)
		othersWork := len(failing)+len(left) < topics
		for topic, err := range failing {
			switch {
			case tooLarge(err):
				messages = p.sendAlone(ctx, messages, topic)
			case topicFault(err), othersWork && round >= patientRounds:
				left[topic] = err
				messages = withoutTopic(messages, topic)
			}
		}
		if len(messages) > 0 {
			p.failed("relay: publishing fails, it goes on trying", failures[0].err, "round", round, "topics", len(failing))
			wait.pause(ctx)
		}
	}
	return left, nil
}

// sendAlone sends the topic's messages one by one, so that the one that is too large is found and
// replaced by its notice. What could not be sent is returned with the other topics' messages.
func (p *pass) sendAlone(ctx context.Context, messages []*sarama.ProducerMessage, topic string) []*sarama.ProducerMessage {
	rest := withoutTopic(messages, topic)
	for _, message := range messages {
		if message.Topic != topic {
			continue
		}
		for _, failure := range p.out.send(ctx, []*sarama.ProducerMessage{message}) {
			if tooLarge(failure.err) {
				message = p.notice(message, "refused by the broker: "+failure.err.Error())
			}
			rest = append(rest, message)
		}
	}
	return rest
}

// catchUp brings the topics that are behind forward, each from its own position.
func (p *pass) catchUp(ctx context.Context) error {
	for topic, late := range p.behind {
		for range catchUpBatches {
			if ctx.Err() != nil || time.Now().Before(late.retryAt) {
				break
			}
			if err := p.catchUpBatch(ctx, topic, late); err != nil {
				return err
			}
			if late.position >= p.head {
				delete(p.behind, topic)
				p.cfg.Logger.InfoContext(ctx, "relay: topic has caught up", "topic", topic, "position", p.head)
				break
			}
		}
	}
	p.metrics.behind.Set(float64(len(p.behind)))
	return nil
}

func (p *pass) catchUpBatch(ctx context.Context, topic string, late *laggard) error {
	records, states, err := p.session.Next(ctx, late.position)
	if err != nil {
		return fmt.Errorf("read the log after %d: %w", late.position, err)
	}
	for len(records) > 0 && records[len(records)-1].Position > p.head {
		records = records[:len(records)-1] // the head's business
	}
	if len(records) == 0 {
		late.position = p.head
		return nil
	}
	messages := p.messages(records, states, func(name string) bool { return name == topic })
	failures := p.out.send(ctx, messages)
	if len(failures) > 0 && tooLarge(failures[0].err) {
		failures = p.out.send(ctx, p.sendAlone(ctx, messages, topic))
	}
	if len(failures) > 0 {
		late.retryAt = time.Now().Add(late.wait.next())
		p.failed("relay: topic is still behind", failures[0].err, "topic", topic, "position", late.position)
		return nil
	}
	p.count(messages, nil)
	late.wait.reset()
	late.position = records[len(records)-1].Position
	return nil
}

// save moves the checkpoint to the least position. Work that was acknowledged while stopping is saved
// too, in a bounded time of its own.
func (p *pass) save(ctx context.Context) error {
	position := p.head
	for _, late := range p.behind {
		position = min(position, late.position)
	}
	if position == p.saved || position == p.session.Checkpoint() && p.saved == noCheckpointSaved {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), relayDrain)
	defer cancel()
	if err := p.session.Save(ctx, position); err != nil {
		return fmt.Errorf("save checkpoint %d: %w", position, err)
	}
	p.saved = position
	p.metrics.checkpoint.Set(float64(position))
	return nil
}

func countTopics(messages []*sarama.ProducerMessage) int {
	seen := map[string]bool{}
	for _, message := range messages {
		seen[message.Topic] = true
	}
	return len(seen)
}

// ofTopics keeps the messages of the topics, in order: those after a failed one are sent again behind
// it, so that each key ends on its latest record.
func ofTopics(messages []*sarama.ProducerMessage, topics map[string]error) []*sarama.ProducerMessage {
	var kept []*sarama.ProducerMessage
	for _, message := range messages {
		if _, wanted := topics[message.Topic]; wanted {
			kept = append(kept, message)
		}
	}
	return kept
}

func withoutTopic(messages []*sarama.ProducerMessage, topic string) []*sarama.ProducerMessage {
	var kept []*sarama.ProducerMessage
	for _, message := range messages {
		if message.Topic != topic {
			kept = append(kept, message)
		}
	}
	return kept
}
