package eventstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"andes/eventstore"
	"andes/test/memtest"
)

func TestARefusedCommandLeavesNothingInTheStore(t *testing.T) {
	s := memtest.Open(t, accounts)
	s.Do(t, deposit{key: "a", amount: 3})
	s.Refused(t, transfer{from: "a", to: "b", amount: 4}, codeTooLow)
	s.Refused(t, transfer{from: "none", to: "b", amount: 1}, codeTooLow)
	if _, version := memtest.State(t, s, accounts, "b"); version != 0 {
		t.Errorf("b is at version %d", version)
	}
	if _, err := s.Execute(t.Context(), keyed("k", "body", does{what: func(*eventstore.Unit) (any, error) { return nil, errBug }})); !errors.Is(err, errBug) {
		t.Errorf("error %v", err)
	}
	s.CheckFolds(t)
}

func TestACallerThatIsGoneGetsNothingDone(t *testing.T) {
	s := memtest.Open(t, accounts)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Execute(ctx, eventstore.Request{Command: deposit{key: "a", amount: 1}}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if log := s.Log(t); len(log) != 0 {
		t.Errorf("%d records", len(log))
	}
}

func TestAKeptAnswerExpires(t *testing.T) {
	s := memtest.Open(t, accounts)
	execute := func() eventstore.Outcome {
		got, err := s.Execute(t.Context(), keyed("k", "body", deposit{key: "a", amount: 1}))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	execute()
	s.Now = s.Now.Add(time.Hour - time.Nanosecond)
	if !execute().Replayed {
		t.Error("the answer was gone before its time")
	}
	s.Now = s.Now.Add(time.Nanosecond)
	if execute().Replayed {
		t.Error("the answer outlived its time")
	}
}

func TestADeletedStreamKeepsItsVersionAndLosesItsState(t *testing.T) {
	s := memtest.Open(t, accounts)
	s.Do(t, deposit{key: "a", amount: 3})
	s.Do(t, does{what: func(u *eventstore.Unit) (any, error) { return accounts.Append(u, "a", closed{}), nil }})
	states, err := s.States(t.Context(), []eventstore.Stream{accounts.Stream("a")})
	if got := states[accounts.Stream("a")]; err != nil || got.State != nil || got.Version != 3 || got.Owner != "owner of a" {
		t.Errorf("%+v, %v", got, err)
	}
	s.CheckFolds(t)
}

func TestDeadlinesAreClaimedOnceInOrder(t *testing.T) {
	s := memtest.Open(t, accounts)
	at := func(name string, in time.Duration) eventstore.Deadline {
		return eventstore.Deadline{Saga: "s", Key: "k", Name: name, Due: s.Now.Add(in), Meta: eventstore.Metadata{Actor: "a"}}
	}
	third, first, second, later := at("third", 3), at("first", 1), at("second", 2), at("later", time.Minute)
	s.Do(t, does{what: func(u *eventstore.Unit) (any, error) {
		for _, deadline := range []eventstore.Deadline{third, first, later, second} {
			u.Schedule(deadline)
		}
		return nil, nil
	}})
	claim := func(now time.Time, limit int) string {
		due, err := s.ClaimDue(t.Context(), now, time.Second, limit)
		if err != nil {
			t.Fatal(err)
		}
		names := ""
		for _, deadline := range due {
			names += deadline.Name + " "
		}
		return names
	}
	now := s.Now.Add(time.Millisecond)
	if got := claim(s.Now, 10) + claim(now, 2) + claim(now, 2) + claim(now, 2); got != "first second third " {
		t.Errorf("claimed %s", got)
	}
	if got := claim(now.Add(time.Second), 10); got != "first second third " {
		t.Errorf("after the lease: %s", got)
	}
	s.Do(t, does{what: func(u *eventstore.Unit) (any, error) { u.CancelDeadline(first); return nil, nil }})
	if got := claim(now.Add(time.Hour), 10); got != "second third later " {
		t.Errorf("after a cancellation: %s", got)
	}
}

// anyCommand draws a command on a handful of accounts; some are refused, some fail.
func anyCommand() *rapid.Generator[eventstore.Command] {
	key := rapid.SampledFrom([]string{"a", "b", "c"})
	return rapid.Custom(func(t *rapid.T) eventstore.Command {
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0, 1:
			return deposit{key: key.Draw(t, "key"), amount: rapid.Int64Range(-5, 5).Draw(t, "amount"), unnamed: rapid.Bool().Draw(t, "unnamed")}
		case 2:
			return transfer{from: key.Draw(t, "from"), to: key.Draw(t, "to"), amount: rapid.Int64Range(0, 5).Draw(t, "amount")}
		case 3:
			return expect(key.Draw(t, "key"), rapid.SampledFrom([]int64{0, 99}).Draw(t, "version"), account{})
		default:
			failing := key.Draw(t, "key")
			return does{what: func(u *eventstore.Unit) (any, error) {
				accounts.Append(u, failing, moved{Amount: 1000})
				return nil, errBug
			}}
		}
	})
}

func TestTheStateIsAlwaysTheFoldOfItsStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := memtest.Open(t, accounts)
		for _, command := range rapid.SliceOfN(anyCommand(), 1, 30).Draw(t, "commands") {
			_, err := s.Execute(context.Background(), eventstore.Request{Command: command})
			if err != nil && eventstore.CodeOf(err) == "" && !errors.Is(err, errBug) && !errors.Is(err, eventstore.ErrVersion) {
				t.Fatalf("%#v: %v", command, err)
			}
		}
		s.CheckFolds(t)
	})
}

// Sharing a transaction changes nothing for anyone: commands in batches of any size end as they do one
// by one.
func TestABatchDecidesAsIfItsCommandsCameOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		commands := rapid.SliceOfN(anyCommand(), 1, 20).Draw(t, "commands")
		single, batched := newDesk(t), newDesk(t)
		var want, got []string
		for _, command := range commands {
			batch := single.batch(requests(command)...)
			single.decide(t, batch)
			result, err := batch.Outcome(0, 0)
			want = append(want, fmt.Sprint(result.Result, err))
		}
		for rest := commands; len(rest) > 0; {
			size := rapid.IntRange(1, len(rest)).Draw(t, "size")
			batch := batched.batch(requests(rest[:size]...)...)
			batched.decide(t, batch)
			for i := range size {
				result, err := batch.Outcome(i, 0)
				got = append(got, fmt.Sprint(result.Result, err))
			}
			rest = rest[size:]
		}
		for i := range want {
			if want[i] != got[i] {
				t.Fatalf("command %d %#v: %s in a batch, %s alone", i, commands[i], got[i], want[i])
			}
		}
		for stream, alone := range single.states {
			if together := batched.states[stream]; string(together.State) != string(alone.State) || together.Version != alone.Version {
				t.Fatalf("%s: %s in batches, %s alone", stream, together.State, alone.State)
			}
		}
	})
}
