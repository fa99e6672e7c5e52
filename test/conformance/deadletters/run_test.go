package deadletters_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"andes/adapters/postgres"
	"andes/deadletters"
	"andes/eventstore"
	"andes/test/kafkatest"
)

var runTrials = []trial{
	{"a replayed letter reaches its consumer whole", replaysWhole},
	{"a letter that fails again comes back and knows it", comesBack},
	{"a letter that came back too often is refused, unless forced", refusesReturned},
	{"two runs at once send each letter once", twoRunsShare},
	{"a run goes on in another process and sends nothing twice", goesOnElsewhere},
	{"what a killed run has sent is not sent again", killedRun},
	{"a run does not chase what is parked after it began", cutoffHolds},
	{"limit and rate are kept", limitAndRate},
	{"a discarded letter is gone and needs a reason", discards},
	{"an edited letter keeps its id", edits},
	{"a rehearsal tells what a replay would do and does nothing", rehearses},
	{"everything that is done is in the audit log", audits},
	{"a long run is in the audit log when it begins and when it ends", auditsOnce},
}

func replaysWhole(t *testing.T, w *world) {
	w.consume()
	events := w.stored("a", 1)
	refs := w.park(letter{record: events[0]})
	if progress := w.mustRun(replay(deadletters.Filter{Letters: refs})); progress.Sent != 1 || progress.Planned != 1 || len(progress.Left) != 0 || progress.Phase != deadletters.Done {
		t.Errorf("%+v", progress)
	}
	kafkatest.Eventually(t, "handled", func() bool { return len(w.done()) == 1 })
	got := w.done()[0]
	if string(got.Data) != string(events[0].Data) || got.ID != events[0].ID || got.Meta != events[0].Meta || got.Version != events[0].Version {
		t.Errorf("got %+v\nwant %+v", got, events[0])
	}
	if left := w.list(deadletters.Filter{}); len(left) != 0 {
		t.Errorf("%v are outstanding", left)
	}
	if progress := w.mustRun(replay(deadletters.Filter{})); progress.Sent != 0 {
		t.Errorf("replayed twice: %+v", progress)
	}
}

func comesBack(t *testing.T, w *world) {
	w.consume()
	events := w.stored("a", 1)
	w.fail(events[0], eventstore.MarkPermanent(errors.New("still wrong")))
	w.park(letter{record: events[0]})
	if progress := w.mustRun(replay(deadletters.Filter{})); progress.Sent != 1 || progress.Returned != 1 {
		t.Errorf("%+v", progress)
	}
	var page deadletters.Page
	kafkatest.Eventually(t, "the letter is back", func() bool {
		var err error
		page, err = w.desk.List(t.Context(), deadletters.Query{Consumer: consumer})
		return err == nil && len(page.Items) == 1
	})
	if back := page.Items[0]; back.Replays != 1 || back.Origin.Topic != w.topic() || back.Attempt != 5 || back.Error != "still wrong" {
		t.Errorf("%+v", back)
	}
}

func refusesReturned(t *testing.T, w *world) {
	w.consume()
	events := w.stored("a", 2)
	refs := w.park(letter{record: events[0], replays: 5}, letter{record: events[1]})
	progress := w.mustRun(replay(deadletters.Filter{}))
	if progress.Sent != 0 || len(progress.Left) != 2 || progress.Left[0].Why != deadletters.WhyReturned || progress.Left[0].Example != refs[0] || !progress.Left[0].Loops() {
		t.Errorf("%+v", progress)
	}
	job := replay(deadletters.Filter{})
	job.Force = true
	if progress := w.mustRun(job); progress.Sent != 2 {
		t.Errorf("%+v", progress)
	}
	kafkatest.Eventually(t, "handled", func() bool { return slices.Equal(w.versions("a"), []int64{1, 2}) })
}

func (w *world) parkMany(keys, each int) []letter {
	w.t.Helper()
	var letters []letter
	for k := range keys {
		for i, record := range w.stored(string(rune('a'+k%26))+string(rune('a'+k/26)), each) {
			class := deadletters.Permanent
			if i > 0 {
				class = deadletters.Behind
			}
			letters = append(letters, letter{record: record, class: class})
		}
	}
	w.park(letters...)
	return letters
}

func twoRunsShare(t *testing.T, w *world) {
	letters := w.parkMany(50, 10)
	job := replay(deadletters.Filter{})
	job.Force = true // nobody runs: what is sent can be counted
	var runs sync.WaitGroup
	var sent [2]int64
	for i := range sent {
		desk := w.newService(t, postgres.Settlements{DB: w.store.DB})
		runs.Go(func() {
			progress, err := w.run(desk, job)
			if err != nil {
				t.Error(err)
			}
			sent[i] = progress.Sent
		})
	}
	runs.Wait()
	for progress := w.mustRun(job); progress.Sent > 0; progress = w.mustRun(job) {
		sent[0] += progress.Sent // what one left to the other
	}
	w.sentOnce(letters)
	if sent[0]+sent[1] != int64(len(letters)) {
		t.Errorf("%v of %d", sent, len(letters))
	}
}

// sentOnce checks that the replay topic has each letter once.
func (w *world) sentOnce(letters []letter) {
	w.t.Helper()
	counts := map[string]int{}
	for _, message := range w.env.ReadAll(w.t, w.env.Topics.Replay(consumer)) {
		for _, header := range message.Headers {
			if string(header.Key) == "ce_id" {
				counts[string(header.Value)]++
			}
		}
	}
	for _, l := range letters {
		if counts[l.record.ID] != 1 {
			w.t.Errorf("event %s was sent %d times", l.record.ID, counts[l.record.ID])
		}
	}
}

// dying is the ledger of a run that is killed when it has sent its letters and not settled them.
type dying struct{ deadletters.Ledger }

var errKilled = errors.New("killed")

func (dying) Finish(context.Context, deadletters.Claim, []int64, *deadletters.AuditEntry) error {
	return errKilled
}

func killedRun(t *testing.T, w *world) {
	letters := w.parkMany(10, 2)
	job := replay(deadletters.Filter{})
	job.Force = true
	if _, err := w.run(w.newService(t, dying{postgres.Settlements{DB: w.store.DB}}), job); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	if progress := w.mustRun(job); progress.Sent >= int64(len(letters)) {
		t.Errorf("the claims of the run are not respected: %+v", progress)
	}
	later := w.newService(t, postgres.Settlements{DB: w.store.DB, TakeOver: time.Nanosecond})
	if _, err := w.run(later, job); err != nil {
		t.Error(err)
	}
	w.sentOnce(letters)
	if left := w.list(deadletters.Filter{}); len(left) != 0 {
		t.Errorf("%v are outstanding", left)
	}
}

func goesOnElsewhere(t *testing.T, w *world) {
	w.consume()
	w.parkMany(20, 3)
	job := replay(deadletters.Filter{})
	job.Consumer, job.Actor, job.Rate = consumer, w.actor, 8
	first, err := w.desk.Advance(t.Context(), job)
	if err != nil || first.Cursor == "" || first.Sent == 0 || first.Sent == 60 {
		t.Fatalf("%+v, %v", first, err)
	}
	job.Rate, job.Cursor = 0, first.Cursor
	last, err := w.run(w.newService(t, postgres.Settlements{DB: w.store.DB}), job)
	if err != nil || last.Sent != 60 || last.Run != first.Run {
		t.Fatalf("%+v, %v", last, err)
	}
	kafkatest.Eventually(t, "all handled", func() bool { return len(w.done()) >= 60 })
	if len(w.done()) != 60 {
		t.Errorf("%d were handled", len(w.done()))
	}
}

func cutoffHolds(t *testing.T, w *world) {
	w.consume()
	w.parkMany(10, 2)
	job := replay(deadletters.Filter{})
	job.Consumer, job.Actor, job.Rate = consumer, w.actor, 4
	first, err := w.desk.Advance(t.Context(), job)
	if err != nil || first.Cursor == "" {
		t.Fatalf("%+v, %v", first, err)
	}
	late := w.park(letter{record: w.stored("late", 1)[0]})
	job.Rate, job.Cursor = 0, first.Cursor
	last, err := w.run(w.desk, job)
	if err != nil || last.Sent != 20 {
		t.Fatalf("%+v, %v", last, err)
	}
	if left := w.list(deadletters.Filter{}); !slices.Equal(left, []string{late[0].String()}) {
		t.Errorf("%v are outstanding", left)
	}
}

func limitAndRate(t *testing.T, w *world) {
	w.consume()
	w.parkMany(10, 1)
	job := replay(deadletters.Filter{})
	job.Limit, job.Rate = 4, 4
	began := time.Now()
	if progress := w.mustRun(job); progress.Sent != 4 || progress.Planned != 4 {
		t.Errorf("%+v", progress)
	}
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("4 letters at 4/s took %s", took)
	}
	if left := w.list(deadletters.Filter{}); len(left) != 6 {
		t.Errorf("%d are outstanding", len(left))
	}
}

func discards(t *testing.T, w *world) {
	events := w.stored("a", 2)
	refs := w.park(letter{record: events[0]}, letter{record: events[1], class: deadletters.Behind})
	job := deadletters.Job{Action: deadletters.Discarded, Filter: deadletters.Filter{Letters: refs[:1]}}
	_, err := w.run(w.desk, job)
	refusedWith(t, err, deadletters.CodeReasonMissing, "reason")
	job.Reason = "the order was entered by hand"
	if progress := w.mustRun(job); progress.Sent != 1 || len(progress.Left) != 0 || !strings.Contains(progress.Note, "1 are now the first") {
		t.Errorf("%+v", progress)
	}
	detail, err := w.desk.Show(t.Context(), refs[0])
	if err != nil || detail.Settlement == nil {
		t.Fatalf("%+v, %v", detail, err)
	}
	if s := detail.Settlement; s.Action != deadletters.Discarded || s.State != "done" || s.Actor != w.actor || s.Reason != job.Reason {
		t.Errorf("%+v", s)
	}
	w.consume()
	if progress := w.mustRun(replay(deadletters.Filter{})); progress.Sent != 1 {
		t.Errorf("%+v", progress)
	}
	kafkatest.Eventually(t, "the one behind is handled", func() bool { return slices.Equal(w.versions("a"), []int64{2}) })
}

func edits(t *testing.T, w *world) {
	w.consume()
	events := w.stored("a", 2)
	refs := w.park(letter{record: events[0]}, letter{record: events[1], class: deadletters.Behind})
	correction := deadletters.Correction{Letter: refs[0], Payload: []byte(`{"lines":7,"name":"--data_redacted--","token":"--data_redacted--"}`), Actor: w.actor}
	_, err := w.desk.Edit(t.Context(), correction)
	if err == nil {
		t.Error("without a reason")
	}
	correction.Reason = "wrong number of lines"
	for _, payload := range []string{`{"lines":"seven"}`, `{"lines":7`, `not json`, `[1]`, `{"lines":1,"other":"--data_redacted--"}`, `{"kind":"event","json":{"lines":7}}`} {
		wrong := correction
		wrong.Payload = []byte(payload)
		_, err := w.desk.Edit(t.Context(), wrong)
		if eventstore.CodeOf(err) == "" { // the API looks at the form before the service does
			t.Errorf("%s: %v", payload, err)
		}
	}
	second := correction
	second.Letter = refs[1]
	_, err = w.desk.Edit(t.Context(), second)
	refusedWith(t, err, deadletters.CodeWouldLoop, refs[0].String())
	progress, err := w.desk.Edit(t.Context(), correction)
	if err != nil || progress.Sent != 1 || progress.Cursor == "" {
		t.Fatalf("%+v, %v", progress, err)
	}
	last, err := w.run(w.desk, deadletters.Job{Action: deadletters.Edited, Cursor: progress.Cursor, Reason: correction.Reason})
	if err != nil || last.Sent != 2 || last.Released != 1 {
		t.Errorf("%+v, %v", last, err)
	}
	kafkatest.Eventually(t, "both handled", func() bool { return slices.Equal(w.versions("a"), []int64{1, 2}) })
	got := w.done()[0]
	event, err := w.registry.Decode(got)
	if err != nil || event != (placed{Lines: 7, Name: "Zz Mark", Token: "tok_a"}) || got.ID != events[0].ID {
		t.Errorf("%+v %+v, %v", got, event, err)
	}
	_, err = w.desk.Edit(t.Context(), correction)
	refusedWith(t, err, deadletters.CodeLetterSettled)
}

func rehearses(t *testing.T, w *world) {
	events := w.stored("a", 2)
	refs := w.park(letter{record: events[0]}, letter{record: events[1], class: deadletters.Behind})
	result, err := w.desk.Rehearse(t.Context(), deadletters.Job{Consumer: consumer, All: true})
	if err != nil || len(result.Items) != 2 || len(result.Left) != 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	for i, item := range result.Items {
		if item.Outcome != "handled" || item.Letter != refs[i].String() || len(item.Events) != 1 || len(item.Calls) != 1 || item.Behind != (i == 1) {
			t.Errorf("%+v", item)
			continue
		}
		if event := item.Events[0]; event.Type != "order.paid" || event.Version != int64(3+i) {
			t.Errorf("%+v: one does not see what the one before did", event)
		}
	}
	records, err := w.store.ReadStream(t.Context(), orders.Stream("a"), 0, 10)
	if err != nil || len(records) != 2 {
		t.Errorf("%d events, %v", len(records), err)
	}
	if left := w.list(deadletters.Filter{}); len(left) != 2 {
		t.Errorf("%v are outstanding", left)
	}
	if sent := w.env.ReadAll(t, w.env.Topics.Replay(consumer)); len(sent) != 0 {
		t.Errorf("%d were sent", len(sent))
	}
}

func auditsOnce(t *testing.T, w *world) {
	w.consume()
	w.parkMany(10, 1)
	job := replay(deadletters.Filter{})
	job.Rate = 20
	progress := w.mustRun(job)
	entries, err := w.desk.Audit(t.Context(), deadletters.AuditQuery{Run: progress.Run})
	if err != nil || len(entries) != 2 || entries[1].Action != "dlq.replay" || entries[1].Count != 10 || entries[0].Action != "dlq.replay.end" || entries[0].Count != 10 {
		t.Errorf("%+v, %v", entries, err)
	}
}

func audits(t *testing.T, w *world) {
	w.consume()
	w.parkMany(3, 1)
	first := w.mustRun(replay(deadletters.Filter{Key: "aa"}))
	second := w.mustRun(deadletters.Job{Action: deadletters.Discarded, All: true, Reason: "enough"})
	entries, err := w.desk.Audit(t.Context(), deadletters.AuditQuery{})
	if err != nil || len(entries) < 2 {
		t.Fatalf("%+v, %v", entries, err)
	}
	count := map[string]int64{}
	for _, entry := range entries {
		count[entry.Run] = entry.Count // the letters that a run selected are those that it sent
		if entry.Actor != w.actor || entry.Subject != consumer || entry.At.IsZero() || entry.Detail == "" {
			t.Errorf("%+v", entry)
		}
	}
	if count[first.Run] != 1 || count[second.Run] != 2 {
		t.Errorf("%v", count)
	}
	only, err := w.desk.Audit(t.Context(), deadletters.AuditQuery{Run: first.Run, Action: "dlq.replay"})
	if err != nil || len(only) != 1 || only[0].Reason != "mended" {
		t.Errorf("%+v, %v", only, err)
	}
	older, err := w.desk.Audit(t.Context(), deadletters.AuditQuery{Before: entries[0].ID, Limit: 1})
	if err != nil || len(older) != 1 || older[0].ID >= entries[0].ID {
		t.Errorf("%+v, %v", older, err)
	}
}
