package kafka

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"pgregory.net/rapid"

	"andes/eventstore"
)

// consumed gives a message as a consumer sees it.
func consumed(message *sarama.ProducerMessage) *sarama.ConsumerMessage {
	out := &sarama.ConsumerMessage{Topic: message.Topic}
	if message.Key != nil {
		out.Key, _ = message.Key.Encode()
	}
	if message.Value != nil {
		out.Value, _ = message.Value.Encode()
	}
	for _, header := range message.Headers {
		out.Headers = append(out.Headers, &header)
	}
	return out
}

var (
	anyStream = rapid.Custom(func(t *rapid.T) eventstore.Stream {
		return eventstore.Stream{
			Category: rapid.StringMatching(`[a-z][a-z0-9_]{0,12}`).Draw(t, "category"),
			Key:      rapid.StringN(1, 40, -1).Draw(t, "key"),
		}
	})
	anyVersion = rapid.Int64Range(1, 1<<62)
	anyObject  = rapid.SampledFrom([][]byte{[]byte(`{}`), []byte(`{"a":1}`), []byte(`{"text":"ñ \u0000 €"}`)})
)

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		record := eventstore.Record{
			Position: anyVersion.Draw(t, "position"),
			Shard:    rapid.IntRange(0, 1024).Draw(t, "shard"),
			Stream:   anyStream.Draw(t, "stream"),
			Version:  anyVersion.Draw(t, "version"),
			ID:       rapid.StringN(1, 36, -1).Draw(t, "id"),
			Type:     rapid.StringMatching(`[a-z]{1,9}\.[a-z]{1,9}`).Draw(t, "type"),
			Schema:   rapid.IntRange(1, 100).Draw(t, "schema"),
			Data:     anyObject.Draw(t, "data"),
			Meta: eventstore.Metadata{
				CorrelationID: rapid.String().Draw(t, "correlation"),
				CausationID:   rapid.String().Draw(t, "causation"),
				Actor:         rapid.String().Draw(t, "actor"),
				TraceParent:   rapid.String().Draw(t, "traceparent"),
			},
			RecordedAt: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).UTC(),
		}
		message := consumed(EncodeRecord("topic", record))
		if string(message.Key) != record.Stream.Key {
			t.Fatalf("key %q, want the stream's key %q", message.Key, record.Stream.Key)
		}
		decoded, err := DecodeRecord(message)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(decoded, record) {
			t.Fatalf("got  %+v\nwant %+v", decoded, record)
		}
	})
}

func TestStateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state := eventstore.StateRecord{
			Stream:   anyStream.Draw(t, "stream"),
			Version:  anyVersion.Draw(t, "version"),
			Position: anyVersion.Draw(t, "position"),
			Owner:    rapid.String().Draw(t, "owner"),
		}
		if rapid.Bool().Draw(t, "exists") {
			state.State = anyObject.Draw(t, "state")
		}
		message := consumed(EncodeState("topic", state))
		if (message.Value == nil) != (state.State == nil) {
			t.Fatal("only a deleted stream is a tombstone")
		}
		decoded, err := DecodeState(message)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(decoded, state) {
			t.Fatalf("got  %+v\nwant %+v", decoded, state)
		}
	})
}

func TestForeignRecordsAreUndecodableAndNeverPanic(t *testing.T) {
	names := rapid.SampledFrom([]string{headerSpecVersion, headerID, headerType, headerSubject, headerTime,
		headerSchemaVersion, headerStreamVersion, headerGlobalPosition, headerShard, "x"})
	values := rapid.SampledFrom([]string{"", "1.0", "1", "-1", "order/o1", "order", "99999999999999999999", "2026-11-30T12:00:00Z", "\xff"})
	rapid.Check(t, func(t *rapid.T) {
		message := &sarama.ConsumerMessage{
			Key:   rapid.SampledFrom([][]byte{nil, {}, []byte("o1")}).Draw(t, "key"),
			Value: rapid.SampledFrom([][]byte{nil, {}, []byte("null"), []byte("{}"), []byte("[]"), []byte("{"), {0xff, 0xfe}}).Draw(t, "value"),
		}
		for range rapid.IntRange(0, 12).Draw(t, "headers") {
			message.Headers = append(message.Headers, &sarama.RecordHeader{Key: []byte(names.Draw(t, "name")), Value: []byte(values.Draw(t, "value"))})
		}
		if record, err := DecodeRecord(message); err == nil {
			if record.ID == "" || record.Stream.Key != string(message.Key) || record.Schema < 1 {
				t.Fatalf("decoded to %+v", record)
			}
		} else if !errors.Is(err, ErrUndecodable) || eventstore.Classify(err) != eventstore.Permanent {
			t.Fatalf("%v is not a permanent ErrUndecodable", err)
		}
		if _, err := DecodeState(message); err != nil && !errors.Is(err, ErrUndecodable) {
			t.Fatalf("%v is no ErrUndecodable", err)
		}
	})
}
