package kafka

import (
	"context"
	"fmt"
	"time"

	"andes/eventstore"
)

// republishPages are published again in one turn; then the head has its own.
const republishPages = 4

// republish carries on with an order to publish a part of the log again. It is done here because there is one
// writer: what is read from the log is acknowledged before anything newer is read, so that a key's state never
// ends on an older one. It keeps behind the head.
func (p *pass) republish(ctx context.Context) error {
	for range republishPages {
		if ctx.Err() != nil || time.Now().Before(p.again.retryAt) {
			return nil
		}
		order, err := p.session.Republication(ctx)
		if err != nil {
			return fmt.Errorf("read the order to publish again: %w", err)
		}
		if !order.Open() || order.Reached >= p.head {
			return nil
		}
		if err := p.republishPage(ctx, order); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) republishPage(ctx context.Context, order eventstore.Republication) error {
	records, states, err := p.session.Next(ctx, order.Reached)
	if err != nil {
		return fmt.Errorf("read the log after %d: %w", order.Reached, err)
	}
	end := min(order.To, p.head)
	for len(records) > 0 && records[len(records)-1].Position > end {
		records = records[:len(records)-1]
	}
	reached := end
	if len(records) > 0 {
		reached = records[len(records)-1].Position
	}
	records, states = ofOrder(order, records, states)
	topics := p.topicsOf(order)
	messages := p.messages(records, states, func(topic string) bool { return topics[topic] })
	failures := p.out.send(ctx, messages)
	if len(failures) > 0 && tooLarge(failures[0].err) {
		failures = p.out.send(ctx, p.sendAlone(ctx, messages, failures[0].message.Topic))
	}
	if len(failures) > 0 {
		p.again.retryAt = time.Now().Add(p.again.wait.next())
		p.failed("relay: publishing again fails, it goes on trying", failures[0].err, "topic", failures[0].message.Topic, "position", order.Reached)
		return nil
	}
	p.again.wait.reset()
	p.count(messages, nil)
	order.Reached, order.Records = reached, order.Records+int64(len(messages))
	if err := p.session.Republished(ctx, order); err != nil {
		return fmt.Errorf("save how far the log is published again: %w", err)
	}
	if !order.Open() {
		p.cfg.Logger.InfoContext(ctx, "relay: published again", "after", order.After, "to", order.To, "records", order.Records)
	}
	return nil
}

// ofOrder keeps what an order is about: the records of its categories, and the states that these touched.
func ofOrder(order eventstore.Republication, records []eventstore.Record, states []eventstore.StateRecord) ([]eventstore.Record, []eventstore.StateRecord) {
	var kept []eventstore.Record
	touched := map[eventstore.Stream]bool{}
	for _, record := range records {
		if order.WantsCategory(record.Stream.Category) {
			kept = append(kept, record)
			touched[record.Stream] = true
		}
	}
	var current []eventstore.StateRecord
	for _, state := range states {
		if touched[state.Stream] {
			current = append(current, state)
		}
	}
	return kept, current
}

// topicsOf names the topics that an order is about.
func (r *Relay) topicsOf(order eventstore.Republication) map[string]bool {
	topics := map[string]bool{}
	for _, category := range r.cfg.Registry.Categories() {
		if !order.WantsCategory(category) {
			continue
		}
		topics[r.cfg.Topics.Events(category)] = order.WantsTopics(eventstore.RepublishEvents)
		topics[r.cfg.Topics.State(category)] = order.WantsTopics(eventstore.RepublishStates)
		for _, declaration := range r.cfg.Registry.Declarations(category) {
			if declaration.CommandTopic != "" {
				topics[r.cfg.Topics.Commands(declaration.CommandTopic)] = order.WantsTopics(eventstore.RepublishCommands)
			}
		}
	}
	return topics
}
