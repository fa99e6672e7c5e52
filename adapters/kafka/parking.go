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

// parking says where a record goes and why.
type parking struct {
	consumer string
	topic    string // a retry topic, replay or the DLQ
	dead     bool   // it is the DLQ
	class    string
	reason   string
	due      time.Time
	journey  journey // so far, this failure included
}

// parker writes records to retry topics and DLQs. It is safe for concurrent use.
type parker struct {
	cluster        Cluster
	topics         Topics
	registry       *eventstore.Registry // nil: nothing is known to be sensitive
	maxRecordBytes int
	settled        Settlements // of the DLQs; nil: nobody settles

	connecting sync.Mutex
	client     sarama.Client
	out        sarama.SyncProducer

	looking sync.Mutex
	looked  map[letterPlace]lookedAt // at the DLQs
	written map[letterPlace]int64    // the last offset that was written to them
}

// detail is how much a parked record tells. Where a record is too large for its topic, our headers are cut
// before its data.
type detail int

const (
	inFull detail = iota
	inBrief
	withoutValue // a redacted value may have grown; the event store has the event
)

// put writes the record and returns its offset when the broker has acknowledged it.
func (p *parker) put(ctx context.Context, record *sarama.ConsumerMessage, why parking) (offset int64, err error) {
	_, out, err := p.connect()
	if err != nil {
		return 0, fmt.Errorf("write to %s: %w", why.topic, err)
	}
	least := inBrief
	if why.dead {
		least = withoutValue
	}
	var partition int32
	for how := inFull; how <= least; how++ {
		partition, offset, err = send(ctx, out, p.letter(record, why, how))
		if !tooLarge(err) {
			break
		}
	}
	if err != nil {
		return 0, fmt.Errorf("write to %s: %w", why.topic, err)
	}
	if why.dead {
		p.wrote(ctx, why.consumer, letterPlace{why.topic, partition}, offset)
	}
	return offset, nil
}

// send waits for the ack for as long as ctx lasts.
func send(ctx context.Context, out sarama.SyncProducer, message *sarama.ProducerMessage) (int32, int64, error) {
	type ack struct {
		partition int32
		offset    int64
		err       error
	}
	acked := make(chan ack, 1)
	go func() {
		partition, offset, err := out.SendMessage(message)
		acked <- ack{partition, offset, err}
	}()
	select {
	case got := <-acked:
		return got.partition, got.offset, got.err
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
}

func (p *parker) connect() (sarama.Client, sarama.SyncProducer, error) {
	p.connecting.Lock()
	defer p.connecting.Unlock()
	if p.out != nil {
		return p.client, p.out, nil
	}
	config := p.cluster.producerConfig(p.maxRecordBytes + parkingHeadroom)
	config.Producer.Partitioner = newSamePartition
	client, err := sarama.NewClient(p.cluster.Brokers, config)
	if err != nil {
		return nil, nil, err
	}
	out, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	p.client, p.out = client, out
	return client, out, nil
}

func (p *parker) close() {
	p.connecting.Lock()
	defer p.connecting.Unlock()
	if p.out != nil {
		_ = p.out.Close() // every message was waited for
		_ = p.client.Close()
		p.client, p.out = nil, nil
	}
}

// samePartition puts a record into the partition that the message names, which is that of its origin. A
// topic with fewer partitions takes it anyway.
type samePartition struct{}

func newSamePartition(string) sarama.Partitioner { return samePartition{} }

// Partition implements sarama.Partitioner.
func (samePartition) Partition(message *sarama.ProducerMessage, partitions int32) (int32, error) {
	if partitions < 1 {
		return 0, sarama.ErrInvalidPartition
	}
	return message.Partition % partitions, nil
}

// RequiresConsistency implements sarama.Partitioner: no other partition will do.
func (samePartition) RequiresConsistency() bool { return true }

// letter gives the record as it is parked: key, value and headers of the original, then ours. On the way to
// a DLQ the sensitive values are taken out.
func (p *parker) letter(record *sarama.ConsumerMessage, why parking, how detail) *sarama.ProducerMessage {
	value, redacted := record.Value, ""
	if why.dead {
		value, redacted = p.redact(record)
	}
	headers := newHeaders(len(record.Headers) + maxParkingHeaders)
	for _, header := range record.Headers {
		if !ownHeader(header.Key) {
			headers.list = append(headers.list, *header)
		}
	}
	headers.addJourney(why, how)
	if redacted != "" {
		headers.add(headerRedacted, boundedText(redacted, maxProgress))
	}
	if why.dead {
		p.addKIP(&headers, why)
	}
	message := &sarama.ProducerMessage{Topic: why.topic, Partition: why.journey.partition, Headers: headers.list}
	if record.Key != nil {
		message.Key = sarama.ByteEncoder(record.Key)
	}
	if value != nil && how < withoutValue {
		message.Value = sarama.ByteEncoder(value)
	}
	return message
}

const maxParkingHeaders = 24

func (h *headerList) addJourney(why parking, how detail) {
	j := why.journey
	h.add(headerConsumer, why.consumer)
	h.add(headerOriginTopic, j.topic)
	h.addInt(headerOriginPartition, int64(j.partition))
	h.addInt(headerOriginOffset, j.offset)
	h.addParkedTime(headerOriginTime, j.at)
	h.addInt(headerAttempt, int64(j.attempt))
	h.addParkedTime(headerFirstFailure, j.firstFailure)
	h.add(headerErrorClass, why.class)
	h.addParkedTime(headerDue, why.due)
	h.add(headerReplays, j.replays)
	h.add(headerReplayRun, j.replayRun)
	if how > inFull {
		h.add(headerError, boundedText(why.reason, maxFailureText))
		return
	}
	h.add(headerError, boundedText(why.reason, maxErrorText))
	h.add(headerFailures, j.failures)
	if len(j.progress) <= maxProgress { // without it the next attempt does all again
		h.add(headerProgress, j.progress)
	}
}

func (p *parker) addKIP(h *headerList, why parking) {
	h.add(headerKIPTopic, why.journey.topic)
	h.addInt(headerKIPPartition, int64(why.journey.partition))
	h.addInt(headerKIPOffset, why.journey.offset)
	h.add(headerKIPGroup, p.topics.Group(why.consumer))
	h.addInt(headerKIPCount, int64(why.journey.attempt))
	h.add(headerKIPMessage, boundedText(why.reason, maxFailureText))
}

// redact takes the sensitive values out of an event that is known, and lists their pointers. What can't be
// decoded stays as it is.
func (p *parker) redact(record *sarama.ConsumerMessage) (value []byte, pointers string) {
	if p.registry == nil {
		return record.Value, ""
	}
	declaration, known := p.registry.Declaration(headerOf(record, headerType))
	if !known {
		return record.Value, ""
	}
	value, replaced, err := declaration.Redact(record.Value)
	if err != nil {
		return record.Value, ""
	}
	return value, strings.Join(replaced, ",")
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
