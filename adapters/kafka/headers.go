package kafka

import (
	"strconv"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

// Headers that say where a parked record came from and why. A record that is parked again has them
// replaced, not repeated. Values are text, times RFC 3339 with milliseconds in UTC.
const (
	headerConsumer        = "andes_consumer"
	headerOriginTopic     = "andes_origin_topic"
	headerOriginPartition = "andes_origin_partition"
	headerOriginOffset    = "andes_origin_offset"
	headerOriginTime      = "andes_origin_timestamp" // the record's own is that of its parking: retention counts from it
	headerAttempt         = "andes_attempt"          // deliveries so far, wherever they were
	headerFirstFailure    = "andes_first_failure"
	headerErrorClass      = "andes_error_class"
	headerError           = "andes_error"
	headerFailures        = "andes_failures" // a line each, newest last: time, attempt, class, text
	headerDue             = "andes_due"
	headerProgress        = "andes_progress" // of the handler, given back to it at the next attempt
	headerRedacted        = "andes_payload_redacted"
	headerReplays         = "andes_replays"    // how often an operator sent it back
	headerReplayRun       = "andes_replay_run" // and the run that did last
	headerDiscard         = "andes_discard"    // true: it is given up, and only ends its being outstanding

	ownHeaderPrefix = "andes_"
)

// Headers of a dead letter by KIP-1191, which tools that know nothing of ours understand.
const (
	headerKIPTopic     = "__dlq.errors.topic"
	headerKIPPartition = "__dlq.errors.partition"
	headerKIPOffset    = "__dlq.errors.offset"
	headerKIPGroup     = "__dlq.errors.group"
	headerKIPCount     = "__dlq.errors.delivery.count"
	headerKIPMessage   = "__dlq.errors.message"

	kipHeaderPrefix = "__dlq.errors."
)

// Classes of parked records, as the header andes_error_class tells them.
const (
	classPermanent   = "permanent"
	classTransient   = "transient"
	classUndecodable = "undecodable"
	classBehind      = "behind" // it did not fail itself: an earlier one of its key is not done with
)

// parkedTime is the layout of times in our headers.
const parkedTime = "2006-01-02T15:04:05.000Z07:00"

// Bounds of what headers tell, in bytes, far below the headroom that retry topics and DLQs have.
const (
	maxErrorText   = 1024
	maxFailureText = 200
	maxFailures    = 20 // lines
	maxProgress    = 16 << 10
)

// ownHeader tells whether a header is about parking and not the record's own.
func ownHeader(key []byte) bool {
	return strings.HasPrefix(string(key), ownHeaderPrefix) || strings.HasPrefix(string(key), kipHeaderPrefix)
}

// origin is where a record was read first: what makes it the same record wherever it is parked.
type origin struct {
	topic     string
	partition int32
	offset    int64
	at        time.Time // tells the records of a topic from those of one that had its name before
}

// journey is what the headers of a parked record tell of its way so far.
type journey struct {
	origin
	attempt      int
	firstFailure time.Time // zero: it has not failed itself
	class        string
	due          time.Time
	progress     string
	failures     string
	replays      string
	replayRun    string
	discard      bool
}

// originOf is the origin of a record that was read where it was first.
func originOf(message *sarama.ConsumerMessage) origin {
	return origin{message.Topic, message.Partition, message.Offset, message.Timestamp}
}

// readJourney reads the headers of a record that was parked. ours is false for a record that came into the
// topic otherwise: it is then its own origin.
func readJourney(message *sarama.ConsumerMessage) (j journey, ours bool) {
	j = journey{origin: originOf(message)}
	found := 0
	for _, header := range message.Headers {
		if !ownHeader(header.Key) {
			continue
		}
		value := string(header.Value)
		switch string(header.Key) {
		case headerOriginTopic:
			j.topic = value
			found++
		case headerOriginPartition:
			partition, err := strconv.ParseInt(value, 10, 32)
			found += one(err == nil && partition >= 0)
			j.partition = int32(partition)
		case headerOriginOffset:
			offset, err := strconv.ParseInt(value, 10, 64)
			found += one(err == nil && offset >= 0)
			j.offset = offset
		case headerOriginTime:
			j.at = timeOf(value)
		default:
			j.set(string(header.Key), value)
		}
	}
	if found != 3 {
		return journey{origin: originOf(message)}, false
	}
	return j, true
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// timeOf reads a time; the zero time stands for none.
func timeOf(text string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

func (j *journey) set(name, value string) {
	switch name {
	case headerAttempt:
		if attempt, err := strconv.Atoi(value); err == nil && attempt >= 0 {
			j.attempt = attempt
		}
	case headerFirstFailure:
		j.firstFailure = timeOf(value)
	case headerErrorClass:
		j.class = value
	case headerDue:
		j.due = timeOf(value)
	case headerProgress:
		j.progress = value
	case headerFailures:
		j.failures = value
	case headerReplays:
		j.replays = value
	case headerReplayRun:
		j.replayRun = value
	case headerDiscard:
		j.discard = value == "true"
	}
}

// withFailure adds a line to the history of failures and keeps the newest ones.
func withFailure(failures string, at time.Time, attempt int, class, text string) string {
	text = strings.Join(strings.Fields(text), " ") // a line
	line := at.UTC().Format(parkedTime) + " " + strconv.Itoa(attempt) + " " + class + " " + boundedText(text, maxFailureText)
	if failures == "" {
		return line
	}
	lines := strings.Split(failures, "\n")
	if surplus := len(lines) + 1 - maxFailures; surplus > 0 {
		lines = lines[surplus:]
	}
	return strings.Join(append(lines, line), "\n")
}

func headerOf(record *sarama.ConsumerMessage, name string) string {
	value := ""
	for _, header := range record.Headers {
		if string(header.Key) == name {
			value = string(header.Value)
		}
	}
	return value
}
