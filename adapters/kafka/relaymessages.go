package kafka

import (
	"encoding/json"
	"fmt"

	"github.com/IBM/sarama"

	"andes/eventstore"
)

// frameBytes is what a batch of one record costs beside it; max.message.bytes counts it too.
const frameBytes = 128

// messages gives the Kafka records of a batch for the topics that are wanted: each event, again as a
// command where it is one, then the states. What is too large is replaced by its notice.
func (r *Relay) messages(records []eventstore.Record, states []eventstore.StateRecord, wanted func(topic string) bool) []*sarama.ProducerMessage {
	messages := make([]*sarama.ProducerMessage, 0, len(records)+len(states)+len(records)/4)
	notices := wanted(r.cfg.Topics.Parked())
	add := func(message *sarama.ProducerMessage) {
		if size := message.ByteSize(recordFormat) + frameBytes; size > r.cfg.MaxRecordBytes {
			if notices {
				messages = append(messages, r.notice(message, fmt.Sprintf("%d bytes are over the limit of %d", size, r.cfg.MaxRecordBytes)))
			}
		} else if wanted(message.Topic) {
			messages = append(messages, message)
		}
	}
	for _, record := range records {
		if topic := r.cfg.Topics.Events(record.Stream.Category); notices || wanted(topic) {
			add(EncodeRecord(topic, record))
		}
		if declaration, known := r.cfg.Registry.Declaration(record.Type); known && declaration.CommandTopic != "" {
			if topic := r.cfg.Topics.Commands(declaration.CommandTopic); notices || wanted(topic) {
				add(EncodeRecord(topic, record))
			}
		}
	}
	for _, state := range states {
		if topic := r.cfg.Topics.State(state.Stream.Category); notices || wanted(topic) {
			add(EncodeState(topic, state))
		}
	}
	return messages
}

// recordFormat is the version of Kafka's record format that sizes are computed for.
const recordFormat = 2

// Parked tells of a record that could not be published: which one and why, without its payload.
type Parked struct {
	Topic    string `json:"topic"`
	Subject  string `json:"subject"` // the stream
	Type     string `json:"type"`
	ID       string `json:"id"`
	Version  string `json:"streamVersion"`
	Position string `json:"globalPosition"`
	Bytes    int    `json:"bytes"`
	Reason   string `json:"reason"`
}

// notice stands in for a message that can't be published, on the topic of parked records.
func (r *Relay) notice(message *sarama.ProducerMessage, reason string) *sarama.ProducerMessage {
	parked := Parked{Topic: message.Topic, Bytes: message.ByteSize(recordFormat), Reason: reason}
	for _, header := range message.Headers {
		switch string(header.Key) {
		case headerSubject:
			parked.Subject = string(header.Value)
		case headerType:
			parked.Type = string(header.Value)
		case headerID:
			parked.ID = string(header.Value)
		case headerStreamVersion:
			parked.Version = string(header.Value)
		case headerGlobalPosition:
			parked.Position = string(header.Value)
		}
	}
	r.metrics.parked.Inc()
	r.cfg.Logger.Error("relay: record parked", "topic", parked.Topic, "stream", parked.Subject,
		"type", parked.Type, "id", parked.ID, "position", parked.Position, "reason", reason)
	value, err := json.Marshal(parked)
	if err != nil {
		value = []byte("{}") // strings and an int always encode
	}
	return &sarama.ProducerMessage{
		Topic:   r.cfg.Topics.Parked(),
		Key:     message.Key,
		Value:   sarama.ByteEncoder(value),
		Headers: []sarama.RecordHeader{{Key: []byte(headerContentType), Value: []byte(contentType)}},
	}
}
