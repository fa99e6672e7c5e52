package deadletters_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/IBM/sarama"
	"github.com/google/uuid"

	"andes/adapters/kafka"
	"andes/adapters/postgres"
	"andes/deadletters"
	"andes/eventstore"
	"andes/test/kafkatest"
)

var badTrials = []trial{
	{"an unknown consumer, topic, class and letter are told", unknownIsTold},
	{"a run needs a filter, and a consumer that runs", runsAreAdmitted},
	{"foreign records are shown, kept, and can be discarded", foreignRecords},
	{"a letter that can't be read or restored stays", staysWhatCantBeSent},
	{"a DLQ that retention emptied is told", retentionEmpties},
	{"settlements of a DLQ that was made anew do not count", madeAnew},
	{"letters that are named and done with are told", settledIsTold},
	{"KAFKA-10 of bad and fixable letters the fixable ones are done once, and the bad ones come back a bounded number of times", badAndFixable},
}

func unknownIsTold(t *testing.T, w *world) {
	_, err := w.desk.List(t.Context(), deadletters.Query{Consumer: "nobody"})
	refusedWith(t, err, deadletters.CodeConsumerUnknown, "nobody", consumer)
	_, err = w.desk.Audit(t.Context(), deadletters.AuditQuery{Subject: "nobody"})
	refusedWith(t, err, deadletters.CodeConsumerUnknown, "nobody", consumer)
	if none, err := w.desk.Audit(t.Context(), deadletters.AuditQuery{Subject: consumer}); err != nil || len(none) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
	_, err = w.desk.List(t.Context(), deadletters.Query{Consumer: consumer, Filter: deadletters.Filter{Topic: "elsewhere"}})
	refusedWith(t, err, deadletters.CodeTopicUnknown, "elsewhere", w.topic())
	_, err = w.desk.List(t.Context(), deadletters.Query{Consumer: consumer, Filter: deadletters.Filter{Class: "odd"}})
	refusedWith(t, err, deadletters.CodeFilterInvalid, "odd", "permanent")
	_, err = w.desk.List(t.Context(), deadletters.Query{Consumer: consumer, Cursor: "??"})
	refusedWith(t, err, deadletters.CodeCursorInvalid)
	for _, ref := range []deadletters.Ref{{Consumer: consumer, Offset: 99}, {Consumer: consumer, Partition: 99}} {
		_, err = w.desk.Show(t.Context(), ref)
		refusedWith(t, err, deadletters.CodeLetterUnknown, ref.String())
	}
	_, err = w.run(w.desk, deadletters.Job{Action: deadletters.Replayed, All: true, Cursor: "eyJydW4iOiIifQ"})
	refusedWith(t, err, deadletters.CodeCursorInvalid)
}

func settledIsTold(t *testing.T, w *world) {
	w.consume()
	events := w.stored("a", 2)
	refs := w.park(letter{record: events[0]})
	named := deadletters.Filter{Letters: refs}
	w.mustRun(replay(named))
	for _, job := range []deadletters.Job{replay(named), {Action: deadletters.Discarded, Filter: named, Reason: "r"}} {
		_, err := w.run(w.desk, job)
		refusedWith(t, err, deadletters.CodeLetterSettled, refs[0].String(), deadletters.Replayed, w.actor)
	}
	unknown := deadletters.Ref{Consumer: consumer, Partition: refs[0].Partition, Offset: 99}
	_, err := w.run(w.desk, replay(deadletters.Filter{Letters: []deadletters.Ref{unknown}}))
	refusedWith(t, err, deadletters.CodeLetterUnknown, unknown.String())
	both := append(refs, w.park(letter{record: events[1]})...)
	progress := w.mustRun(replay(deadletters.Filter{Letters: both}))
	if progress.Sent != 1 || len(progress.Left) != 1 || progress.Left[0].Why != deadletters.WhySettled || progress.Left[0].Example != refs[0] {
		t.Errorf("%+v", progress)
	}
}

func runsAreAdmitted(t *testing.T, w *world) {
	w.park(letter{record: w.stored("a", 1)[0]})
	_, err := w.run(w.desk, deadletters.Job{Action: deadletters.Replayed})
	refusedWith(t, err, deadletters.CodeFilterMissing, "--all")
	_, err = w.run(w.desk, replay(deadletters.Filter{}))
	refusedWith(t, err, deadletters.CodeNotRunning, "no instance", "--force")
	if left := w.list(deadletters.Filter{}); len(left) != 1 {
		t.Errorf("%v are outstanding", left)
	}
	job := replay(deadletters.Filter{})
	job.Force = true
	progress := w.mustRun(job)
	if progress.Sent != 1 || progress.Note == "" {
		t.Errorf("%+v", progress)
	}
	w.consume()
	kafkatest.Eventually(t, "handled when it runs", func() bool { return len(w.done()) == 1 })
}

func foreignRecords(t *testing.T, w *world) {
	w.consume()
	topic := w.env.Topics.DLQ(consumer)
	w.env.Produce(t,
		&sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder("k"), Value: sarama.StringEncoder("hello zz-mark@example.test")},
		&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(`{"email":"zz-mark@example.test","age":4242424242}`)},
		&sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(bytes.Repeat([]byte("x"), 1_000_000))},
		&sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder("tomb")},
		&sarama.ProducerMessage{Topic: topic, Key: sarama.ByteEncoder{0xff, 0xfe, 0}, Value: sarama.ByteEncoder{0xff, 0xfe}},
		&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(strings.Repeat("[", 10_000))},
	)
	ours := w.park(letter{record: w.stored("a", 1)[0]})
	page, err := w.desk.List(t.Context(), deadletters.Query{Consumer: consumer, Payload: true})
	if err != nil || len(page.Items) != 7 {
		t.Fatalf("%d letters, %v", len(page.Items), err)
	}
	text, err := json.Marshal(page)
	if err != nil || strings.Contains(string(text), "zz-mark") || strings.Contains(string(text), "4242424242") {
		t.Errorf("%v: %s", err, text)
	}
	foreign := 0
	for _, summary := range page.Items {
		if summary.Foreign != "" {
			foreign++
			ref, _ := deadletters.ParseRef(summary.Letter)
			if _, err := w.desk.Show(t.Context(), ref); err != nil {
				t.Errorf("%s: %v", summary.Letter, err)
			}
			_, err := w.desk.Edit(t.Context(), deadletters.Correction{Letter: ref, Payload: []byte(`{}`), Reason: "r", Actor: w.actor})
			refusedWith(t, err, deadletters.CodeLetterForeign)
		}
	}
	progress := w.mustRun(replay(deadletters.Filter{}))
	if foreign != 6 || progress.Sent != 1 || len(progress.Left) != 1 || progress.Left[0].Count != 6 || progress.Left[0].Why != deadletters.WhyForeign {
		t.Errorf("%d foreign, %+v", foreign, progress)
	}
	kafkatest.Eventually(t, "ours is handled", func() bool { return len(w.done()) == 1 })
	if progress := w.mustRun(deadletters.Job{Action: deadletters.Discarded, All: true, Reason: "not ours"}); progress.Sent != 6 {
		t.Errorf("%+v", progress)
	}
	if left := w.list(deadletters.Filter{}); len(left) != 0 {
		t.Errorf("%v are outstanding besides %v", left, ours)
	}
}

func staysWhatCantBeSent(t *testing.T, w *world) {
	w.consume()
	a, b, c := w.stored("a", 2), w.stored("b", 1), w.stored("c", 1)
	a[0].ID = uuid.NewString() // an event that the store does not have
	b[0].Data = []byte(`{"lines":"many"}`)
	refs := w.park(letter{record: a[0]}, letter{record: a[1], class: deadletters.Behind}, letter{record: b[0]}, letter{record: c[0]})
	progress := w.mustRun(replay(deadletters.Filter{}))
	why := map[deadletters.Why]deadletters.Ref{}
	for _, left := range progress.Left {
		why[left.Why] = left.Example
	}
	if progress.Sent != 1 || why[deadletters.WhyUnrestorable] != refs[0] || why[deadletters.WhyHeld] != refs[1] || why[deadletters.WhyUndecodable] != refs[2] {
		t.Errorf("%+v", progress)
	}
	if left := w.list(deadletters.Filter{}); len(left) != 3 {
		t.Errorf("%v are outstanding", left)
	}
}

func retentionEmpties(t *testing.T, w *world) {
	w.consume()
	w.parkMany(6, 1)
	job := replay(deadletters.Filter{})
	job.Consumer, job.Actor, job.Rate = consumer, w.actor, 1
	first, err := w.desk.Advance(t.Context(), job)
	if err != nil || first.Cursor == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	ends := map[int32]int64{}
	for _, message := range w.env.ReadAll(t, w.env.Topics.DLQ(consumer)) {
		ends[message.Partition] = message.Offset + 1
	}
	if err := w.env.Admin(t).DeleteRecords(w.env.Topics.DLQ(consumer), ends); err != nil {
		t.Fatal(err)
	}
	job.Rate, job.Cursor = 0, first.Cursor
	last, err := w.run(w.desk, job)
	if err != nil || last.Sent != first.Sent || len(last.Left) != 1 || last.Left[0].Why != deadletters.WhyGone || last.Left[0].Count != 6-first.Sent {
		t.Errorf("%+v, %v", last, err)
	}
	if page, err := w.desk.List(t.Context(), deadletters.Query{Consumer: consumer}); err != nil || len(page.Items) != 0 {
		t.Errorf("%+v, %v", page, err)
	}
	queues, err := w.desk.Stats(t.Context(), consumer)
	if err != nil || queues[0].Depth != 0 || queues[0].Settled != 0 {
		t.Errorf("%+v, %v", queues, err)
	}
}

func madeAnew(t *testing.T, w *world) {
	w.parkMany(6, 2)
	if progress := w.mustRun(deadletters.Job{Action: deadletters.Discarded, All: true, Reason: "a test"}); progress.Sent != 12 {
		t.Fatalf("%+v", progress)
	}
	topic := w.env.Topics.DLQ(consumer)
	if err := w.env.Admin(t).DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
	kafkatest.Eventually(t, "the topic is made anew", func() bool {
		provision := kafka.Provision{Cluster: w.env.Cluster, Topics: w.env.Topics.All(w.registry, consumer), Settings: kafka.Settings{Partitions: 2}}
		if provision.Ensure(t.Context()) != nil {
			return false
		}
		bounds, err := w.service.Log.Bounds(t.Context(), consumer)
		return err == nil && len(bounds) == 2 && bounds[0].End+bounds[1].End == 0
	})
	w.consume()
	w.park(letter{record: w.stored("new", 1)[0]})
	if progress := w.mustRun(replay(deadletters.Filter{})); progress.Sent != 1 {
		t.Errorf("%+v", progress)
	}
	kafkatest.Eventually(t, "handled", func() bool { return len(w.done()) == 1 })
}

// badAndFixable: a delivery counter that is lost lets a bad letter circle without end.
func badAndFixable(t *testing.T, w *world) {
	const each = 10
	w.consume()
	var letters []letter
	for i := range 2 * each {
		record := w.stored(fmt.Sprint("k", i), 1)[0]
		if i < each {
			w.fail(record, eventstore.MarkPermanent(errors.New("always wrong")))
		}
		letters = append(letters, letter{record: record})
	}
	w.park(letters...)
	returned := func(want int) {
		t.Helper()
		kafkatest.Eventually(t, fmt.Sprintf("the bad ones are back for time %d", want), func() bool {
			page, err := w.desk.List(t.Context(), deadletters.Query{Consumer: consumer, Limit: 100})
			if err != nil || len(page.Items) != each {
				return false
			}
			return !slices.ContainsFunc(page.Items, func(s deadletters.Summary) bool { return s.Replays != want })
		})
	}
	var both sync.WaitGroup // at the same time, from two processes
	for range 2 {
		desk := w.newService(t, postgres.Settlements{DB: w.store.DB})
		both.Go(func() {
			if _, err := w.run(desk, replay(deadletters.Filter{})); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	returned(1)
	slow := replay(deadletters.Filter{})
	slow.Consumer, slow.Actor, slow.Rate = consumer, w.actor, 2
	if half, err := w.desk.Advance(t.Context(), slow); err != nil || half.Sent == 0 || half.Sent == each {
		t.Fatalf("it was to be interrupted half-way: %+v, %v", half, err)
	}
	for range 2 * deadletters.DefaultMaxReplays { // what was sent is back, once more than the rest
		w.mustRun(replay(deadletters.Filter{}))
	}
	returned(deadletters.DefaultMaxReplays)
	last := w.mustRun(replay(deadletters.Filter{}))
	if last.Sent != 0 || len(last.Left) != 1 || last.Left[0].Why != deadletters.WhyReturned || last.Left[0].Count != each {
		t.Errorf("%+v", last)
	}
	if handled := w.done(); len(handled) != each {
		t.Errorf("%d were handled, want each of the fixable ones once", len(handled))
	}
}
