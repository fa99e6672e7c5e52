package kafka

import (
	"slices"
	"strings"
	"time"

	"andes/eventstore"
)

// DefaultPrefix starts the name of every topic and consumer group.
const DefaultPrefix = "andes."

// Topics names topics and consumer groups. The zero value uses DefaultPrefix.
type Topics struct {
	Prefix string
}

func (t Topics) name(parts ...string) string {
	prefix := t.Prefix
	if prefix == "" {
		prefix = DefaultPrefix
	}
	return prefix + strings.Join(parts, ".")
}

// Events carries every event of a category.
func (t Topics) Events(category string) string { return t.name("events", category) }

// State carries the latest state of each stream of a category, compacted.
func (t Topics) State(category string) string { return t.name("state", category) }

// Commands carries the events that a legacy system has to act on.
func (t Topics) Commands(system string) string { return t.name("commands", system) }

// DLQ carries what a consumer could not process.
func (t Topics) DLQ(consumer string) string { return t.name(consumer, "dlq") }

// Retry carries a consumer's failed records for a fixed delay, after which it is named: 10m, 1h.
func (t Topics) Retry(consumer string, delay time.Duration) string {
	return t.name(consumer, "retry", delayName(delay))
}

// Replay carries what an operator sends back to a consumer.
func (t Topics) Replay(consumer string) string { return t.name(consumer, "replay") }

// delayName writes a delay without the zero units that time.Duration adds.
func delayName(delay time.Duration) string {
	name := delay.String()
	if strings.HasSuffix(name, "m0s") {
		name = strings.TrimSuffix(name, "0s")
	}
	if strings.HasSuffix(name, "h0m") {
		name = strings.TrimSuffix(name, "0m")
	}
	return name
}

// Parked names the records that the relay could not publish, without their payload.
func (t Topics) Parked() string { return t.name("relay", "parked") }

// Group is the consumer group of a consumer.
func (t Topics) Group(consumer string) string { return t.name(consumer) }

// Kind decides a topic's settings.
type Kind int

// The kinds of topics.
const (
	EventTopic Kind = iota
	StateTopic
	CommandTopic
	DeadLetterTopic
	RetryTopic
)

func (k Kind) String() string {
	return [...]string{"events", "state", "commands", "dead letters", "retries"}[k]
}

// parks tells whether failed records wait in topics of this kind.
func (k Kind) parks() bool { return k == DeadLetterTopic || k == RetryTopic }

// Topic is one topic of the platform.
type Topic struct {
	Name string
	Kind Kind
}

// Ladder lists the topics of a consumer's own: its retry topics, replay and DLQ.
func (t Topics) Ladder(consumer string, tiers ...time.Duration) []Topic {
	topics := []Topic{{t.Replay(consumer), RetryTopic}, {t.DLQ(consumer), DeadLetterTopic}}
	for _, delay := range tiers {
		topics = append(topics, Topic{t.Retry(consumer, delay), RetryTopic})
	}
	return topics
}

// All lists every topic that the registry's events need, and replay and DLQ of each consumer, sorted by
// name. Retry topics come with Ladder.
func (t Topics) All(registry *eventstore.Registry, consumers ...string) []Topic {
	topics := []Topic{{t.Parked(), DeadLetterTopic}}
	for _, category := range registry.Categories() {
		topics = append(topics, Topic{t.Events(category), EventTopic})
		if registry.Published(category) {
			topics = append(topics, Topic{t.State(category), StateTopic})
		}
		for _, declaration := range registry.Declarations(category) {
			if declaration.CommandTopic != "" {
				topics = append(topics, Topic{t.Commands(declaration.CommandTopic), CommandTopic})
			}
		}
	}
	for _, consumer := range consumers {
		topics = append(topics, t.Ladder(consumer)...)
	}
	slices.SortFunc(topics, func(a, b Topic) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(topics)
}
