package eventstore_test

import (
	"encoding/json"
	"errors"
	"time"

	"andes/eventstore"
	"andes/test/memtest"
)

// account is a small aggregate for these tests: a balance that never falls below zero.
type account struct {
	Owner   string  `json:"owner"`
	Balance int64   `json:"balance"`
	Recent  []int64 `json:"recent,omitempty"`
	Closed  bool    `json:"closed,omitempty"`
}

type (
	opened struct {
		Owner string `json:"owner"`
		Phone string `json:"phone,omitempty" sensitive:"true"`
	}
	moved struct {
		Amount int64  `json:"amount"`
		Note   string `json:"note,omitempty"`
	}
	closed struct{}
)

var accounts = eventstore.NewAggregate(eventstore.Category[account]{
	Name:      "account",
	Published: true,
	Owner:     func(s *account) string { return s.Owner },
	Deleted:   func(s *account) bool { return s.Closed },
	Events: []eventstore.Definition[account]{
		eventstore.Define("account.opened", func(s *account, e opened) { s.Owner = e.Owner }),
		eventstore.Define("account.moved", func(s *account, e moved) {
			s.Balance += e.Amount
			s.Recent = append(s.Recent[:len(s.Recent):len(s.Recent)], e.Amount)
		}),
		eventstore.Define("account.closed", func(s *account, _ closed) { s.Closed = true }),
	},
})

// The refusals and faults of the commands below.
const codeTooLow eventstore.Code = "TOO_LOW"

var errBug = errors.New("a bug")

// deposit moves an amount in or out; it may name its stream or leave it to be found.
type deposit struct {
	key     string
	amount  int64
	unnamed bool
}

func (c deposit) Needs() []eventstore.Stream {
	if c.unnamed {
		return nil
	}
	return []eventstore.Stream{accounts.Stream(c.key)}
}

func (c deposit) Decide(u *eventstore.Unit) (any, error) {
	state, version := accounts.Load(u, c.key)
	if version == 0 {
		accounts.Append(u, c.key, opened{Owner: "owner of " + c.key})
	}
	if state.Balance+c.amount < 0 {
		return nil, eventstore.Refuse(codeTooLow, "the balance is %d", state.Balance)
	}
	return accounts.Append(u, c.key, moved{Amount: c.amount}).Balance, nil
}

// transfer takes from one account and gives to another, giving first.
type transfer struct {
	from, to string
	amount   int64
}

func (c transfer) Needs() []eventstore.Stream {
	return []eventstore.Stream{accounts.Stream(c.from), accounts.Stream(c.to)}
}

func (c transfer) Decide(u *eventstore.Unit) (any, error) {
	accounts.Append(u, c.to, moved{Amount: c.amount})
	if source, _ := accounts.Load(u, c.from); source.Balance < c.amount {
		return nil, eventstore.Refuse(codeTooLow, "the balance is %d", source.Balance)
	}
	return accounts.Append(u, c.from, moved{Amount: -c.amount}).Balance, nil
}

// does is a command made of a function.
type does struct {
	needs []eventstore.Stream
	what  func(u *eventstore.Unit) (any, error)
}

func (c does) Needs() []eventstore.Stream             { return c.needs }
func (c does) Decide(u *eventstore.Unit) (any, error) { return c.what(u) }

// keyed gives a request an idempotency key. Refusals are kept as answers, faults are not.
func keyed(key, body string, command eventstore.Command) eventstore.Request {
	idempotency := &eventstore.Idempotency{
		IdempotencyKey: eventstore.IdempotencyKey{Scope: "partner", Key: key},
		TTL:            time.Hour,
		Answer: func(result any, err error) (eventstore.Answer, bool) {
			if err != nil && eventstore.CodeOf(err) == "" {
				return eventstore.Answer{Status: 500}, false
			}
			body, _ := json.Marshal([]any{result, eventstore.CodeOf(err)})
			return eventstore.Answer{Status: 202, Body: body}, true
		},
	}
	copy(idempotency.Fingerprint[:], body)
	return eventstore.Request{Command: command, Idempotency: idempotency}
}

// desk decides batches of many requests against a store of states, as an executor does.
type desk struct {
	*memtest.Store
	states  map[eventstore.Stream]eventstore.Snapshot
	answers map[eventstore.IdempotencyKey]eventstore.StoredAnswer
	base    int64
	loads   int // streams loaded by the last batch
}

func newDesk(t memtest.T) *desk {
	return &desk{
		Store:   memtest.Open(t, accounts),
		states:  map[eventstore.Stream]eventstore.Snapshot{},
		answers: map[eventstore.IdempotencyKey]eventstore.StoredAnswer{},
	}
}

func (d *desk) batch(requests ...eventstore.Request) *eventstore.Batch {
	return eventstore.NewBatch(d.Registry, d.Now, d.NewID, requests)
}

// decide runs a batch to its end and keeps what it wrote.
func (d *desk) decide(t memtest.T, batch *eventstore.Batch) eventstore.Writes {
	t.Helper()
	for _, key := range batch.Keys() {
		if kept, found := d.answers[key]; found {
			batch.SupplyAnswer(key, kept)
		}
	}
	d.loads = 0
	for range eventstore.MaxRounds {
		for _, stream := range batch.Needs() {
			d.loads++
			batch.Supply(stream, d.states[stream])
		}
		writes, complete := batch.Decide()
		if !complete {
			continue
		}
		if d.outdated(writes) {
			batch.Distrust()
			continue
		}
		for _, write := range writes.States {
			d.states[write.Stream] = eventstore.Snapshot{Version: write.Version, State: write.State}
		}
		for _, answer := range writes.Answers {
			d.answers[answer.IdempotencyKey] = answer.StoredAnswer
		}
		d.base += int64(len(writes.Events))
		return writes
	}
	t.Fatalf("the batch did not end")
	return eventstore.Writes{}
}

func (d *desk) outdated(writes eventstore.Writes) bool {
	for _, write := range writes.States {
		if d.states[write.Stream].Version != write.Expected {
			return true
		}
	}
	return false
}

func (d *desk) account(t memtest.T, key string) (account, int64) {
	t.Helper()
	held := d.states[accounts.Stream(key)]
	state, err := accounts.Decode(held.State)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return state, held.Version
}

// requests wraps commands.
func requests(commands ...eventstore.Command) []eventstore.Request {
	list := make([]eventstore.Request, len(commands))
	for i, command := range commands {
		list[i] = eventstore.Request{Command: command}
	}
	return list
}
