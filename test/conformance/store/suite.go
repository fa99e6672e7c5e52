package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"andes/eventstore"
)

// Exercise runs the suite. open gives an empty store for each test.
func Exercise(t *testing.T, open func(t *testing.T) eventstore.Store) {
	for name, test := range map[string]func(*testing.T, eventstore.Store){
		"events are read back as they were written":               readsBack,
		"an expected version that is wrong is refused":            checksVersions,
		"a command's streams change together or not at all":       isAtomic,
		"a command that breaks fails alone and leaves nothing":    isolatesFaults,
		"the state is the fold of the stream":                     statesAreFolds,
		"concurrent writers lose nothing and keep one order":      keepsOrder,
		"states are listed by owner in order of their change":     listsByOwner,
		"a repeated key gets the first answer, byte for byte":     replays,
		"a key with another request is refused":                   refusesReusedKey,
		"a refusal is kept, a fault frees the key":                keepsRefusals,
		"parallel requests with one key have one effect":          oneEffectPerKey,
		"deadlines are set, replaced, cancelled and claimed once": claimsDeadlines,
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func run(t *testing.T, store eventstore.Store, command eventstore.Command) eventstore.Outcome {
	t.Helper()
	outcome, err := store.Execute(t.Context(), eventstore.Request{Command: command, Meta: eventstore.Metadata{CorrelationID: "c-1", Actor: "suite"}})
	if err != nil {
		t.Fatalf("%#v: %v", command, err)
	}
	return outcome
}

func readsBack(t *testing.T, store eventstore.Store) {
	outcome := run(t, store, add{key: "a/b c", owner: "o", amount: 7, note: "ñ \"quoted\""})
	records, err := store.ReadStream(t.Context(), tallies.Stream("a/b c"), 0, 10)
	if err != nil || len(records) != 2 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	last := records[1]
	if last.Version != 2 || last.Type != "tally.added" || last.Schema != 2 || last.Meta.CorrelationID != "c-1" || last.Position != outcome.Position {
		t.Errorf("record %+v, outcome %+v", last, outcome)
	}
	var event Added
	if err := json.Unmarshal(last.Data, &event); err != nil || event.Amount != 7 || event.Note != "ñ \"quoted\"" {
		t.Errorf("event %+v, %v", event, err)
	}
	if rest, err := store.ReadStream(t.Context(), tallies.Stream("a/b c"), 1, 10); err != nil || len(rest) != 1 {
		t.Errorf("%d records after version 1, %v", len(rest), err)
	}
}

func checksVersions(t *testing.T, store eventstore.Store) {
	run(t, store, expecting{key: "a"})
	run(t, store, expecting{key: "a", version: 1, state: tally{Sum: 1}})
	for _, wrong := range []int64{0, 1, 5} {
		_, err := store.Execute(t.Context(), eventstore.Request{Command: expecting{key: "a", version: wrong}})
		if !errors.Is(err, eventstore.ErrVersion) {
			t.Errorf("version %d: %v", wrong, err)
		}
	}
	if got := stateOf(t, store, "a"); got.Sum != 2 {
		t.Errorf("state %+v", got)
	}
}

func isAtomic(t *testing.T, store eventstore.Store) {
	run(t, store, add{key: "from", amount: 5})
	run(t, store, move{from: "from", to: "to", amount: 3})
	_, err := store.Execute(t.Context(), eventstore.Request{Command: move{from: "from", to: "to", amount: 3}})
	if eventstore.CodeOf(err) != codeTooLow {
		t.Fatalf("error %v", err)
	}
	if from, to := stateOf(t, store, "from"), stateOf(t, store, "to"); from.Sum != 2 || to.Sum != 3 {
		t.Errorf("from %d, to %d", from.Sum, to.Sum)
	}
}

func isolatesFaults(t *testing.T, store eventstore.Store) {
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { run(t, store, add{key: fmt.Sprint("good", i), amount: 1}) })
		all.Go(func() {
			how := []string{"panic", "huge", "error"}[i%3]
			if _, err := store.Execute(t.Context(), eventstore.Request{Command: broken{how}}); err == nil {
				t.Errorf("%s: no error", how)
			}
		})
	}
	all.Wait()
	if states, err := store.States(t.Context(), []eventstore.Stream{tallies.Stream("never")}); err != nil || len(states) > 0 {
		t.Errorf("a broken command left %v, %v", states, err)
	}
}

func statesAreFolds(t *testing.T, store eventstore.Store) {
	for i := range 10 {
		run(t, store, add{key: "a", owner: "me", amount: int64(i)})
	}
	records, err := store.ReadStream(t.Context(), tallies.Stream("a"), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	folded, err := tallies.Fold(records)
	if err != nil {
		t.Fatal(err)
	}
	if stored := stateOf(t, store, "a"); stored != folded || folded.Sum != 45 {
		t.Errorf("stored %+v, folded %+v", stored, folded)
	}
}

func keepsOrder(t *testing.T, store eventstore.Store) {
	const writers, each = 16, 25
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				run(t, store, add{key: fmt.Sprint("k", (w+i)%5), amount: 1})
			}
		})
	}
	all.Wait()
	records := readAll(t, store)
	versions := map[eventstore.Stream]int64{}
	added, last := 0, int64(0)
	for _, record := range records {
		if record.Position <= last {
			t.Fatalf("position %d after %d", record.Position, last)
		}
		if record.Version != versions[record.Stream]+1 {
			t.Fatalf("%s: version %d after %d", record.Stream, record.Version, versions[record.Stream])
		}
		last, versions[record.Stream] = record.Position, record.Version
		if record.Type == "tally.added" {
			added++
		}
	}
	if added != writers*each {
		t.Errorf("%d of %d events", added, writers*each)
	}
}

func listsByOwner(t *testing.T, store eventstore.Store) {
	for _, key := range []string{"x", "y", "z", "x"} {
		run(t, store, add{key: key, owner: "me", amount: 1})
	}
	run(t, store, add{key: "other", owner: "you", amount: 1})
	first, err := store.StatesOf(t.Context(), "tally", "me", 0, 2)
	if err != nil || len(first) != 2 || first[0].Stream.Key != "y" || first[1].Stream.Key != "z" {
		t.Fatalf("first page %+v, %v", first, err)
	}
	rest, err := store.StatesOf(t.Context(), "tally", "me", first[1].Position, 2)
	if err != nil || len(rest) != 1 || rest[0].Stream.Key != "x" {
		t.Fatalf("second page %+v, %v", rest, err)
	}
}

// keyed makes a request with an idempotency key.
func keyed(key, body string, command eventstore.Command) eventstore.Request {
	return eventstore.Request{Command: command, Idempotency: &eventstore.Idempotency{
		IdempotencyKey: eventstore.IdempotencyKey{Scope: "partner", Key: key},
		Fingerprint:    sha256.Sum256([]byte(body)),
		TTL:            time.Hour,
		Answer: func(result any, err error) (eventstore.Answer, bool) {
			if _, refused := errors.AsType[*eventstore.Refusal](err); err != nil && !refused {
				return eventstore.Answer{Status: 500}, false
			}
			return eventstore.Answer{Status: 202, Body: fmt.Appendf(nil, "%v %v", result, err)}, true
		},
	}}
}

func replays(t *testing.T, store eventstore.Store) {
	first, err := store.Execute(t.Context(), keyed("k", "b", add{key: "a", amount: 1}))
	if err != nil || first.Replayed {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := store.Execute(t.Context(), keyed("k", "b", add{key: "a", amount: 1}))
	if err != nil || !again.Replayed || string(again.Answer.Body) != string(first.Answer.Body) || again.Answer.Status != 202 {
		t.Fatalf("%+v, %v", again, err)
	}
	if got := stateOf(t, store, "a"); got.Sum != 1 {
		t.Errorf("the effect was doubled: %+v", got)
	}
}

func refusesReusedKey(t *testing.T, store eventstore.Store) {
	if _, err := store.Execute(t.Context(), keyed("k", "b", add{key: "a", amount: 1})); err != nil {
		t.Fatal(err)
	}
	_, err := store.Execute(t.Context(), keyed("k", "other", add{key: "a", amount: 1}))
	if eventstore.CodeOf(err) != eventstore.CodeIdempotencyKeyReused {
		t.Fatalf("error %v", err)
	}
}

func keepsRefusals(t *testing.T, store eventstore.Store) {
	refused, err := store.Execute(t.Context(), keyed("refused", "b", add{key: "a", amount: -1}))
	if eventstore.CodeOf(err) != codeTooLow {
		t.Fatalf("error %v", err)
	}
	run(t, store, add{key: "a", amount: 10})
	again, err := store.Execute(t.Context(), keyed("refused", "b", add{key: "a", amount: -1}))
	if err != nil || !again.Replayed || string(again.Answer.Body) != string(refused.Answer.Body) {
		t.Fatalf("the refusal was not kept: %+v, %v", again, err)
	}
	if _, err := store.Execute(t.Context(), keyed("fault", "b", broken{"error"})); !errors.Is(err, errBroken) {
		t.Fatalf("error %v", err)
	}
	if outcome, err := store.Execute(t.Context(), keyed("fault", "b", add{key: "a", amount: 1})); err != nil || outcome.Replayed {
		t.Fatalf("a fault kept the key: %+v, %v", outcome, err)
	}
}

func oneEffectPerKey(t *testing.T, store eventstore.Store) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for range 50 {
		all.Go(func() {
			<-start
			_, err := store.Execute(t.Context(), keyed("k", "b", add{key: "a", amount: 1}))
			if code := eventstore.CodeOf(err); err != nil && code != eventstore.CodeRequestInProgress {
				t.Error(err)
			}
		})
	}
	close(start)
	all.Wait()
	if got := stateOf(t, store, "a"); got.Sum != 1 {
		t.Errorf("the effect happened %d times", got.Sum)
	}
}

func claimsDeadlines(t *testing.T, store eventstore.Store) {
	now := time.Now().UTC().Truncate(time.Second)
	due := func(name string, in time.Duration) eventstore.Deadline {
		return eventstore.Deadline{Saga: "s", Key: "k", Name: name, Due: now.Add(in), Meta: eventstore.Metadata{CorrelationID: "c"}}
	}
	run(t, store, timed{set: []eventstore.Deadline{due("early", -time.Hour), due("late", time.Hour), due("gone", -time.Hour), due("moved", -time.Hour)}})
	run(t, store, timed{set: []eventstore.Deadline{due("moved", time.Hour)}, cancel: []eventstore.Deadline{due("gone", 0)}})
	claimed, err := store.ClaimDue(t.Context(), now, time.Minute, 10)
	if err != nil || len(claimed) != 1 || claimed[0].Name != "early" || claimed[0].Meta.CorrelationID != "c" || !claimed[0].Due.Equal(now.Add(-time.Hour)) {
		t.Fatalf("claimed %+v, %v", claimed, err)
	}
	if again, err := store.ClaimDue(t.Context(), now.Add(time.Second), time.Minute, 10); err != nil || len(again) != 0 {
		t.Fatalf("claimed twice: %+v, %v", again, err)
	}
	if expired, err := store.ClaimDue(t.Context(), now.Add(2*time.Minute), time.Minute, 10); err != nil || len(expired) != 1 {
		t.Fatalf("an expired claim was not handed out again: %+v, %v", expired, err)
	}
}

func stateOf(t *testing.T, store eventstore.Store, key string) tally {
	t.Helper()
	states, err := store.States(t.Context(), []eventstore.Stream{tallies.Stream(key)})
	if err != nil {
		t.Fatal(err)
	}
	state, err := tallies.Decode(states[tallies.Stream(key)].State)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func readAll(t *testing.T, store eventstore.Store) []eventstore.Record {
	t.Helper()
	var all []eventstore.Record
	for {
		after := int64(0)
		if len(all) > 0 {
			after = all[len(all)-1].Position
		}
		page, err := store.ReadAll(context.WithoutCancel(t.Context()), after, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
	}
}
