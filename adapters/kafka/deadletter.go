package kafka

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/IBM/sarama"

	"andes/eventstore"
)

// Headers that say where a dead letter came from and why. A record that fails again has them replaced,
// not repeated.
const (
	headerConsumer        = "andes_consumer"
	headerOriginTopic     = "andes_origin_topic"
	headerOriginPartition = "andes_origin_partition"
	headerOriginOffset    = "andes_origin_offset"
	headerOriginTime      = "andes_origin_timestamp" // the record's own is that of its parking: retention counts from it
	headerAttempt         = "andes_attempt"
	headerFirstFailure    = "andes_first_failure"
	headerErrorClass      = "andes_error_class"
	headerError           = "andes_error"
	headerDue             = "andes_due"
	headerRedacted        = "andes_payload_redacted"

	ownHeaderPrefix = "andes_"
)

// Classes of failures, as the header andes_error_class tells them.
const (
	classPermanent   = "permanent"
	classTransient   = "transient"
	classUndecodable = "undecodable"
)

// maxErrorText bounds the error's text in the headers, in bytes.
const maxErrorText = 1024

// cause says why a record is given up.
type cause struct {
	consumer     string
	class        string
	err          error
	attempt      int
	firstFailure time.Time
	due          time.Time // when to look at it again: at once, for a DLQ
}

// deadLetters writes records to DLQs. It is safe for concurrent use.
type deadLetters struct {
	cluster        Cluster
	topics         Topics
	registry       *eventstore.Registry // nil: nothing is known to be sensitive
	maxRecordBytes int

	connecting sync.Mutex
	out        sarama.SyncProducer
}

// park writes the record to the consumer's DLQ and returns when the broker has acknowledged it.
func (d *deadLetters) park(ctx context.Context, record *sarama.ConsumerMessage, why cause) error {
	out, err := d.connect()
	if err != nil {
		return fmt.Errorf("write to the DLQ: %w", err)
	}
	message := d.letter(record, why)
	sent := make(chan error, 1)
	go func() {
		_, _, err := out.SendMessage(message)
		sent <- err
	}()
	select {
	case err = <-sent:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("write to the DLQ %s: %w", message.Topic, err)
	}
	return nil
}

func (d *deadLetters) connect() (sarama.SyncProducer, error) {
	d.connecting.Lock()
	defer d.connecting.Unlock()
	if d.out != nil {
		return d.out, nil
	}
	out, err := sarama.NewSyncProducer(d.cluster.Brokers, d.cluster.producerConfig(d.maxRecordBytes+deadLetterHeadroom))
	if err != nil {
		return nil, err
	}
	d.out = out
	return out, nil
}

func (d *deadLetters) close() {
	d.connecting.Lock()
	defer d.connecting.Unlock()
	if d.out != nil {
		_ = d.out.Close() // every message was waited for
		d.out = nil
	}
}

// letter gives the record as it goes to the DLQ: key, value and headers of the original, the sensitive
// values taken out.
func (d *deadLetters) letter(record *sarama.ConsumerMessage, why cause) *sarama.ProducerMessage {
	value, redacted := d.redact(record)
	headers := newHeaders(len(record.Headers))
	for _, header := range record.Headers {
		if !strings.HasPrefix(string(header.Key), ownHeaderPrefix) {
			headers.list = append(headers.list, *header)
		}
	}
	headers.add(headerConsumer, why.consumer)
	headers.add(headerOriginTopic, record.Topic)
	headers.addInt(headerOriginPartition, int64(record.Partition))
	headers.addInt(headerOriginOffset, record.Offset)
	headers.addTime(headerOriginTime, record.Timestamp)
	headers.addInt(headerAttempt, int64(why.attempt))
	headers.addTime(headerFirstFailure, why.firstFailure)
	headers.add(headerErrorClass, why.class)
	headers.add(headerError, boundedText(why.err.Error(), maxErrorText))
	headers.addTime(headerDue, why.due)
	headers.add(headerRedacted, strings.Join(redacted, ","))

	message := &sarama.ProducerMessage{Topic: d.topics.DLQ(why.consumer), Headers: headers.list}
	if record.Key != nil {
		message.Key = sarama.ByteEncoder(record.Key)
	}
	if value != nil {
		message.Value = sarama.ByteEncoder(value)
	}
	return message
}

// redact takes the sensitive values out of an event that is known. What can't be decoded stays as it is.
func (d *deadLetters) redact(record *sarama.ConsumerMessage) (value []byte, pointers []string) {
	if d.registry == nil {
		return record.Value, nil
	}
	declaration, known := d.registry.Declaration(headerOf(record, headerType))
	if !known {
		return record.Value, nil
	}
	value, pointers, err := declaration.Redact(record.Value)
	if err != nil {
		return record.Value, nil
	}
	return value, pointers
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

// boundedText cuts a text to the limit between two runes, and makes it valid UTF-8.
func boundedText(text string, limit int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= limit {
		return text
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + " (" + strconv.Itoa(len(text)-cut) + " bytes more)"
}
