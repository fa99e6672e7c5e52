package kafka

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

const (
	day = 24 * time.Hour

	// MinDeadLetterRetention is how long a failed message stays reprocessable at the least.
	MinDeadLetterRetention = 14 * day

	// DefaultMaxRecordBytes is the greatest record of every topic but retry topics and DLQs, which take a
	// little more: the headers that say why it failed.
	DefaultMaxRecordBytes = 1 << 20
	parkingHeadroom       = 64 << 10

	forever = "-1"
)

// Settings are the topics' settings. The zero value of each is its default.
type Settings struct {
	Partitions          int32         // 6
	ReplicationFactor   int16         // 1, for development; 3 in production
	MinInSyncReplicas   int           // 1, for development; 2 in production
	Retention           time.Duration // of events and commands, 30 days
	DeadLetterRetention time.Duration // of retry topics and DLQs, 30 days
	MaxRecordBytes      int           // DefaultMaxRecordBytes
	// Compaction leaves a state record alone for MinCompactionLag (1 min), so that who follows the
	// topic's end sees every state, and has done its work after MaxCompactionLag (6 h), so that an
	// erased state is gone by then.
	MinCompactionLag time.Duration
	MaxCompactionLag time.Duration
	// TombstoneRetention (3 days) is how long a rebuild from the beginning may take without missing a
	// deletion.
	TombstoneRetention time.Duration
}

func (s Settings) withDefaults() Settings {
	setDefault(&s.Partitions, 6)
	setDefault(&s.ReplicationFactor, 1)
	setDefault(&s.MinInSyncReplicas, 1)
	setDefault(&s.Retention, 30*day)
	setDefault(&s.DeadLetterRetention, 30*day)
	setDefault(&s.MaxRecordBytes, DefaultMaxRecordBytes)
	setDefault(&s.MinCompactionLag, time.Minute)
	setDefault(&s.MaxCompactionLag, 6*time.Hour)
	setDefault(&s.TombstoneRetention, 3*day)
	return s
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (s Settings) validate() error {
	var faults []error
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Errorf("topic settings: "+format, args...))
		}
	}
	fault(s.Partitions < 1, "%d partitions", s.Partitions)
	fault(s.ReplicationFactor < 1, "replication factor %d", s.ReplicationFactor)
	fault(s.MinInSyncReplicas < 1 || s.MinInSyncReplicas > int(s.ReplicationFactor),
		"min.insync.replicas %d is not in 1..%d, the replication factor", s.MinInSyncReplicas, s.ReplicationFactor)
	fault(s.Retention < time.Hour, "a retention of %s loses what a stopped consumer has not read", s.Retention)
	fault(s.DeadLetterRetention < MinDeadLetterRetention,
		"DLQs are kept %s, the least is %s", s.DeadLetterRetention, MinDeadLetterRetention)
	fault(s.MaxRecordBytes < 1024, "max record of %d bytes", s.MaxRecordBytes)
	fault(s.MinCompactionLag < 0 || s.MaxCompactionLag <= s.MinCompactionLag,
		"the compaction lag of %s..%s is empty", s.MinCompactionLag, s.MaxCompactionLag)
	fault(s.TombstoneRetention < time.Hour, "tombstones are kept %s, less than a rebuild may take", s.TombstoneRetention)
	return errors.Join(faults...)
}

// entries gives the explicit configuration of a topic of this kind. Nothing that matters is left to the
// broker's defaults, which differ from broker to broker.
func (s Settings) entries(kind Kind) map[string]string {
	entries := map[string]string{
		"min.insync.replicas":            strconv.Itoa(s.MinInSyncReplicas),
		"max.message.bytes":              strconv.Itoa(s.maxBytes(kind)),
		"retention.bytes":                forever,
		"unclean.leader.election.enable": "false",
		"cleanup.policy":                 "delete",
		"retention.ms":                   milliseconds(s.retention(kind)),
	}
	if kind == StateTopic {
		entries["cleanup.policy"] = "compact"
		entries["retention.ms"] = forever
		entries["min.compaction.lag.ms"] = milliseconds(s.MinCompactionLag)
		entries["max.compaction.lag.ms"] = milliseconds(s.MaxCompactionLag)
		entries["delete.retention.ms"] = milliseconds(s.TombstoneRetention)
		// The active segment is never compacted, so it is rolled early.
		entries["segment.ms"] = milliseconds(s.MaxCompactionLag)
		entries["segment.bytes"] = strconv.Itoa(64 << 20)
		entries["min.cleanable.dirty.ratio"] = "0.1"
	}
	return entries
}

func (s Settings) retention(kind Kind) time.Duration {
	if kind.parks() {
		return s.DeadLetterRetention
	}
	return s.Retention
}

func (s Settings) maxBytes(kind Kind) int {
	if kind.parks() {
		return s.MaxRecordBytes + parkingHeadroom
	}
	return s.MaxRecordBytes
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
