// Package events keeps the promise of an event store: what was ever recorded can be read for ever. For
// each event, testdata holds a golden file of every schema version that ever existed, and the tests decode
// them with today's declarations. From the declarations and the golden files come docs/events.md and
// docs/asyncapi.yaml.
//
//	go test ./test/events -update
//
// writes the golden file of a new event, to be filled with better examples by hand, and the documents.
// It never changes a golden file that is there.
package events

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"andes/adapters/kafka"
	"andes/commands/money"
	"andes/eventstore"
)

// Where things are, from this package's folder.
const (
	root   = "../.."
	golden = "testdata"
)

// goldenFile names the golden file of an event in a schema version.
func goldenFile(name string, schema int) string {
	return filepath.Join(golden, fmt.Sprintf("%s.v%d.json", name, schema))
}

// topics names the topics as they are named by default.
var topics = kafka.Topics{}

// headers lists the names of the headers of an event's record, as the relay writes them.
func headers() []string {
	message := kafka.EncodeRecord("", eventstore.Record{
		ID: "id", Type: "a.b", Stream: eventstore.Stream{Category: "a", Key: "k"},
		Meta: eventstore.Metadata{CorrelationID: "c", CausationID: "c", Actor: "a", TraceParent: "t"},
	})
	names := make([]string, len(message.Headers))
	for i, header := range message.Headers {
		names[i] = string(header.Key)
	}
	return names
}

// field is a member of an event's JSON. Members of objects in it have fields of their own.
type field struct {
	name      string // as in "lines[].sku"
	json      string // its JSON type
	doc       string
	optional  bool
	sensitive bool
}

// Types that have a JSON form of their own.
var (
	timeType  = reflect.TypeFor[time.Time]()
	moneyType = reflect.TypeFor[money.Money]()
)

// fieldsOf lists the fields of a struct as encoding/json writes them, nested ones behind their parents.
func fieldsOf(t reflect.Type) []field {
	return walk(t, "", commentsOf(t))
}

func walk(t reflect.Type, at string, comments map[string]string) []field {
	var found []field
	for i := range t.NumField() {
		member := t.Field(i)
		name, options, _ := strings.Cut(member.Tag.Get("json"), ",")
		f := field{
			name: at + name, json: jsonType(member.Type), doc: comments[member.Name],
			optional:  strings.Contains(options, "omit"),
			sensitive: member.Tag.Get("sensitive") == "true",
		}
		found = append(found, f)
		inner, suffix := elements(member.Type)
		if inner.Kind() == reflect.Struct && inner != timeType && inner != moneyType {
			found = append(found, walk(inner, f.name+suffix+".", commentsOf(inner))...)
		}
	}
	return found
}

// elements gives what is inside of lists, and how a path says so.
func elements(t reflect.Type) (inner reflect.Type, suffix string) {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		if t.Kind() == reflect.Slice {
			suffix += "[]"
		}
		t = t.Elem()
	}
	return t, suffix
}

func jsonType(t reflect.Type) string {
	switch {
	case t == timeType:
		return "string (RFC 3339 time)"
	case t == moneyType:
		return "money"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "integer"
	case reflect.Slice:
		return "array of " + jsonType(t.Elem())
	case reflect.Map:
		return "object of " + jsonType(t.Elem())
	case reflect.Struct:
		return "object"
	}
	panic(fmt.Sprintf("%s has no place in an event: use whole numbers, text, times and money", t))
}

// systems lists the command topics' systems of a category.
func systems(registry *eventstore.Registry, category string) []string {
	var names []string
	for _, declaration := range registry.Declarations(category) {
		if declaration.CommandTopic != "" {
			names = append(names, declaration.CommandTopic)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
