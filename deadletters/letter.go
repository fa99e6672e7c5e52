package deadletters

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Classes of letters, as their header tells them.
const (
	Permanent   = "permanent"
	Transient   = "transient"
	Undecodable = "undecodable"
	Behind      = "behind" // it did not fail itself: it was parked behind one of its key
)

// Classes lists the classes.
var Classes = []string{Permanent, Transient, Undecodable, Behind}

// Ref names a letter: its place in the DLQ of its consumer.
type Ref struct {
	Consumer  string `json:"consumer" example:"oms"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

func (r Ref) String() string { return fmt.Sprintf("%s/%d/%d", r.Consumer, r.Partition, r.Offset) }

// ParseRef is the inverse of String.
func ParseRef(text string) (Ref, error) {
	parts := strings.Split(text, "/")
	if len(parts) == 3 && parts[0] != "" {
		partition, wrongPartition := strconv.ParseInt(parts[1], 10, 32)
		offset, wrongOffset := strconv.ParseInt(parts[2], 10, 64)
		if wrongPartition == nil && wrongOffset == nil && partition >= 0 && offset >= 0 {
			return Ref{Consumer: parts[0], Partition: int32(partition), Offset: offset}, nil
		}
	}
	return Ref{}, fmt.Errorf("%q is no letter: consumer/partition/offset is expected, as `andes dlq list` prints it", text)
}

// Header is a header of a record.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Origin is where a record was read first.
type Origin struct {
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Timestamp time.Time `json:"timestamp"`
}

// Place names the record for good, wherever it is parked.
func (o Origin) Place() Place { return Place{o.Topic, o.Partition, o.Offset} }

// Place is a record's place in Kafka.
type Place struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Letter is a record in a DLQ.
type Letter struct {
	Ref
	ParkedAt time.Time
	Key      []byte
	Value    []byte   // nil: a tombstone, or not needed
	Size     int      // of the value
	Headers  []Header // all, in their order

	// What our own headers say. They are empty in a foreign record.
	Origin       Origin
	Class        string
	Error        string
	Attempt      int
	FirstFailure time.Time
	Redacted     []string // JSON pointers of what was taken out of the value
	Replays      int      // how often an operator has sent it back
	Run          string   // that sent it back last
	Failures     []string // the history, oldest first
	Foreign      string   // why it is none of ours; "": it is

	EventID     string
	EventType   string
	Schema      int
	Correlation string
	Actor       string
}

// Header gives the last value of a header.
func (l *Letter) Header(name string) (string, bool) {
	for _, header := range slices.Backward(l.Headers) {
		if header.Name == name {
			return header.Value, true
		}
	}
	return "", false
}

// line is what the order of letters is kept within: an origin topic and a key.
func (l *Letter) line() string { return l.Origin.Topic + "\x00" + string(l.Key) }
