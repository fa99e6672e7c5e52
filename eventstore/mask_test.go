package eventstore_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"andes/eventstore"
)

// note is an event whose text moved from one field to another between its schemas.
type note struct {
	Author string `json:"author"`
	Text   string `json:"text" sensitive:"true"`
}

var notes = eventstore.NewAggregate(eventstore.Category[note]{
	Name: "note",
	Events: []eventstore.Definition[note]{
		eventstore.Define("note.written", func(s *note, e note) { *s = e }, eventstore.Upcasts(func(data []byte) ([]byte, error) {
			return bytes.Replace(data, []byte(`"body"`), []byte(`"text"`), 1), nil
		})),
		eventstore.Define("note.closed", func(*note, closed) {}),
	},
})

func noteRegistry(t *testing.T) *eventstore.Registry {
	t.Helper()
	registry, err := eventstore.NewRegistry(notes)
	if err != nil {
		t.Fatal(err)
	}
	return registry
}

func TestMaskingShowsNothingSensitive(t *testing.T) {
	registry := noteRegistry(t)
	for name, c := range map[string]struct {
		record       eventstore.Record
		data, masked string
	}{
		"of the current schema":                {eventstore.Record{Type: "note.written", Schema: 2, Data: []byte(`{"author":"a","text":"secret"}`)}, `{"author":"a","text":"--data_redacted--"}`, "/text"},
		"of an older schema, in its old field": {eventstore.Record{Type: "note.written", Schema: 1, Data: []byte(`{"author":"a","body":"secret"}`)}, `{"author":"a","text":"--data_redacted--"}`, "/text"},
		"in a field that is not declared":      {eventstore.Record{Type: "note.written", Schema: 2, Data: []byte(`{"author":"a","text":"x","more":"secret"}`)}, `{"author":"a","text":"--data_redacted--"}`, "/text"},
		"in other letters":                     {eventstore.Record{Type: "note.written", Schema: 2, Data: []byte(`{"author":"a","TEXT":"secret"}`)}, `{"author":"a","text":"--data_redacted--"}`, "/text"},
		"of a schema that is not known":        {eventstore.Record{Type: "note.written", Schema: 3, Data: []byte(`{"author":"a","words":"secret"}`)}, `"--data_redacted--"`, ""},
		"of a type that is not known":          {eventstore.Record{Type: "note.burnt", Schema: 1, Data: []byte(`{"words":"secret"}`)}, `"--data_redacted--"`, ""},
		"that can't be read":                   {eventstore.Record{Type: "note.written", Schema: 2, Data: []byte(`["secret"]`)}, `"--data_redacted--"`, ""},
		"that is nothing":                      {eventstore.Record{Type: "note.written", Schema: 2, Data: nil}, `"--data_redacted--"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			shown, pointers := registry.Mask(c.record)
			if string(shown.Data) != c.data || len(pointers) != 1 || pointers[0] != c.masked {
				t.Errorf("%s %q, want %s [%q]", shown.Data, pointers, c.data, c.masked)
			}
			if bytes.Contains(shown.Data, []byte("secret")) || !json.Valid(shown.Data) {
				t.Errorf("shows %s", shown.Data)
			}
		})
	}
}

func TestAnEventWithoutSensitiveFieldsIsShownAsItIs(t *testing.T) {
	record := eventstore.Record{Type: "note.closed", Schema: 1, Data: []byte(`{ "odd" :1e2}`)}
	if shown, pointers := noteRegistry(t).Mask(record); string(shown.Data) != string(record.Data) || pointers != nil {
		t.Errorf("%s %q", shown.Data, pointers)
	}
}

func TestAStateFoldsFromMaskedEventsOneByOne(t *testing.T) {
	registry := noteRegistry(t)
	stream := notes.Stream("n")
	folding, err := registry.Folding(stream.Category)
	if err != nil {
		t.Fatal(err)
	}
	written := eventstore.Record{Stream: stream, Version: 1, Type: "note.written", Schema: 1, Data: []byte(`{"author":"a","body":"secret"}`)}
	masked, _ := registry.Mask(written)
	if err := folding.Add(masked); err != nil {
		t.Fatal(err)
	}
	state, err := folding.State()
	if want := `{"author":"a","text":"--data_redacted--"}`; err != nil || string(state.State) != want || state.Version != 1 {
		t.Errorf("%s %v at version %d", state.State, err, state.Version)
	}
}
