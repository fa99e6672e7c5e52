package eventstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"andes/eventstore"
)

type tree struct{ Children []tree }

func TestEveryFaultOfTheDeclarationsIsReported(t *testing.T) {
	nothing := func(*account, opened) {}
	aggregate := func(name string, events ...eventstore.Definition[account]) *eventstore.Aggregate[account] {
		return eventstore.NewAggregate(eventstore.Category[account]{Name: name, Events: events})
	}
	_, err := eventstore.NewRegistry(
		aggregate("Bad/Name", eventstore.Define("one.fine", nothing)),
		aggregate("empty"),
		aggregate("twice", eventstore.Define("two.fine", nothing)),
		aggregate("twice", eventstore.Define("three.fine", nothing)),
		aggregate("events",
			eventstore.Define("Events.Upper", func(*account, closed) {}),
			eventstore.Define("events.a.b", func(*account, moved) {}),
			eventstore.Define("events.text", func(*account, string) {}),
			eventstore.Define("events.tree", func(*account, tree) {}),
			eventstore.Define("events.hole", func(*account, struct{ A int }) {}, eventstore.Upcasts(nil)),
			eventstore.Define("events.same", func(*account, struct{ B int }) {}),
			eventstore.Define("events.same", func(*account, struct{ C int }) {}),
			eventstore.Define("events.shares", nothing),
			eventstore.Define("events.shared", nothing),
		),
		aggregate("other", eventstore.Define("events.shared", nothing)),
	)
	if err == nil {
		t.Fatal("no fault was reported")
	}
	for _, want := range []string{
		`category "Bad/Name": a name`,
		`category "empty" has no events`,
		`category "twice" is registered twice`,
		`event "Events.Upper": a wire name`,
		`event "events.a.b": a wire name`,
		`event "events.text": string is not a struct`,
		`event "events.tree": eventstore_test.tree nests deeper`,
		`event "events.hole": no upcast from schema 1`,
		`event "events.same" is defined twice`,
		`events "events.shares" and "events.shared" share the type`,
		`event "events.shared" is declared by two categories`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s", want)
		}
	}
	if got, want := len(strings.Split(err.Error(), "\n")), 11; got != want {
		t.Errorf("%d faults, want %d:\n%v", got, want, err)
	}
}

func TestTheRegistryKnowsWhatWasDeclared(t *testing.T) {
	registry, err := eventstore.NewRegistry(accounts)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(registry.Categories()); got != "[account]" {
		t.Errorf("categories %s", got)
	}
	if !registry.Published("account") || registry.Published("other") {
		t.Error("published is wrong")
	}
	var names []string
	for _, declaration := range registry.Declarations("account") {
		names = append(names, declaration.Name)
	}
	if got := fmt.Sprint(names); got != "[account.opened account.moved account.closed]" {
		t.Errorf("declarations %s", got)
	}
	if registry.Declarations("other") != nil {
		t.Error("another category has declarations")
	}
	if _, known := registry.Declaration("account.moved"); !known {
		t.Error("account.moved is unknown")
	}
	if _, err := registry.Decode(eventstore.Record{Type: "account.gone", Schema: 1, Data: []byte("{}")}); err == nil {
		t.Error("an unknown event was decoded")
	}
	if _, err := registry.Fold("other", nil); err == nil {
		t.Error("an unknown category was folded")
	}
}

type renamed struct {
	FullName string `json:"fullName"`
	Age      int    `json:"age"`
}

func replace(from, to string) eventstore.Upcast {
	return func(data []byte) ([]byte, error) {
		if !bytes.Contains(data, []byte(from)) {
			return nil, fmt.Errorf("no %s in %s", from, data)
		}
		return bytes.ReplaceAll(data, []byte(from), []byte(to)), nil
	}
}

func TestOlderSchemasAreUpcastStepByStep(t *testing.T) {
	declaration := eventstore.Define("person.named", func(*account, renamed) {},
		eventstore.Upcasts(replace(`"n"`, `"name"`), replace(`"name"`, `"fullName"`))).Declaration
	if declaration.Schema != 3 {
		t.Fatalf("schema %d", declaration.Schema)
	}
	for schema, data := range map[int]string{
		1: `{"n":"Ada","age":36}`,
		2: `{"name":"Ada","age":36}`,
		3: `{"fullName":"Ada","age":36}`,
	} {
		got, err := declaration.Decode(schema, []byte(data))
		if err != nil || got != (renamed{FullName: "Ada", Age: 36}) {
			t.Errorf("schema %d: %+v, %v", schema, got, err)
		}
	}
	for name, c := range map[string]struct {
		schema int
		data   string
	}{
		"schema zero":     {0, `{"fullName":"Ada"}`},
		"a later schema":  {4, `{"fullName":"Ada"}`},
		"a failing step":  {1, `{"fullName":"Ada"}`},
		"another type":    {3, `{"fullName":7}`},
		"no JSON":         {3, `{`},
		"a list":          {3, `[]`},
		"an empty record": {3, ``},
	} {
		if got, err := declaration.Decode(c.schema, []byte(c.data)); err == nil {
			t.Errorf("%s was decoded to %+v", name, got)
		}
	}
}

func TestAStreamsNameIsParsedBack(t *testing.T) {
	for _, key := range []string{"a", "a/b", "RRP|85123A", "ñ /", "//"} {
		stream := eventstore.Stream{Category: "stock", Key: key}
		if got, err := eventstore.ParseStream(stream.String()); err != nil || got != stream {
			t.Errorf("%q became %+v, %v", stream, got, err)
		}
	}
	for _, text := range []string{"", "stock", "stock/", "/a"} {
		if got, err := eventstore.ParseStream(text); err == nil {
			t.Errorf("%q was parsed to %+v", text, got)
		}
	}
}

func TestFailuresAreClassifiedByType(t *testing.T) {
	refusal := eventstore.Refuse(codeTooLow, "too low")
	for name, c := range map[string]struct {
		err  error
		want eventstore.Class
	}{
		"a plain error":              {errBug, eventstore.Transient},
		"a store that is away":       {fmt.Errorf("x: %w", eventstore.ErrUnavailable), eventstore.Unavailable},
		"a store that is overloaded": {fmt.Errorf("x: %w", eventstore.ErrOverloaded), eventstore.Unavailable},
		"marked as not now":          {fmt.Errorf("x: %w", eventstore.MarkUnavailable(errBug)), eventstore.Unavailable},
		"permanent beats not now":    {errors.Join(eventstore.ErrUnavailable, eventstore.MarkPermanent(errBug)), eventstore.Permanent},
		"an unknown outcome":         {eventstore.ErrOutcomeUnknown, eventstore.Transient},
		"a timeout":                  {context.DeadlineExceeded, eventstore.Transient},
		"a refusal":                  {fmt.Errorf("x: %w", refusal), eventstore.Permanent},
		"marked":                     {fmt.Errorf("x: %w", eventstore.MarkPermanent(errBug)), eventstore.Permanent},
		"cancelled":                  {fmt.Errorf("x: %w", context.Canceled), eventstore.Shutdown},
		"cancelled, whatever marked": {eventstore.MarkPermanent(context.Canceled), eventstore.Shutdown},
	} {
		if got := eventstore.Classify(c.err); got != c.want {
			t.Errorf("%s is %s, want %s", name, got, c.want)
		}
	}
	if eventstore.MarkPermanent(nil) != nil {
		t.Error("no error became one")
	}
	if !errors.Is(eventstore.MarkPermanent(errBug), errBug) {
		t.Error("the cause is lost")
	}
	if eventstore.CodeOf(fmt.Errorf("x: %w", refusal)) != codeTooLow || eventstore.CodeOf(errBug) != "" {
		t.Error("the code is wrong")
	}
}
