package kafka

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/IBM/sarama"

	"andes/eventstore"
)

// Headers of a record. CloudEvents 1.0, binary mode; every value is text.
const (
	headerSpecVersion    = "ce_specversion"
	headerID             = "ce_id"
	headerType           = "ce_type"
	headerSource         = "ce_source"
	headerSubject        = "ce_subject"
	headerTime           = "ce_time"
	headerContentType    = "content-type"
	headerCorrelationID  = "correlation_id"
	headerCausationID    = "causation_id"
	headerActor          = "actor"
	headerTraceParent    = "traceparent"
	headerSchemaVersion  = "schema_version"
	headerStreamVersion  = "stream_version"
	headerGlobalPosition = "global_position"
	headerShard          = "shard"
	headerOwner          = "owner"
)

const (
	specVersion = "1.0"
	source      = "andes"
	contentType = "application/json"
	stateSuffix = ".state" // ce_type of a state record: <category>.state
)

// ErrUndecodable marks a Kafka record that is none of ours. It is permanent.
var ErrUndecodable = errors.New("undecodable record")

func undecodable(format string, args ...any) error {
	return eventstore.MarkPermanent(fmt.Errorf("%w: %w", ErrUndecodable, fmt.Errorf(format, args...)))
}

const (
	maxOwnHeaders = 16
	headerText    = 512 // bytes that names and values of a usual record take together
)

// headerList builds headers; an empty value is left out. Their text shares one buffer.
type headerList struct {
	list []sarama.RecordHeader
	text []byte
}

func newHeaders(foreign int) headerList {
	return headerList{list: make([]sarama.RecordHeader, 0, maxOwnHeaders+foreign), text: make([]byte, 0, headerText)}
}

func (h *headerList) add(name string, value ...string) {
	text := h.text
	text = append(text, name...)
	key := text[len(h.text):len(text):len(text)]
	before := len(text)
	for _, part := range value {
		text = append(text, part...)
	}
	h.put(key, text, before)
}

func (h *headerList) addInt(name string, value int64) {
	text := append(h.text, name...)
	key := text[len(h.text):len(text):len(text)]
	before := len(text)
	h.put(key, strconv.AppendInt(text, value, 10), before)
}

func (h *headerList) addTime(name string, at time.Time) {
	text := append(h.text, name...)
	key := text[len(h.text):len(text):len(text)]
	before := len(text)
	h.put(key, at.UTC().AppendFormat(text, time.RFC3339Nano), before)
}

// addParkedTime adds a time with milliseconds; none for the zero time.
func (h *headerList) addParkedTime(name string, at time.Time) {
	if !at.IsZero() {
		h.add(name, at.UTC().Format(parkedTime))
	}
}

// put takes the value from the end of the text.
func (h *headerList) put(key, text []byte, before int) {
	if len(text) == before {
		return
	}
	h.list = append(h.list, sarama.RecordHeader{Key: key, Value: text[before:len(text):len(text)]})
	h.text = text
}

// EncodeRecord gives an event as a record of the topic.
func EncodeRecord(topic string, record eventstore.Record) *sarama.ProducerMessage {
	headers := newHeaders(0)
	headers.add(headerSpecVersion, specVersion)
	headers.add(headerID, record.ID)
	headers.add(headerType, record.Type)
	headers.add(headerSource, source)
	headers.add(headerSubject, record.Stream.Category, "/", record.Stream.Key)
	headers.addTime(headerTime, record.RecordedAt)
	headers.add(headerContentType, contentType)
	headers.add(headerCorrelationID, record.Meta.CorrelationID)
	headers.add(headerCausationID, record.Meta.CausationID)
	headers.add(headerActor, record.Meta.Actor)
	headers.add(headerTraceParent, record.Meta.TraceParent)
	headers.addInt(headerSchemaVersion, int64(record.Schema))
	headers.addInt(headerStreamVersion, record.Version)
	headers.addInt(headerGlobalPosition, record.Position)
	headers.addInt(headerShard, int64(record.Shard))
	return &sarama.ProducerMessage{
		Topic:   topic,
		Key:     sarama.StringEncoder(record.Stream.Key),
		Value:   sarama.ByteEncoder(record.Data),
		Headers: headers.list,
	}
}

// EncodeState gives a state as a record of the topic; the state of a deleted stream is a tombstone,
// which still tells its position.
func EncodeState(topic string, state eventstore.StateRecord) *sarama.ProducerMessage {
	headers := newHeaders(0)
	headers.add(headerSpecVersion, specVersion)
	headers.add(headerID, state.Stream.String()+"@"+strconv.FormatInt(state.Version, 10))
	headers.add(headerType, state.Stream.Category, stateSuffix)
	headers.add(headerSource, source)
	headers.add(headerSubject, state.Stream.Category, "/", state.Stream.Key)
	headers.add(headerContentType, contentType)
	headers.add(headerOwner, state.Owner)
	headers.addInt(headerStreamVersion, state.Version)
	headers.addInt(headerGlobalPosition, state.Position)
	message := &sarama.ProducerMessage{
		Topic:   topic,
		Key:     sarama.StringEncoder(state.Stream.Key),
		Headers: headers.list,
	}
	if state.State != nil {
		message.Value = sarama.ByteEncoder(state.State)
	}
	return message
}

// DecodeRecord is the inverse of EncodeRecord. Its errors are ErrUndecodable.
func DecodeRecord(message *sarama.ConsumerMessage) (eventstore.Record, error) {
	fields, err := readFields(message)
	if err != nil {
		return eventstore.Record{}, err
	}
	record := eventstore.Record{
		Position: fields.position,
		Shard:    int(fields.shard),
		Stream:   fields.stream,
		Version:  fields.version,
		ID:       fields.id,
		Type:     fields.kind,
		Schema:   int(fields.schema),
		Data:     message.Value,
		Meta:     fields.meta,
	}
	if record.ID == "" || record.Type == "" {
		return record, undecodable("%s or %s is missing", headerID, headerType)
	}
	if record.Schema < 1 {
		return record, undecodable("%s is missing", headerSchemaVersion)
	}
	record.RecordedAt, err = time.Parse(time.RFC3339Nano, fields.at)
	if err != nil {
		return record, undecodable("%s is no RFC 3339 time", headerTime)
	}
	record.RecordedAt = record.RecordedAt.UTC()
	if !looksLikeObject(message.Value) {
		return record, undecodable("the value is no JSON object")
	}
	return record, nil
}

// DecodeState is the inverse of EncodeState. Its errors are ErrUndecodable.
func DecodeState(message *sarama.ConsumerMessage) (eventstore.StateRecord, error) {
	fields, err := readFields(message)
	if err != nil {
		return eventstore.StateRecord{}, err
	}
	if message.Value != nil && !looksLikeObject(message.Value) {
		return eventstore.StateRecord{}, undecodable("the value is neither a JSON object nor a tombstone")
	}
	return eventstore.StateRecord{
		Stream:   fields.stream,
		Version:  fields.version,
		Position: fields.position,
		Owner:    fields.owner,
		State:    message.Value,
	}, nil
}

// looksLikeObject is a cheap test; whoever reads the members finds the rest.
func looksLikeObject(value []byte) bool {
	return len(value) >= 2 && value[0] == '{' && value[len(value)-1] == '}'
}

// fields are the headers of a record, parsed.
type fields struct {
	id, kind, subject, at, owner, specVersion string
	stream                                    eventstore.Stream
	meta                                      eventstore.Metadata
	schema, version, position, shard          int64
}

// readFields parses the headers that both kinds of record have in common, and checks that the key is
// the stream's. All texts share one allocation.
func readFields(message *sarama.ConsumerMessage) (fields, error) {
	f := fields{schema: 0, version: -1, position: -1}
	size := 0
	for _, header := range message.Headers {
		size += len(header.Value)
	}
	texts := make([]byte, 0, size)
	for _, header := range message.Headers {
		texts = append(texts, header.Value...)
	}
	all := string(texts)
	for _, header := range message.Headers {
		value := all[:len(header.Value)]
		all = all[len(header.Value):]
		if err := f.set(string(header.Key), value); err != nil {
			return f, err
		}
	}
	if f.specVersion != specVersion {
		return f, undecodable("%s is not %s", headerSpecVersion, specVersion)
	}
	var err error
	if f.stream, err = eventstore.ParseStream(f.subject); err != nil {
		return f, undecodable("%s is no stream", headerSubject)
	}
	if string(message.Key) != f.stream.Key {
		return f, undecodable("the key is not that of the stream")
	}
	if f.version < 0 || f.position < 0 {
		return f, undecodable("%s or %s is missing", headerStreamVersion, headerGlobalPosition)
	}
	return f, nil
}

// set takes one header; of a repeated one the last counts, and unknown ones are others' business.
func (f *fields) set(name, value string) error {
	switch name {
	case headerSpecVersion:
		f.specVersion = value
	case headerID:
		f.id = value
	case headerType:
		f.kind = value
	case headerSubject:
		f.subject = value
	case headerTime:
		f.at = value
	case headerOwner:
		f.owner = value
	case headerCorrelationID:
		f.meta.CorrelationID = value
	case headerCausationID:
		f.meta.CausationID = value
	case headerActor:
		f.meta.Actor = value
	case headerTraceParent:
		f.meta.TraceParent = value
	case headerSchemaVersion:
		return setInt(&f.schema, name, value)
	case headerStreamVersion:
		return setInt(&f.version, name, value)
	case headerGlobalPosition:
		return setInt(&f.position, name, value)
	case headerShard:
		return setInt(&f.shard, name, value)
	}
	return nil
}

func setInt(field *int64, name, value string) error {
	parsed, err := strconv.ParseInt(value, 10, 64)
	if err != nil || parsed < 0 {
		return undecodable("%s is no number", name)
	}
	*field = parsed
	return nil
}
