package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

// Provision creates and checks a list of topics.
type Provision struct {
	Cluster  Cluster
	Topics   []Topic // Topics.All
	Settings Settings
}

// visibleWait is how long a broker may take to show a topic that its controller has created.
const visibleWait = 15 * time.Second

// createWait is how long the creation of topics is tried.
const createWait = 30 * time.Second

// Ensure creates the topics that are missing, with explicit settings, and returns when the brokers show
// them. Existing ones are left as they are; Check judges them.
func (p Provision) Ensure(ctx context.Context) error {
	admin, settings, err := p.open()
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	defer func() { _ = admin.Close() }()
	if err := p.create(ctx, admin, settings); err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	return p.waitVisible(ctx, admin)
}

func (p Provision) waitVisible(ctx context.Context, admin sarama.ClusterAdmin) error {
	ctx, cancel := context.WithTimeout(ctx, visibleWait)
	defer cancel()
	wait := backoff{least: 10 * time.Millisecond, most: time.Second}
	for {
		existing, err := describe(admin, p.Topics)
		if err == nil && len(existing) == len(p.Topics) {
			return nil
		}
		if !wait.pause(ctx) {
			return errors.Join(fmt.Errorf("create topics: %d of %d are visible: %w", len(existing), len(p.Topics), ctx.Err()), err)
		}
	}
}

func (p Provision) open() (sarama.ClusterAdmin, Settings, error) {
	settings := p.Settings.withDefaults()
	if err := errors.Join(p.Cluster.validate(), settings.validate()); err != nil {
		return nil, settings, err
	}
	config := p.Cluster.config()
	config.Metadata.Full = true // administration needs to know the brokers before it asks for a topic
	admin, err := sarama.NewClusterAdmin(p.Cluster.Brokers, config)
	if err != nil {
		return nil, settings, fmt.Errorf("connect to Kafka at %s: %w", strings.Join(p.Cluster.Brokers, ","), err)
	}
	return admin, settings, nil
}

// create asks the controller for all topics at once, and again for those that it could not do at the moment.
func (p Provision) create(ctx context.Context, admin sarama.ClusterAdmin, settings Settings) error {
	missing := map[string]*sarama.TopicDetail{}
	for _, topic := range p.Topics {
		missing[topic.Name] = settings.detail(topic.Kind)
	}
	ctx, cancel := context.WithTimeout(ctx, createWait)
	defer cancel()
	wait := backoff{least: 50 * time.Millisecond, most: time.Second}
	for {
		err := createAll(admin, missing)
		if err == nil {
			return nil
		}
		if !passing(err) || !wait.pause(ctx) {
			return err
		}
	}
}

// createAll leaves those in missing that are not there afterwards.
func createAll(admin sarama.ClusterAdmin, missing map[string]*sarama.TopicDetail) error {
	controller, err := admin.Controller()
	if err != nil {
		return err
	}
	response, err := controller.CreateTopics(sarama.NewCreateTopicsRequest(protocolVersion, missing, adminTimeout, false))
	if err != nil {
		return err
	}
	var faults []error
	for name := range missing {
		result, told := response.TopicErrors[name]
		switch {
		case !told:
			faults = append(faults, fmt.Errorf("topic %s: %w", name, sarama.ErrIncompleteResponse))
		case result.Err == sarama.ErrNoError, result.Err == sarama.ErrTopicAlreadyExists:
			delete(missing, name)
		default:
			faults = append(faults, fmt.Errorf("topic %s: %w", name, result))
		}
	}
	return errors.Join(faults...)
}

// passing tells that another attempt may go better: the controller moved, or was busy.
func passing(err error) bool {
	for _, code := range []sarama.KError{sarama.ErrNotController, sarama.ErrRequestTimedOut, sarama.ErrBrokerNotAvailable} {
		if errors.Is(err, code) {
			return true
		}
	}
	return errors.Is(err, io.EOF)
}

// detail is how a topic of the kind is created.
func (s Settings) detail(kind Kind) *sarama.TopicDetail {
	detail := &sarama.TopicDetail{NumPartitions: s.Partitions, ReplicationFactor: s.ReplicationFactor, ConfigEntries: map[string]*string{}}
	for name, value := range s.entries(kind) {
		detail.ConfigEntries[name] = &value
	}
	return detail
}

// Check compares the topics with their settings and reports every one that is missing or that could
// lose or hold up records. A setting that is safer than asked for is no fault.
func (p Provision) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("check topics: %w", err)
	}
	admin, settings, err := p.open()
	if err != nil {
		return fmt.Errorf("check topics: %w", err)
	}
	defer func() { _ = admin.Close() }()
	existing, err := describe(admin, p.Topics)
	if err != nil {
		return fmt.Errorf("check topics: %w", err)
	}
	var faults []error
	for _, topic := range p.Topics {
		found, exists := existing[topic.Name]
		if !exists {
			faults = append(faults, fmt.Errorf("topic %s is missing", topic.Name))
			continue
		}
		for _, fault := range topicFaults(topic, found, settings) {
			faults = append(faults, fmt.Errorf("topic %s (%s): %s", topic.Name, topic.Kind, fault))
		}
	}
	return errors.Join(faults...)
}

// found is a topic as it is on the broker.
type found struct {
	replicas int
	entries  map[string]string
}

func describe(admin sarama.ClusterAdmin, topics []Topic) (map[string]found, error) {
	names := make([]string, len(topics))
	for i, topic := range topics {
		names[i] = topic.Name
	}
	metadata, err := admin.DescribeTopics(names)
	if err != nil {
		return nil, err
	}
	existing := map[string]found{}
	var resources []*sarama.ConfigResource
	for _, topic := range metadata {
		if topic.Err == sarama.ErrUnknownTopicOrPartition || len(topic.Partitions) == 0 {
			continue
		}
		existing[topic.Name] = found{fewestReplicas(topic.Partitions), map[string]string{}}
		resources = append(resources, &sarama.ConfigResource{Type: sarama.TopicResource, Name: topic.Name})
	}
	described, err := admin.DescribeConfigs(resources, sarama.DescribeConfigsOptions{})
	if err != nil {
		return nil, err
	}
	for _, result := range described {
		if result.ErrorCode != sarama.ErrNoError {
			return nil, fmt.Errorf("settings of %s: %w", result.Name, result.ErrorCode)
		}
		for _, entry := range result.Configs {
			existing[result.Name].entries[entry.Name] = entry.Value
		}
	}
	return existing, nil
}

func fewestReplicas(partitions []*sarama.PartitionMetadata) int {
	fewest := slices.MinFunc(partitions, func(a, b *sarama.PartitionMetadata) int { return len(a.Replicas) - len(b.Replicas) })
	return len(fewest.Replicas)
}

// topicFaults says in words what is dangerous about a topic.
func topicFaults(topic Topic, is found, settings Settings) []string {
	var faults []string
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	wanted := settings.entries(topic.Kind)
	atLeast := func(name string) bool { return number(is.entries[name]) >= number(wanted[name]) }

	fault(is.entries["cleanup.policy"] != wanted["cleanup.policy"],
		"cleanup.policy is %q, not %q", is.entries["cleanup.policy"], wanted["cleanup.policy"])
	if topic.Kind == StateTopic {
		fault(is.entries["retention.ms"] != forever,
			"retention.ms is %s: states would expire, it must be -1", is.entries["retention.ms"])
		fault(!atLeast("delete.retention.ms"), "delete.retention.ms is %s, less than %s: a rebuild would miss deletions",
			is.entries["delete.retention.ms"], wanted["delete.retention.ms"])
	} else {
		fault(is.entries["retention.ms"] != forever && !atLeast("retention.ms"),
			"retention.ms is %s, less than %s", is.entries["retention.ms"], wanted["retention.ms"])
	}
	fault(is.entries["retention.bytes"] != forever, "retention.bytes is %s: a full topic would lose its oldest records, it must be -1",
		is.entries["retention.bytes"])
	fault(!atLeast("min.insync.replicas"), "min.insync.replicas is %s, less than %s",
		is.entries["min.insync.replicas"], wanted["min.insync.replicas"])
	fault(!atLeast("max.message.bytes"), "max.message.bytes is %s, less than %s",
		is.entries["max.message.bytes"], wanted["max.message.bytes"])
	fault(is.entries["unclean.leader.election.enable"] == "true", "unclean.leader.election.enable loses acknowledged records")
	fault(is.replicas < int(settings.ReplicationFactor), "replication factor is %d, less than %d", is.replicas, settings.ReplicationFactor)
	return faults
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}
