package deadletters_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"andes/adapters/kafka"
	"andes/adapters/postgres"
	"andes/deadletters"
	"andes/eventstore"
	"andes/test/kafkatest"
)

var orderTrials = []trial{
	{"what is parked behind a letter follows it in order", behindFollows},
	{"a letter behind one that stays is refused", heldIsRefused},
	{"a run that is begun again takes what is behind letters that were sent before", takesStranded},
	{"a run takes nothing that is behind letters that it is not about", leavesStranded},
	{"a head that came back goes before those behind it", headGoesFirst},
	{"a running consumer learns that a letter was let go", learnsOfDiscard},
	{"order holds while keys fail, live events come and two operators replay", orderHoldsInTheStorm},
	{"what is parked behind during a run is released", followsUp},
}

func behindFollows(t *testing.T, w *world) {
	w.consume()
	events := w.stored("a", 4)
	letters := []letter{{record: events[0]}}
	for _, record := range events[1:] {
		letters = append(letters, letter{record: record, class: deadletters.Behind})
	}
	refs := w.park(letters...)
	progress := w.mustRun(replay(deadletters.Filter{Letters: refs[:1]}))
	if progress.Sent != 4 || progress.Released != 3 {
		t.Errorf("%+v", progress)
	}
	kafkatest.Eventually(t, "all handled", func() bool { return len(w.done()) == 4 })
	if got := w.versions("a"); !slices.Equal(got, []int64{1, 2, 3, 4}) {
		t.Errorf("handled in the order %v", got)
	}
}

func heldIsRefused(t *testing.T, w *world) {
	w.consume()
	events := w.stored("a", 2)
	refs := w.park(letter{record: events[0]}, letter{record: events[1]})
	progress := w.mustRun(replay(deadletters.Filter{Letters: refs[1:]}))
	if progress.Sent != 0 || len(progress.Left) != 1 || progress.Left[0].Why != deadletters.WhyHeld || progress.Left[0].Example != refs[1] {
		t.Errorf("%+v", progress)
	}
}

// interrupt begins a run slowly and leaves it when the first letter is sent.
func (w *world) interrupt(job deadletters.Job) deadletters.Progress {
	w.t.Helper()
	job.Consumer, job.Actor, job.Rate = consumer, w.actor, 1
	progress, err := w.desk.Advance(w.t.Context(), job)
	if err != nil || progress.Cursor == "" || progress.Sent == 0 {
		w.t.Fatalf("%+v, %v", progress, err)
	}
	return progress
}

// takesStranded interrupts a run that is filtered by an error when it has sent the first letter of some keys: what is behind
// those has another error. Whoever asks again, with the same words, has it.
func takesStranded(t *testing.T, w *world) {
	w.consume()
	var heads, behind []letter
	for k := range 8 {
		events := w.stored(fmt.Sprintf("key-%d", k), 3)
		heads = append(heads, letter{record: events[0]})
		for _, record := range events[1:] {
			behind = append(behind, letter{record: record, class: deadletters.Behind, extra: map[string]string{"andes_error": "an earlier record of its key waits"}})
		}
	}
	w.park(append(heads, behind...)...)
	for name, filter := range map[string]deadletters.Filter{"error": {Error: "refused by"}, "class and partner": {Class: deadletters.Permanent, Partner: "acme"}} {
		first := w.interrupt(replay(filter))
		if first.Planned == first.Sent {
			t.Fatalf("%s: %+v", name, first)
		}
	}
	again := replay(deadletters.Filter{Error: "refused by"})
	w.desk = w.newService(t, postgres.Settlements{DB: w.store.DB})
	last := w.mustRun(again)
	if left := w.list(deadletters.Filter{}); len(left) != 0 {
		t.Errorf("%v are outstanding after %+v", left, last)
	}
	kafkatest.Eventually(t, "all handled", func() bool { return len(w.done()) == 24 })
	for k := range 8 {
		if got := w.versions(fmt.Sprintf("key-%d", k)); !slices.Equal(got, []int64{1, 2, 3}) {
			t.Errorf("key %d was handled in the order %v", k, got)
		}
	}
}

// leavesStranded has letters behind one with another error, and behind one that was let go.
func leavesStranded(t *testing.T, w *world) {
	w.consume()
	a, b := w.stored("a", 3), w.stored("b", 2)
	other := map[string]string{"andes_error": "no such article"}
	refs := w.park(letter{record: a[0]}, letter{record: a[1], extra: other}, letter{record: b[0]})
	w.mustRun(replay(deadletters.Filter{Letters: refs[:1]}))
	w.mustRun(replay(deadletters.Filter{Letters: refs[1:2]}))
	w.mustRun(deadletters.Job{Action: deadletters.Discarded, Filter: deadletters.Filter{Letters: refs[2:]}, Reason: "r"})
	behind := map[string]string{"andes_error": "an earlier record of its key waits"}
	last := w.park(letter{record: a[2], class: deadletters.Behind, extra: behind}, letter{record: b[1], class: deadletters.Behind, extra: behind})
	if progress := w.mustRun(replay(deadletters.Filter{Error: "refused by"})); progress.Sent != 0 {
		t.Errorf("%+v", progress)
	}
	if progress := w.mustRun(replay(deadletters.Filter{Error: "no such article"})); progress.Sent != 1 {
		t.Errorf("%+v", progress)
	}
	if left := w.list(deadletters.Filter{}); !slices.Equal(left, []string{last[1].String()}) {
		t.Errorf("%v are outstanding", left)
	}
}

// headGoesFirst has the letters of a key in the wrong order in the DLQ, as after a replay that failed.
func headGoesFirst(t *testing.T, w *world) {
	w.consume()
	events := w.stored("a", 3)
	var messages []letter
	for _, record := range events {
		messages = append(messages, letter{record: record, class: deadletters.Behind})
	}
	messages[0].class = deadletters.Permanent
	first, second, third := w.message(messages[0]), w.message(messages[1]), w.message(messages[2])
	w.env.Produce(t, second)
	w.env.Produce(t, third)
	w.env.Produce(t, first)
	if progress := w.mustRun(replay(deadletters.Filter{})); progress.Sent != 3 {
		t.Errorf("%+v", progress)
	}
	kafkatest.Eventually(t, "all handled", func() bool { return len(w.done()) == 3 })
	if got := w.versions("a"); !slices.Equal(got, []int64{1, 2, 3}) {
		t.Errorf("handled in the order %v", got)
	}
}

// followsUp lets the real consumer park: one event fails, those after it are parked behind it.
func followsUp(t *testing.T, w *world) {
	events := w.stored("a", 3)
	w.fail(events[0], eventstore.MarkPermanent(errors.New("refused")))
	w.consume()
	for _, record := range events {
		w.env.Produce(t, kafka.EncodeRecord(w.topic(), record))
	}
	kafkatest.Eventually(t, "all are parked", func() bool { return len(w.list(deadletters.Filter{})) == 3 })
	if behind := w.list(deadletters.Filter{Class: deadletters.Behind}); len(behind) != 2 {
		t.Errorf("%v are behind", behind)
	}
	w.fail(events[0], nil)
	progress := w.mustRun(replay(deadletters.Filter{Class: deadletters.Permanent}))
	if progress.Sent != 3 || progress.Released != 2 {
		t.Errorf("%+v", progress)
	}
	kafkatest.Eventually(t, "all handled", func() bool { return slices.Equal(w.versions("a"), []int64{1, 2, 3}) })
	if left := w.list(deadletters.Filter{}); len(left) != 0 {
		t.Errorf("%v are outstanding", left)
	}
}

// learnsOfDiscard lets the first of a key go while the consumer that knows it as outstanding runs.
func learnsOfDiscard(t *testing.T, w *world) {
	events := w.stored("a", 4)
	w.fail(events[0], eventstore.MarkPermanent(errors.New("refused")))
	w.consume()
	for _, record := range events[:2] {
		w.env.Produce(t, kafka.EncodeRecord(w.topic(), record))
	}
	kafkatest.Eventually(t, "both are parked", func() bool { return len(w.list(deadletters.Filter{})) == 2 })
	progress := w.mustRun(deadletters.Job{Action: deadletters.Discarded, Filter: deadletters.Filter{Class: deadletters.Permanent}, Reason: "done by hand"})
	if progress.Sent != 1 {
		t.Fatalf("%+v", progress)
	}
	w.env.Produce(t, kafka.EncodeRecord(w.topic(), events[2])) // behind the second, which is outstanding still
	kafkatest.Eventually(t, "the third is behind the second", func() bool { return len(w.list(deadletters.Filter{Class: deadletters.Behind})) == 2 })
	if progress := w.mustRun(replay(deadletters.Filter{})); progress.Sent != 2 {
		t.Errorf("%+v", progress)
	}
	w.env.Produce(t, kafka.EncodeRecord(w.topic(), events[3])) // nothing is outstanding any more
	kafkatest.Eventually(t, "all but the first are handled", func() bool { return slices.Equal(w.versions("a"), []int64{2, 3, 4}) })
	if left := w.list(deadletters.Filter{}); len(left) != 0 {
		t.Errorf("%v are outstanding", left)
	}
}

// orderHoldsInTheStorm has every third key fail at its first event until it is mended, while two operators
// replay and further events of all keys come.
func orderHoldsInTheStorm(t *testing.T, w *world) {
	const keys, each = 12, 8
	byKey := map[string][]eventstore.Record{}
	for k := range keys {
		key := fmt.Sprintf("key-%02d", k)
		byKey[key] = w.stored(key, each)
		if k%3 == 0 {
			w.fail(byKey[key][0], eventstore.MarkPermanent(errors.New("refused")))
		}
	}
	w.consume()
	live := func(from, until int) {
		for version := from; version < until; version++ {
			for _, records := range byKey {
				w.env.Produce(t, kafka.EncodeRecord(w.topic(), records[version]))
			}
		}
	}
	live(0, 3)
	kafkatest.Eventually(t, "failed keys are parked", func() bool { return len(w.list(deadletters.Filter{})) == keys/3*3 })
	for _, records := range byKey {
		w.fail(records[0], nil)
	}
	var operators sync.WaitGroup
	for range 2 {
		desk := w.newService(t, postgres.Settlements{DB: w.store.DB})
		operators.Go(func() {
			for range 3 {
				if _, err := w.run(desk, replay(deadletters.Filter{})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	live(3, each)
	operators.Wait()
	for rounds := 0; len(w.list(deadletters.Filter{})) > 0; rounds++ {
		if w.mustRun(replay(deadletters.Filter{})); rounds > 10 {
			t.Fatalf("%v are outstanding", w.list(deadletters.Filter{}))
		}
	}
	kafkatest.Eventually(t, "everything is handled", func() bool { return len(w.done()) >= keys*each })
	for key := range byKey {
		if got := w.versions(key); !slices.Equal(got, []int64{1, 2, 3, 4, 5, 6, 7, 8}) {
			t.Errorf("%s was handled as %v", key, got)
		}
	}
}
