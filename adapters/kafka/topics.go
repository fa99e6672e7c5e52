package kafka

import (
	"slices"
	"strings"

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
)

func (k Kind) String() string { return [...]string{"events", "state", "commands", "dead letters"}[k] }

// Topic is one topic of the platform.
type Topic struct {
	Name string
	Kind Kind
}

// All lists every topic that the registry's events need, and a DLQ for each consumer, sorted by name.
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
		topics = append(topics, Topic{t.DLQ(consumer), DeadLetterTopic})
	}
	slices.SortFunc(topics, func(a, b Topic) int { return strings.Compare(a.Name, b.Name) })
	return slices.Compact(topics)
}
