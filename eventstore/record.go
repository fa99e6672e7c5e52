package eventstore

import "time"

// Metadata says where an event came from. It holds no personal data and no secret.
type Metadata struct {
	CorrelationID string `json:"correlationId,omitempty"` // one per conversation, from the partner's call on
	CausationID   string `json:"causationId,omitempty"`   // id of the event or request that led to this one
	Actor         string `json:"actor,omitempty"`         // partner id, operator or role
	TraceParent   string `json:"traceparent,omitempty"`   // W3C trace context
}

// Record is an event as it is stored and published.
type Record struct {
	Position   int64 // order in the shard; 0 until committed
	Shard      int
	Stream     Stream
	Version    int64 // order in the stream, from 1
	ID         string
	Type       string // "order.placed"
	Schema     int
	Data       []byte // JSON
	Meta       Metadata
	RecordedAt time.Time
}

// StateRecord is a stream's state as it is stored and published.
type StateRecord struct {
	Stream   Stream
	Version  int64
	Position int64 // of the last event that it includes
	Owner    string
	State    []byte // JSON; nil for a stream that was deleted
}

// Snapshot is a loaded state. The zero value is a stream without events.
type Snapshot struct {
	Version  int64
	Position int64
	State    []byte
}

// Deadline is a durable timer: at Due the process manager Saga is told that Name was reached for Key.
// A deadline with the same Saga, Key and Name replaces the one before it.
type Deadline struct {
	Saga string
	Key  string
	Name string
	Due  time.Time
	Meta Metadata
}

// ID identifies the deadline; scheduling it again replaces it.
func (d Deadline) ID() string { return d.Saga + "/" + d.Key + "/" + d.Name }
