package eventstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"andes/eventstore"
	"andes/test/memtest"
)

func outcome(t *testing.T, batch *eventstore.Batch, i int) eventstore.Outcome {
	t.Helper()
	got, err := batch.Outcome(i, 0)
	if err != nil {
		t.Fatalf("request %d: %v", i, err)
	}
	return got
}

func refusedWith(t *testing.T, batch *eventstore.Batch, i int, code eventstore.Code) {
	t.Helper()
	if _, err := batch.Outcome(i, 0); eventstore.CodeOf(err) != code {
		t.Fatalf("request %d: %v, want %s", i, err, code)
	}
}

func TestCommandsOfABatchSeeThoseBeforeThem(t *testing.T) {
	d := newDesk(t)
	batch := d.batch(requests(
		deposit{key: "a", amount: -1},
		deposit{key: "a", amount: 5},
		deposit{key: "a", amount: -3},
		deposit{key: "a", amount: -3},
		deposit{key: "a", amount: -2},
	)...)
	writes := d.decide(t, batch)

	refusedWith(t, batch, 0, codeTooLow)
	refusedWith(t, batch, 3, codeTooLow)
	for i, balance := range map[int]int64{1: 5, 2: 2, 4: 0} {
		if got := outcome(t, batch, i).Result; got != balance {
			t.Errorf("request %d: balance %v, want %d", i, got, balance)
		}
	}
	for i, record := range writes.Events {
		if record.Version != int64(i+1) || !record.RecordedAt.Equal(memtest.Start) {
			t.Errorf("event %d has version %d at %s", i, record.Version, record.RecordedAt)
		}
	}
	if len(writes.Events) != 4 || len(writes.States) != 1 || writes.States[0].Expected != 0 || writes.States[0].LastEvent != 4 {
		t.Errorf("%d events, states %+v", len(writes.Events), writes.States)
	}
	if got := outcome(t, batch, 4).Position; got != 4 {
		t.Errorf("position %d, want that of the command's last event", got)
	}
}

func TestARefusedCommandLeavesNothing(t *testing.T) {
	failures := map[string]func(u *eventstore.Unit) (any, error){
		"a refusal":      func(*eventstore.Unit) (any, error) { return nil, eventstore.Refuse(codeTooLow, "no") },
		"an error":       func(*eventstore.Unit) (any, error) { return nil, errBug },
		"a panic":        func(*eventstore.Unit) (any, error) { panic("a bug") },
		"no event":       func(u *eventstore.Unit) (any, error) { return accounts.Append(u, "a", "text"), nil },
		"a stream of no": func(u *eventstore.Unit) (any, error) { return accounts.Append(u, "", moved{}), nil },
		"a huge event": func(u *eventstore.Unit) (any, error) {
			return accounts.Append(u, "a", moved{Note: strings.Repeat("x", eventstore.MaxEventBytes)}), nil
		},
	}
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.decide(t, d.batch(requests(deposit{key: "a", amount: 5}, deposit{key: "a", amount: 1})...))
			before, _ := d.account(t, "a")
			batch := d.batch(requests(
				does{what: func(u *eventstore.Unit) (any, error) {
					accounts.Append(u, "a", moved{Amount: 100}, moved{Amount: 200})
					accounts.Append(u, "new", opened{})
					u.Schedule(eventstore.Deadline{Saga: "s", Key: "a", Name: "n"})
					return fail(u)
				}},
				deposit{key: "a", amount: 2},
			)...)
			writes := d.decide(t, batch)

			if _, err := batch.Outcome(0, 0); err == nil {
				t.Fatal("the command did not fail")
			}
			after, version := d.account(t, "a")
			if after.Balance != before.Balance+2 || version != 4 || fmt.Sprint(after.Recent) != "[5 1 2]" {
				t.Errorf("state %+v at version %d", after, version)
			}
			if len(writes.Events) != 1 || len(writes.States) != 1 || len(writes.Deadlines) != 0 {
				t.Errorf("writes %+v", writes)
			}
		})
	}
}

func TestAHugeEventIsRefusedAndNotAFault(t *testing.T) {
	d := newDesk(t)
	batch := d.batch(requests(does{what: func(u *eventstore.Unit) (any, error) {
		accounts.Append(u, "a", moved{Note: strings.Repeat("x", eventstore.MaxEventBytes)})
		return nil, nil
	}})...)
	d.decide(t, batch)
	refusedWith(t, batch, 0, eventstore.CodeEventTooLarge)
}

func TestOneKeyInABatchWorksOnce(t *testing.T) {
	d := newDesk(t)
	batch := d.batch(
		keyed("k", "body", deposit{key: "a", amount: 1}),
		keyed("k", "body", deposit{key: "a", amount: 1}),
		keyed("k", "other body", deposit{key: "a", amount: 1}),
		keyed("l", "body", deposit{key: "a", amount: -9}),
	)
	if keys := batch.Keys(); len(keys) != 2 {
		t.Fatalf("keys %v", keys)
	}
	d.decide(t, batch)
	first := outcome(t, batch, 0)
	refusedWith(t, batch, 1, eventstore.CodeRequestInProgress)
	refusedWith(t, batch, 2, eventstore.CodeRequestInProgress)
	refusedWith(t, batch, 3, codeTooLow)

	again := d.batch(
		keyed("k", "body", deposit{key: "a", amount: 1}),
		keyed("k", "other body", deposit{key: "a", amount: 1}),
		keyed("l", "body", deposit{key: "a", amount: -9}),
	)
	if writes := d.decide(t, again); !writes.Empty() {
		t.Errorf("a repetition wrote %+v", writes)
	}
	if got := outcome(t, again, 0); !got.Replayed || string(got.Answer.Body) != string(first.Answer.Body) {
		t.Errorf("replayed %+v, want %+v", got, first)
	}
	refusedWith(t, again, 1, eventstore.CodeIdempotencyKeyReused)
	if got := outcome(t, again, 2); !got.Replayed || got.Answer.Status != 202 {
		t.Errorf("the refusal was not replayed: %+v", got)
	}
	if state, _ := d.account(t, "a"); state.Balance != 1 {
		t.Errorf("balance %d", state.Balance)
	}
}

func TestAFaultLeavesTheKeyFree(t *testing.T) {
	d := newDesk(t)
	failing := does{what: func(*eventstore.Unit) (any, error) { return nil, errBug }}
	d.decide(t, d.batch(keyed("k", "body", failing)))
	batch := d.batch(keyed("k", "body", deposit{key: "a", amount: 1}))
	d.decide(t, batch)
	if got := outcome(t, batch, 0); got.Replayed {
		t.Errorf("the fault was kept: %+v", got)
	}
}

func TestAKeyThatAnotherProcessHoldsIsInProgress(t *testing.T) {
	d := newDesk(t)
	batch := d.batch(keyed("k", "body", deposit{key: "a", amount: 1}))
	batch.SupplyHeld(eventstore.IdempotencyKey{Scope: "partner", Key: "k"})
	if writes := d.decide(t, batch); !writes.Empty() {
		t.Errorf("wrote %+v", writes)
	}
	refusedWith(t, batch, 0, eventstore.CodeRequestInProgress)
}

// What a command makes of a state that can't be read is no answer to keep for a day.
func TestABrokenStateIsAFaultWhateverTheCommandSays(t *testing.T) {
	d := newDesk(t)
	d.states[accounts.Stream("a")] = eventstore.Snapshot{Version: 3, State: []byte(`{"balance":"many"}`)}
	batch := d.batch(keyed("k", "body", deposit{key: "a", amount: -1}), keyed("l", "body", deposit{key: "b", amount: 1}))
	d.decide(t, batch)
	if _, err := batch.Outcome(0, 0); err == nil || eventstore.CodeOf(err) != "" {
		t.Errorf("error %v", err)
	}
	if _, kept := d.answers[eventstore.IdempotencyKey{Scope: "partner", Key: "k"}]; kept {
		t.Error("the answer was kept")
	}
	outcome(t, batch, 1)
}

func TestStreamsThatTurnUpCostARoundEach(t *testing.T) {
	hop := func(hops int) does {
		return does{what: func(u *eventstore.Unit) (any, error) {
			for i := range hops {
				accounts.Load(u, fmt.Sprint("hop", i))
				if !u.Complete() {
					return nil, nil
				}
			}
			return hops, nil
		}}
	}
	d := newDesk(t)
	ctx := t.Context()
	if got, err := d.Execute(ctx, eventstore.Request{Command: hop(eventstore.MaxRounds - 1)}); err != nil || got.Result != eventstore.MaxRounds-1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := d.Execute(ctx, eventstore.Request{Command: hop(eventstore.MaxRounds)}); err == nil {
		t.Error("a command may ask for ever")
	}
}

func TestPrefetchLoadsManyStreamsInOneRound(t *testing.T) {
	const streams = 50
	d := newDesk(t)
	rounds := 0
	batch := d.batch(requests(does{what: func(u *eventstore.Unit) (any, error) {
		rounds++
		all := make([]eventstore.Stream, streams)
		for i := range all {
			all[i] = accounts.Stream(fmt.Sprint(i))
		}
		u.Prefetch(all...)
		if !u.Complete() {
			return nil, nil
		}
		for _, stream := range all {
			accounts.Append(u, stream.Key, moved{Amount: 1})
		}
		return nil, nil
	}})...)
	writes := d.decide(t, batch)
	if rounds != 2 || d.loads != streams || len(writes.Events) != streams {
		t.Errorf("%d rounds, %d loads, %d events", rounds, d.loads, len(writes.Events))
	}
}

// expect appends to an account that it takes to be at a version.
func expect(key string, version int64, state account) does {
	return does{what: func(u *eventstore.Unit) (any, error) {
		accounts.Expect(u, key, version, state)
		return accounts.Append(u, key, moved{Amount: 1}).Balance, nil
	}}
}

func TestWhatTheCallerKnowsIsNotLoaded(t *testing.T) {
	d := newDesk(t)
	batch := d.batch(requests(expect("a", 0, account{}), expect("a", 1, account{}), deposit{key: "a", amount: 1, unnamed: true})...)
	writes := d.decide(t, batch)
	if d.loads != 0 || len(writes.Events) != 3 || writes.States[0].Expected != 0 || writes.States[0].Version != 3 {
		t.Errorf("%d loads, writes %+v", d.loads, writes)
	}
	known, version := d.account(t, "a")
	batch = d.batch(requests(expect("a", version, known))...)
	d.decide(t, batch)
	if got := outcome(t, batch, 0).Result; got != int64(4) || d.loads != 0 {
		t.Errorf("balance %v after %d loads", got, d.loads)
	}
}

func TestAWrongExpectationFailsAlone(t *testing.T) {
	for name, version := range map[string]int64{"of a new stream": 0, "of an older version": 1, "of a later version": 7} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.decide(t, d.batch(requests(deposit{key: "a", amount: 5})...))
			batch := d.batch(requests(deposit{key: "b", amount: 2}, expect("a", version, account{}), deposit{key: "a", amount: 1, unnamed: true})...)
			d.decide(t, batch)
			if _, err := batch.Outcome(1, 0); !errors.Is(err, eventstore.ErrVersion) {
				t.Errorf("error %v", err)
			}
			if got := outcome(t, batch, 2).Result; got != int64(6) {
				t.Errorf("the command behind saw %v", got)
			}
			if got := outcome(t, batch, 0).Result; got != int64(2) {
				t.Errorf("the command before got %v", got)
			}
		})
	}
}

// An assumption counts for others only once the commit will check it.
func TestAnAssumptionThatWritesNothingMisleadsNobody(t *testing.T) {
	idle := func(result error) does {
		return does{what: func(u *eventstore.Unit) (any, error) {
			accounts.Expect(u, "a", 0, account{})
			return nil, result
		}}
	}
	for name, first := range map[string]does{
		"refused":  idle(eventstore.Refuse(codeTooLow, "no")),
		"accepted": idle(nil),
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.decide(t, d.batch(requests(deposit{key: "a", amount: 5})...))
			reader := does{what: func(u *eventstore.Unit) (any, error) {
				state, _ := accounts.Load(u, "a")
				return state.Balance, nil
			}}
			batch := d.batch(requests(first, reader)...)
			d.decide(t, batch)
			if got := outcome(t, batch, 1).Result; got != int64(5) {
				t.Errorf("the command behind saw %v", got)
			}
		})
	}
}

func TestAStreamThatOneCommandAsksForIsNotAssumedByTheNext(t *testing.T) {
	d := newDesk(t)
	batch := d.batch(requests(deposit{key: "a", amount: 5, unnamed: true}, expect("a", 0, account{}))...)
	d.decide(t, batch)
	if got := outcome(t, batch, 0).Result; got != int64(5) {
		t.Errorf("the first command was lost: %v", got)
	}
	if _, err := batch.Outcome(1, 0); !errors.Is(err, eventstore.ErrVersion) {
		t.Errorf("error %v", err)
	}
}

func TestTheLastWordOnADeadlineCounts(t *testing.T) {
	at := func(name string, in time.Duration) eventstore.Deadline {
		return eventstore.Deadline{Saga: "s", Key: "k", Name: name, Due: memtest.Start.Add(in)}
	}
	timing := func(what func(u *eventstore.Unit)) does {
		return does{what: func(u *eventstore.Unit) (any, error) { what(u); return nil, nil }}
	}
	d := newDesk(t)
	batch := d.batch(requests(
		timing(func(u *eventstore.Unit) {
			u.Schedule(at("moved", time.Hour))
			u.Schedule(at("cancelled", time.Hour))
			u.CancelDeadline(at("set again", 0))
			u.Schedule(at("set again", time.Hour))
		}),
		timing(func(u *eventstore.Unit) {
			u.Schedule(at("moved", 2*time.Hour))
			u.CancelDeadline(at("cancelled", 0))
		}),
		does{what: func(u *eventstore.Unit) (any, error) {
			u.CancelDeadline(at("moved", 0))
			return nil, errBug
		}},
	)...)
	writes := d.decide(t, batch)
	if len(writes.Deadlines) != 2 || writes.Deadlines[0] != at("moved", 2*time.Hour) || writes.Deadlines[1] != at("set again", time.Hour) {
		t.Errorf("deadlines %+v", writes.Deadlines)
	}
	if len(writes.Cancelled) != 1 || writes.Cancelled[0] != at("cancelled", 0).ID() {
		t.Errorf("cancelled %v", writes.Cancelled)
	}
}

func TestADeadlineKeepsTheRequestsMetadata(t *testing.T) {
	d := newDesk(t)
	meta := eventstore.Metadata{CorrelationID: "c-1", Actor: "acme"}
	own := eventstore.Metadata{CorrelationID: "c-2"}
	writes := d.decide(t, d.batch(eventstore.Request{Meta: meta, Command: does{what: func(u *eventstore.Unit) (any, error) {
		u.Schedule(eventstore.Deadline{Saga: "s", Key: "k", Name: "a"})
		u.Schedule(eventstore.Deadline{Saga: "s", Key: "k", Name: "b", Meta: own})
		accounts.Append(u, "k", opened{})
		return u.Meta(), nil
	}}}))
	if writes.Deadlines[0].Meta != meta || writes.Deadlines[1].Meta != own || writes.Events[0].Meta != meta {
		t.Errorf("deadlines %+v, event %+v", writes.Deadlines, writes.Events[0].Meta)
	}
}
