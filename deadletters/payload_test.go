package deadletters

import (
	"encoding/json"
	"strings"
	"testing"

	"andes/eventstore"
)

type (
	customer struct {
		Name string `json:"name" sensitive:"true"`
	}
	placed struct {
		Lines    int        `json:"lines"`
		Customer customer   `json:"customer"`
		Others   []customer `json:"others,omitempty"`
	}
	order struct{}
)

func testRegistry(t testing.TB) *eventstore.Registry {
	t.Helper()
	registry, err := eventstore.NewRegistry(eventstore.NewAggregate(eventstore.Category[order]{Name: "order", Events: []eventstore.Definition[order]{
		eventstore.Define("order.placed", func(*order, placed) {}),
	}}))
	if err != nil {
		t.Fatal(err)
	}
	return registry
}

func TestNoPayloadShowsWhatMayBePersonal(t *testing.T) {
	s := &Service{Config: Config{Registry: testRegistry(t)}}
	for name, c := range map[string]struct {
		letter Letter
		kind   string
		shown  string
	}{
		"an event":             {Letter{EventType: "order.placed", Value: []byte(`{"lines":2,"customer":{"name":"Zz Mark"}}`)}, "event", `"lines":2`},
		"an event of nobody":   {Letter{EventType: "order.other", Value: []byte(`{"name":"Zz Mark"}`)}, "unknown-json", `{"name":"Aa Aaaa"}`},
		"a foreign event":      {Letter{EventType: "order.placed", Foreign: "f", Value: []byte(`{"lines":2,"mail":"Zz Mark"}`)}, "unknown-json", `"lines":"9"`},
		"a list":               {Letter{Value: []byte(`["Zz Mark",12,true,null]`)}, "unknown-json", `["Aa Aaaa","99",true,null]`},
		"a text":               {Letter{Value: []byte("Zz Mark 12")}, "text", "Aa Aaaa 99"},
		"two documents":        {Letter{Value: []byte(`{"a":"Zz Mark"} {"a":"Zz Mark"}`)}, "text", `{"a":"Aa Aaaa"}`},
		"no text":              {Letter{Value: []byte{0xff, 0xfe}}, "bytes", "2 bytes"},
		"a tombstone":          {Letter{}, "tombstone", ""},
		"nested without end":   {Letter{Value: []byte(strings.Repeat("[", 300) + `"Zz Mark"` + strings.Repeat("]", 300))}, "unknown-json", "…"},
		"brackets without end": {Letter{Value: []byte(strings.Repeat("[", 10_000))}, "text", "[[[["},
		"as deep as JSON goes": {Letter{Value: []byte(strings.Repeat(`{"a":`, 9_990) + `"Zz Mark"` + strings.Repeat("}", 9_990))}, "text", `{"a":`},
		"a deep event":         {Letter{EventType: "order.placed", Value: []byte(`{"lines":2,"x":` + strings.Repeat("[", 9_990) + strings.Repeat("]", 9_990) + "}")}, "text", `"aaaaa":9`},
		"brackets in a text":   {Letter{Value: []byte(`["` + strings.Repeat(`[\"`, 600) + `"]`)}, "unknown-json", `[\"[`},
		"a document and more":  {Letter{Value: []byte(`{"lines":2}]`)}, "text", `{"aaaaa":9}]`},
		"a text without end":   {Letter{Value: []byte(strings.Repeat("Zz Mark ", 100_000))}, "text", "(800000 bytes)"},
		"an event that is cut": {Letter{EventType: "order.placed", Value: []byte(`{"lines":2,"customer":{"name":"Zz Mark`)}, "text", `"customer"`},
	} {
		shown := s.payload(&c.letter)
		text := string(shown.JSON) + shown.Text
		if _, err := json.Marshal([]Summary{{Payload: &shown}}); err != nil {
			t.Errorf("%s spoils what it is a part of: %v", name, err)
		}
		if name == "an event that is cut" {
			c.shown = `"aaaaaaaa"`
		}
		if shown.Kind != c.kind || !strings.Contains(text, c.shown) || strings.Contains(text, "Mark") || len(text) > 10_000 {
			t.Errorf("%s: %s %.300s %v", name, shown.Kind, text, shown.Masked)
		}
	}
}

func TestWhatIsRedactedComesBackFromTheStore(t *testing.T) {
	s := &Service{Config: Config{Registry: testRegistry(t)}}
	stored := eventstore.Record{Type: "order.placed", Data: []byte(`{"lines":2, "customer":{"name":"Zz Mark"},"others":[{"name":"a"},{"name":"b"}]}`)}
	pointers := []string{"/customer/name", "/others/0/name", "/others/1/name"}
	redacted := `{"customer":{"name":"--data_redacted--"},"lines":2,"others":[{"name":"--data_redacted--"},{"name":"--data_redacted--"}]}`
	for name, c := range map[string]struct {
		value, want string
		ok          bool
	}{
		"as it was":        {redacted, string(stored.Data), true},
		"changed":          {strings.Replace(redacted, `"lines":2`, `"lines":3`, 1), `{"customer":{"name":"Zz Mark"},"lines":3,"others":[{"name":"a"},{"name":"b"}]}`, true},
		"one written anew": {`{"customer":{"name":"New"},"lines":2}`, `{"customer":{"name":"New"},"lines":2}`, true},
		"one taken away":   {`{"lines":2,"others":[{"name":"--data_redacted--"}]}`, `{"lines":2,"others":[{"name":"a"}]}`, true},
		"one too many":     {`{"lines":2,"others":[{"name":"x"},{"name":"y"},{"name":"--data_redacted--"}]}`, "", false},
		"elsewhere":        {`{"lines":"--data_redacted--"}`, "", false},
		"no JSON":          {`{"lines"`, "", false},
	} {
		value, ok := s.restored([]byte(c.value), pointers, stored)
		if ok != c.ok || ok && string(value) != c.want {
			t.Errorf("%s: %s, %t", name, value, ok)
		}
	}
	if value, ok := s.restored(nil, pointers, stored); !ok || string(value) != string(stored.Data) {
		t.Errorf("a value that was left out for its size: %s, %t", value, ok)
	}
}

func TestLettersAreNamedByTheirPlace(t *testing.T) {
	ref := Ref{Consumer: "oms", Partition: 3, Offset: 17}
	if parsed, err := ParseRef(ref.String()); err != nil || parsed != ref {
		t.Errorf("%+v, %v", parsed, err)
	}
	for _, text := range []string{"", "oms", "oms/1", "oms/1/2/3", "/1/2", "oms/-1/2", "oms/1/-2", "oms/x/2", "oms/1/99999999999999999999", "oms/4294967296/1"} {
		if _, err := ParseRef(text); err == nil || !strings.Contains(err.Error(), "consumer/partition/offset") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
