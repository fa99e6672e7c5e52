package deadletters_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"andes/deadletters"
)

var lookTrials = []trial{
	{"letters are found by each filter", filtersFind},
	{"a letter tells its attempts, its event and what waits behind it", showsAll},
	{"pages follow one another without a gap", pagesFollow},
	{"stats count what is outstanding", statsCount},
}

func (w *world) list(filter deadletters.Filter) []string {
	w.t.Helper()
	page, err := w.desk.List(w.t.Context(), deadletters.Query{Consumer: consumer, Filter: filter})
	if err != nil {
		w.t.Fatal(err)
	}
	var found []string
	for _, summary := range page.Items {
		found = append(found, summary.Letter)
	}
	slices.Sort(found)
	return found
}

func filtersFind(t *testing.T, w *world) {
	a, b := w.stored("a", 2), w.stored("b", 1)
	before := time.Now().Add(-time.Second)
	refs := w.park(
		letter{record: a[0]},
		letter{record: a[1], class: deadletters.Behind},
		letter{record: b[0], class: deadletters.Transient, extra: map[string]string{"tenant": "one", "andes_error": "no answer"}},
	)
	names := []string{refs[0].String(), refs[1].String(), refs[2].String()}
	for name, want := range map[string]struct {
		filter deadletters.Filter
		found  []string
	}{
		"none":          {deadletters.Filter{}, names},
		"class":         {deadletters.Filter{Class: deadletters.Behind}, names[1:2]},
		"key":           {deadletters.Filter{Key: "a"}, names[:2]},
		"topic":         {deadletters.Filter{Topic: w.topic()}, names},
		"short topic":   {deadletters.Filter{Topic: "events.order"}, names},
		"type":          {deadletters.Filter{Type: "order.placed", Key: "b"}, names[2:]},
		"error":         {deadletters.Filter{Error: "gateway"}, names[:2]},
		"header":        {deadletters.Filter{Headers: []deadletters.Header{{Name: "tenant", Value: "one"}}}, names[2:]},
		"other header":  {deadletters.Filter{Headers: []deadletters.Header{{Name: "tenant", Value: "two"}}}, nil},
		"partner":       {deadletters.Filter{Partner: "acme"}, names},
		"other partner": {deadletters.Filter{Partner: "other"}, nil},
		"since":         {deadletters.Filter{Since: before}, names},
		"until":         {deadletters.Filter{Until: before}, nil},
	} {
		slices.Sort(want.found)
		if found := w.list(want.filter); !slices.Equal(found, want.found) {
			t.Errorf("%s: found %v, want %v", name, found, want.found)
		}
	}
}

func showsAll(t *testing.T, w *world) {
	events := w.stored("a", 3)
	refs := w.park(letter{record: events[0]}, letter{record: events[1], class: deadletters.Behind}, letter{record: events[2], class: deadletters.Behind})
	detail, err := w.desk.Show(t.Context(), refs[1])
	if err != nil {
		t.Fatal(err)
	}
	if len(detail.Failures) != 2 || detail.Attempt != 4 || detail.Partner != "acme" || detail.Origin.Topic != w.topic() || detail.EventID != events[1].ID {
		t.Errorf("%+v", detail)
	}
	if !slices.Equal(detail.Earlier, []string{refs[0].String()}) || !slices.Equal(detail.Behind, []string{refs[2].String()}) || detail.BehindCount != 1 {
		t.Errorf("earlier %v, behind %v", detail.Earlier, detail.Behind)
	}
	if detail.Stored == nil || detail.Stored.Version != 2 || detail.Payload == nil || detail.Payload.Kind != "event" {
		t.Fatalf("%+v", detail)
	}
	text, err := json.Marshal(detail)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"Zz Mark", "tok_"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("%s is shown: %s", secret, text)
		}
	}
	if !strings.Contains(string(text), `"lines":2`) {
		t.Errorf("the payload is not shown: %s", text)
	}
}

func pagesFollow(t *testing.T, w *world) {
	var letters []letter
	for _, key := range []string{"a", "b", "c", "d"} {
		for _, record := range w.stored(key, 3) {
			letters = append(letters, letter{record: record})
		}
	}
	refs := w.park(letters...)
	found := map[string]int{}
	query := deadletters.Query{Consumer: consumer, Limit: 5}
	for range 10 {
		page, err := w.desk.List(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Items) > 5 {
			t.Errorf("%d on a page", len(page.Items))
		}
		for _, summary := range page.Items {
			found[summary.Letter]++
		}
		if query.Cursor = page.Cursor; query.Cursor == "" {
			break
		}
	}
	for _, ref := range refs {
		if found[ref.String()] != 1 {
			t.Errorf("%s was listed %d times", ref, found[ref.String()])
		}
	}
}

func statsCount(t *testing.T, w *world) {
	events := w.stored("a", 3)
	refs := w.park(letter{record: events[0]}, letter{record: events[1]}, letter{record: events[2], class: deadletters.Transient})
	job := deadletters.Job{Action: deadletters.Discarded, Filter: deadletters.Filter{Letters: refs[:1]}, Reason: "a test"}
	if progress := w.mustRun(job); progress.Sent != 1 {
		t.Errorf("%+v", progress)
	}
	queues, err := w.desk.Stats(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(queues) == 0 {
		t.Fatal("no queues")
	}
	q := queues[0]
	if q.Consumer != consumer || q.Depth != 2 || q.Settled != 1 || q.LastHour != 3 || q.LastDay != 3 || q.Oldest.IsZero() || q.Members != 0 {
		t.Errorf("%+v", q)
	}
	if len(q.Errors) != 2 || q.Errors[0].Count != 1 || q.Errors[0].Error != "refused by the gateway" {
		t.Errorf("%+v", q.Errors)
	}
	if _, err := w.desk.Stats(t.Context(), "nobody"); err == nil {
		t.Error("an unknown consumer has stats")
	}
}
