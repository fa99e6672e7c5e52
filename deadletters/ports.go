package deadletters

import (
	"context"
	"time"

	"andes/eventstore"
)

// Consumer is what has to be known of a consumer of events to work on its DLQ.
type Consumer struct {
	Name    string
	Topics  []string // that it reads: the origins of its letters
	Ordered bool     // it needs order per key
	Replays bool     // it reads <name>.replay
}

// Bounds are the ends of a DLQ's partition: it holds First to End-1, less what is deleted.
type Bounds struct {
	Partition  int32
	First, End int64
}

// Return is a letter on its way back to its consumer.
type Return struct {
	Letter  *Letter
	Value   []byte
	Replays int
	Run     string
	Discard bool // it only tells the consumer that the letter is let go
	Sent    bool // it is there already: a run that died did not get to say so
}

// ErrLogUnavailable says that the Log can't be reached. It is an eventstore.ErrUnavailable, which would name another
// culprit.
var ErrLogUnavailable error = logUnavailable{}

type logUnavailable struct{}

func (logUnavailable) Error() string { return "Kafka is unavailable" }

// Is implements what errors.Is asks for.
func (logUnavailable) Is(target error) bool { return target == eventstore.ErrUnavailable }

// Log reads DLQs and sends letters back.
type Log interface {
	// Bounds lists the partitions of the consumer's DLQ in order; none: there is no such topic.
	Bounds(ctx context.Context, consumer string) ([]Bounds, error)
	// ParkedSince gives how many letters were parked at or after the moment.
	ParkedSince(ctx context.Context, consumer string, moment time.Time) (int64, error)
	// Scan hands over the letters of a partition with from <= offset < until until each says false. It
	// ends early where retention took the letters away.
	Scan(ctx context.Context, consumer string, partition int32, from, until int64, each func(*Letter) bool) error
	// Fetch gives the letters that are still there, in the order of the offsets given.
	Fetch(ctx context.Context, consumer string, partition int32, offsets []int64) ([]*Letter, error)
	// Event gives the letter, with another value, as the event that it is.
	Event(letter *Letter, value []byte) (eventstore.Record, error)
	// Send puts the letters into the consumer's replay topic, each partition in the order given, and returns
	// when every one is acknowledged or failed. Its errors are by letter; nil: all went well.
	Send(ctx context.Context, consumer string, letters []Return) []error
	// Sent gives the origins of the letters, read from a partition, that the runs have sent to the replay topic since
	// then, and perhaps some of others.
	Sent(ctx context.Context, consumer string, partition int32, since time.Time, runs []string) (map[Place]bool, error)
	// Members counts the running members of the consumer's group, and tells whether its replay topic is there.
	Members(ctx context.Context, consumer string) (members int, replay bool, err error)
	// Backlog is how many records of the replay topic the consumer has not finished.
	Backlog(ctx context.Context, consumer string) (int64, error)
}

// Settlement is what was done with a letter.
type Settlement struct {
	Action string
	Done   bool
	Free   bool // a claim that was not followed up in time: another run may take it
	Run    string
	Actor  string
	Reason string
	At     time.Time
}

// Claim is a run's mark on letters of a partition.
type Claim struct {
	Consumer  string
	Partition int32
	Run       string
	Action    string
	Actor     string
	Reason    string
}

// Ledger keeps settlements and the audit log.
type Ledger interface {
	// Settlements gives those of a DLQ's partition with from <= offset < until.
	Settlements(ctx context.Context, consumer string, partition int32, from, until int64) (map[int64]Settlement, error)
	// SettledCount counts the letters of a partition from an offset on that are done with.
	SettledCount(ctx context.Context, consumer string, partition int32, from int64) (int64, error)
	// FirstOutstanding gives the first offset from one on that is not done with.
	FirstOutstanding(ctx context.Context, consumer string, partition int32, from int64) (int64, error)
	// LastSettled gives the highest offset of a partition that has a settlement; -1: none has.
	LastSettled(ctx context.Context, consumer string, partition int32) (int64, error)
	// Claim marks letters that nobody has settled or claimed, and gives those that it got.
	Claim(ctx context.Context, claim Claim, offsets []int64) ([]int64, error)
	// Finish makes claims final and writes the audit log, at once. A nil entry is none.
	Finish(ctx context.Context, claim Claim, offsets []int64, entry *AuditEntry) error
	// Note writes the audit log.
	Note(ctx context.Context, entry AuditEntry) error
	// Release gives claims back that led to nothing.
	Release(ctx context.Context, claim Claim, offsets []int64) error
	// Forget drops settlements of letters that retention has deleted.
	Forget(ctx context.Context, consumer string, partition int32, first int64) error
	// Audit lists entries, newest first.
	Audit(ctx context.Context, query AuditQuery) ([]AuditEntry, error)
}

// Events finds what the event store has.
type Events interface {
	// EventsByID gives the events with these ids that are stored, by id. What is no id of an event is not found.
	EventsByID(ctx context.Context, ids []string) (map[string]eventstore.Record, error)
	// Owners gives the partners of orders, by the order's key.
	Owners(ctx context.Context, keys []string) (map[string]string, error)
}

// Rehearsal runs a consumer's handler so that nothing is written and nobody is called.
type Rehearsal interface {
	// Handle gives what the handler would do with the event, and its error. Events that it would have
	// appended to are seen by the calls after it.
	Handle(ctx context.Context, record eventstore.Record) (Effects, error)
	Close()
}

// Effects are what a handler would do.
type Effects struct {
	Events []eventstore.Record
	Calls  []Call
}

// Call is a request to another system that was not made.
type Call struct {
	Method  string `json:"method"`
	URL     string `json:"url"`
	Bytes   int    `json:"bytes,omitzero" doc:"Size of the body, which may hold personal data and is not shown"`
	Assumed string `json:"assumed" doc:"The answer that the handler was given instead"`
}

// AuditEntry is one line of the audit log.
type AuditEntry struct {
	ID      int64     `json:"id"`
	At      time.Time `json:"at"`
	Actor   string    `json:"actor" example:"ops-admin:ada"`
	Action  string    `json:"action" example:"dlq.replay"`
	Subject string    `json:"subject" example:"oms" doc:"The consumer"`
	Run     string    `json:"run,omitempty"`
	Count   int64     `json:"count" doc:"Letters. A run that is longer than a moment tells first how many it selected and, as an action that ends in .end, how many it sent"`
	Reason  string    `json:"reason,omitempty"`
	Detail  string    `json:"detail,omitempty" doc:"What was selected"`
}

// AuditQuery selects audit entries.
type AuditQuery struct {
	Before  int64 // id; 0: the newest
	Limit   int
	Subject string
	Actor   string
	Action  string
	Run     string
}
