package eventstore

import "slices"

// Republication is an order to publish a part of the log again, as after the loss of a topic. Events go out with
// the ids and positions that they had, states as they are now. The active relay carries it out beside what is
// new; whoever consumes recognises what it has seen by version or position.
type Republication struct {
	ID         string   `json:"id"`
	After      int64    `json:"after"`                // positions in (After, To]
	To         int64    `json:"to"`                   //
	Categories []string `json:"categories,omitempty"` // of streams; none: all
	Topics     []string `json:"topics,omitempty"`     // kinds of topics; none: all
	Reached    int64    `json:"reached"`              // everything up to it is published again
	Records    int64    `json:"records"`              // that were published so far
	Cancelled  bool     `json:"cancelled,omitempty"`
}

// Kinds of topics.
const (
	RepublishEvents   = "events"
	RepublishCommands = "commands"
	RepublishStates   = "states"
)

// RepublishTopics lists the kinds.
var RepublishTopics = []string{RepublishEvents, RepublishCommands, RepublishStates}

// Open tells whether something of the order is left to do.
func (r Republication) Open() bool { return r.ID != "" && !r.Cancelled && r.Reached < r.To }

// WantsCategory tells whether the order is about streams of a category.
func (r Republication) WantsCategory(name string) bool { return listed(r.Categories, name) }

// WantsTopics tells whether the order is about topics of a kind.
func (r Republication) WantsTopics(kind string) bool { return listed(r.Topics, kind) }

func listed(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }
