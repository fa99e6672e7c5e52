package kafka

import (
	"strconv"
	"strings"

	"github.com/IBM/sarama"

	"andes/deadletters"
	"andes/eventstore"
)

// letterOf reads a record of a consumer's DLQ.
func letterOf(consumer string, message *sarama.ConsumerMessage) *deadletters.Letter {
	l := &deadletters.Letter{
		Ref:      deadletters.Ref{Consumer: consumer, Partition: message.Partition, Offset: message.Offset},
		ParkedAt: message.Timestamp, Key: message.Key, Value: message.Value, Size: len(message.Value),
		Headers: make([]deadletters.Header, 0, len(message.Headers)),
	}
	for _, header := range message.Headers {
		name, value := string(header.Key), string(header.Value)
		l.Headers = append(l.Headers, deadletters.Header{Name: name, Value: value})
		readLetter(l, name, value)
	}
	j, ours := readJourney(message)
	if !ours {
		l.Foreign = "it does not say where it comes from: its headers are not ours"
		return l
	}
	l.Origin = deadletters.Origin{Topic: j.topic, Partition: j.partition, Offset: j.offset, Timestamp: j.at}
	l.Class, l.Attempt, l.FirstFailure, l.Run = j.class, j.attempt, j.firstFailure, j.replayRun
	if j.failures != "" {
		l.Failures = strings.Split(j.failures, "\n")
	}
	if replays, err := strconv.Atoi(j.replays); err == nil && replays > 0 {
		l.Replays = replays
	}
	return l
}

// readLetter takes what a letter tells of itself from one of its headers.
func readLetter(l *deadletters.Letter, name, value string) {
	switch name {
	case headerError:
		l.Error = value
	case headerRedacted:
		l.Redacted = strings.Split(value, ",")
	case headerID:
		l.EventID = value
	case headerType:
		l.EventType = value
	case headerSchemaVersion:
		if schema, err := strconv.Atoi(value); err == nil && schema > 0 {
			l.Schema = schema
		}
	case headerCorrelationID:
		l.Correlation = value
	case headerActor:
		l.Actor = value
	}
}

// Event implements deadletters.Log.
func (l *DeadLetterLog) Event(letter *deadletters.Letter, value []byte) (eventstore.Record, error) {
	return DecodeRecord(&sarama.ConsumerMessage{Key: letter.Key, Value: value, Headers: recordHeaders(letter.Headers)})
}

func recordHeaders(headers []deadletters.Header) []*sarama.RecordHeader {
	list := make([]*sarama.RecordHeader, len(headers))
	for i, header := range headers {
		list[i] = &sarama.RecordHeader{Key: []byte(header.Name), Value: []byte(header.Value)}
	}
	return list
}

// ofTheDLQ are headers that a letter has only while it is in the DLQ, or that are replaced when it leaves.
func ofTheDLQ(name string) bool {
	switch name {
	case headerRedacted, headerReplays, headerReplayRun, headerDiscard:
		return true
	}
	return strings.HasPrefix(name, kipHeaderPrefix)
}

// returned gives a letter as a record of the replay topic: partition, key and headers stay, so that the
// consumer knows the record again.
func returned(topic string, r deadletters.Return) *sarama.ProducerMessage {
	headers := newHeaders(len(r.Letter.Headers) + 3)
	for _, header := range r.Letter.Headers {
		if !ofTheDLQ(header.Name) {
			headers.list = append(headers.list, sarama.RecordHeader{Key: []byte(header.Name), Value: []byte(header.Value)})
		}
	}
	headers.addInt(headerReplays, int64(r.Replays))
	headers.add(headerReplayRun, r.Run)
	if r.Discard {
		headers.add(headerDiscard, "true")
	}
	message := &sarama.ProducerMessage{Topic: topic, Partition: r.Letter.Origin.Partition, Headers: headers.list}
	if r.Letter.Key != nil {
		message.Key = sarama.ByteEncoder(r.Letter.Key)
	}
	if r.Value != nil && !r.Discard {
		message.Value = sarama.ByteEncoder(r.Value)
	}
	return message
}
