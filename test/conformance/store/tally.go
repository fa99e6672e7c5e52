// Package store is the conformance suite of event stores: the memory store and the Postgres store pass
// the same tests.
package store

import (
	"errors"

	"andes/eventstore"
)

// tally is a small aggregate for the suite: a counter with an owner.
type tally struct {
	Owner string `json:"owner"`
	Sum   int64  `json:"sum"`
}

// Opened and Added are its events.
type (
	Opened struct {
		Owner string `json:"owner"`
	}
	Added struct {
		Amount int64  `json:"amount"`
		Note   string `json:"note,omitempty"`
	}
)

var tallies = eventstore.NewAggregate(eventstore.Category[tally]{
	Name:      "tally",
	Published: true,
	Owner:     func(s *tally) string { return s.Owner },
	Events: []eventstore.Definition[tally]{
		eventstore.Define("tally.opened", func(s *tally, e Opened) { s.Owner = e.Owner }),
		eventstore.Define("tally.added", func(s *tally, e Added) { s.Sum += e.Amount },
			eventstore.Upcasts(func(data []byte) ([]byte, error) { return data, nil })),
	},
})

// Registry holds the suite's aggregate. A store under test is opened with it.
func Registry() (*eventstore.Registry, error) { return eventstore.NewRegistry(tallies) }

// codeTooLow refuses a move that would make a tally negative.
const codeTooLow eventstore.Code = "TALLY_TOO_LOW"

// add is a command: it opens the tally if need be and adds an amount.
type add struct {
	key    string
	owner  string
	amount int64
	note   string
}

func (c add) Needs() []eventstore.Stream { return []eventstore.Stream{tallies.Stream(c.key)} }

func (c add) Decide(u *eventstore.Unit) (any, error) {
	state, version := tallies.Load(u, c.key)
	if version == 0 {
		tallies.Append(u, c.key, Opened{Owner: c.owner})
	}
	if state.Sum+c.amount < 0 {
		return nil, eventstore.Refuse(codeTooLow, "the tally has %d", state.Sum)
	}
	return tallies.Append(u, c.key, Added{Amount: c.amount, Note: c.note}).Sum, nil
}

// move takes from one tally and gives to another; it names neither in Needs, so that both are found
// while deciding.
type move struct {
	from, to string
	amount   int64
}

func (c move) Needs() []eventstore.Stream { return nil }

func (c move) Decide(u *eventstore.Unit) (any, error) {
	tallies.Append(u, c.to, Added{Amount: c.amount})
	if source, _ := tallies.Load(u, c.from); source.Sum < c.amount {
		return nil, eventstore.Refuse(codeTooLow, "the tally has %d", source.Sum)
	}
	tallies.Append(u, c.from, Added{Amount: -c.amount})
	return nil, nil
}

// expecting appends to a stream that the caller knows to be at a version.
type expecting struct {
	key     string
	version int64
	state   tally
}

func (c expecting) Needs() []eventstore.Stream { return nil }

func (c expecting) Decide(u *eventstore.Unit) (any, error) {
	tallies.Expect(u, c.key, c.version, c.state)
	return tallies.Append(u, c.key, Added{Amount: 1}).Sum, nil
}

// broken fails in the ways that commands must not.
type broken struct{ how string }

func (c broken) Needs() []eventstore.Stream { return nil }

var errBroken = errors.New("broken")

func (c broken) Decide(u *eventstore.Unit) (any, error) {
	switch c.how {
	case "panic":
		tallies.Append(u, "never", Added{Amount: 1})
		panic("a bug")
	case "huge":
		tallies.Append(u, "never", Added{Note: string(make([]byte, eventstore.MaxEventBytes))})
	case "error":
		tallies.Append(u, "never", Added{Amount: 1})
		return nil, errBroken
	}
	return nil, nil
}

// timed sets and cancels deadlines.
type timed struct {
	set    []eventstore.Deadline
	cancel []eventstore.Deadline
}

func (c timed) Needs() []eventstore.Stream { return nil }

func (c timed) Decide(u *eventstore.Unit) (any, error) {
	for _, deadline := range c.set {
		u.Schedule(deadline)
	}
	for _, deadline := range c.cancel {
		u.CancelDeadline(deadline)
	}
	return nil, nil
}
