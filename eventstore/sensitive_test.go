package eventstore_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"andes/eventstore"
)

type person struct {
	Name  string `json:"name" sensitive:"true"`
	Title string `json:"title"`
}

type contact struct {
	Phone string `json:"phone" sensitive:"true"`
}

type letter struct {
	contact
	ID      int64             `json:"id"`
	Token   string            `json:"token" sensitive:"true"`
	To      person            `json:"to"`
	Cc      []person          `json:"cc"`
	Friends map[string]person `json:"friends"`
	Phones  []string          `json:"phones" sensitive:"true"`
	Boss    *person           `json:"boss"`
	Grid    [][]person        `json:"grid"`
	Plain   string            `sensitive:"true"`
	Hidden  string            `json:"-" sensitive:"true"`
}

var letters = eventstore.Define("letter.sent", func(*account, letter) {})

func TestSensitiveFieldsAreFoundWhereverTheyAre(t *testing.T) {
	want := "/phone /token /to/name /cc/*/name /friends/*/name /phones /boss/name /grid/*/*/name /Plain"
	if got := strings.Join(letters.Sensitive, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRedactionReplacesValuesAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct{ data, want, replaced string }{
		"nested": {
			`{"id":1,"to":{"name":"Ada","title":"Dr"}}`,
			`{"id":1,"to":{"name":"--data_redacted--","title":"Dr"}}`, "/to/name",
		},
		"in slices": {
			`{"cc":[{"name":"Ada","title":""},{"name":"Bob","title":"x"}]}`,
			`{"cc":[{"name":"--data_redacted--","title":""},{"name":"--data_redacted--","title":"x"}]}`, "/cc/0/name /cc/1/name",
		},
		"in slices of slices": {`{"grid":[[],[{"name":"Ada"}]]}`, `{"grid":[[],[{"name":"--data_redacted--"}]]}`, "/grid/1/0/name"},
		"in maps": {
			`{"friends":{"z":{"name":"Ada"},"a/b~c":{"name":"Bob"}}}`,
			`{"friends":{"a/b~c":{"name":"--data_redacted--"},"z":{"name":"--data_redacted--"}}}`, "/friends/a~1b~0c/name /friends/z/name",
		},
		"a whole slice":      {`{"phones":["1","2"]}`, `{"phones":"--data_redacted--"}`, "/phones"},
		"of an embedded":     {`{"phone":"1"}`, `{"phone":"--data_redacted--"}`, "/phone"},
		"null stays":         {`{"token":null,"to":null,"cc":[null,{"name":null}]}`, `{"cc":[null,{"name":null}],"to":null,"token":null}`, ""},
		"missing":            {`{"id":7}`, `{"id":7}`, ""},
		"other types":        {`{"to":"text","cc":{"a":1},"boss":7}`, `{"boss":7,"cc":{"a":1},"to":"text"}`, ""},
		"numbers stay":       {`{"id":9007199254740993,"token":"t","x":1.10,"y":1e400}`, `{"id":9007199254740993,"token":"--data_redacted--","x":1.10,"y":1e400}`, "/token"},
		"a number is hidden": {`{"token":4111111111111111}`, `{"token":"--data_redacted--"}`, "/token"},
	} {
		t.Run(name, func(t *testing.T) {
			got, replaced, err := letters.Redact([]byte(c.data))
			if err != nil || string(got) != c.want {
				t.Errorf("got  %s (%v)\nwant %s", got, err, c.want)
			}
			if list := strings.Join(replaced, " "); list != c.replaced {
				t.Errorf("replaced %s, want %s", list, c.replaced)
			}
		})
	}
}

func TestRedactionRefusesWhatItCanNotRead(t *testing.T) {
	for _, data := range []string{"", "{", "not json"} {
		if got, _, err := letters.Redact([]byte(data)); err == nil {
			t.Errorf("%q became %s", data, got)
		}
	}
}

func TestAnEventWithoutSensitiveFieldsStaysByteForByte(t *testing.T) {
	plain := eventstore.Define("note.taken", func(*account, moved) {})
	data := []byte(`{ "amount" : 1 }`)
	if got, replaced, err := plain.Redact(data); err != nil || string(got) != string(data) || replaced != nil {
		t.Errorf("%s, %v, %v", got, replaced, err)
	}
}

func TestNothingSensitiveIsLeftInARedactedEvent(t *testing.T) {
	const secret = "s3cret"
	full := person{Name: secret, Title: "fine"}
	data, err := letters.Encode(letter{
		contact: contact{Phone: secret}, ID: 1, Token: secret, To: full, Cc: []person{full, full}, Plain: secret, Hidden: secret,
		Friends: map[string]person{"x": full}, Phones: []string{secret}, Boss: &full, Grid: [][]person{{full}},
	})
	if err != nil {
		t.Fatal(err)
	}
	redacted, replaced, err := letters.Redact(data)
	if err != nil || strings.Contains(string(redacted), secret) || len(replaced) != 10 {
		t.Errorf("%s, %v, %v", redacted, replaced, err)
	}
	var back map[string]any
	if err := json.Unmarshal(redacted, &back); err != nil || fmt.Sprint(back["id"]) != "1" {
		t.Errorf("%v, %v", back, err)
	}
}
