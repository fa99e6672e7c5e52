package eventstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
)

// Upcast turns the JSON of one schema version into that of the next.
type Upcast func(data []byte) ([]byte, error)

// Declaration is everything the platform knows of an event type: codec, topics, redaction and docs
// all come from it.
type Declaration struct {
	Name         string
	Schema       int // current version; older ones are upcast
	Doc          string
	CommandTopic string       // set: the event is also a command to a legacy system, on commands.<CommandTopic>
	Type         reflect.Type // the Go struct
	Sensitive    []string     // JSON pointers, with * for any element
	upcasts      []Upcast     // upcasts[i] turns version i+1 into i+2
	fault        error        // of the type
}

// Option refines a declaration.
type Option func(*Declaration)

// Doc describes the event in the catalogue.
func Doc(text string) Option { return func(d *Declaration) { d.Doc = text } }

// Upcasts gives the steps from version 1 to the current one, in order. The schema version is one more
// than their number.
func Upcasts(steps ...Upcast) Option {
	return func(d *Declaration) { d.upcasts, d.Schema = steps, len(steps)+1 }
}

// CommandTo publishes the event on commands.<system> too, where the system's adapter consumes it at
// the pace that the system bears.
func CommandTo(system string) Option { return func(d *Declaration) { d.CommandTopic = system } }

// Definition is a declaration together with what the event does to state S.
type Definition[S any] struct {
	*Declaration
	apply func(*S, any)
}

// Define declares the event type E of aggregates with state S. name is the wire name and never changes.
// apply may change the fields of the state but must replace, not change, the slices and maps in it: a
// refused command's copy of the state shares them.
func Define[S, E any](name string, apply func(*S, E), options ...Option) Definition[S] {
	declaration := &Declaration{Name: name, Schema: 1, Type: reflect.TypeFor[E]()}
	for _, option := range options {
		option(declaration)
	}
	declaration.Sensitive, declaration.fault = sensitivePointers(declaration.Type)
	return Definition[S]{
		Declaration: declaration,
		apply:       func(state *S, event any) { apply(state, event.(E)) },
	}
}

// categoryName keeps a category apart from the key in a stream's name, and fit for a topic's name.
var categoryName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

var wireName = regexp.MustCompile(`^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$`)

func (d *Declaration) check() error {
	var faults []error
	if !wireName.MatchString(d.Name) {
		faults = append(faults, fmt.Errorf("event %q: a wire name is category.fact in lower case", d.Name))
	}
	if d.Type.Kind() != reflect.Struct {
		faults = append(faults, fmt.Errorf("event %q: %s is not a struct", d.Name, d.Type))
	}
	for i, step := range d.upcasts {
		if step == nil {
			faults = append(faults, fmt.Errorf("event %q: no upcast from schema %d", d.Name, i+1))
		}
	}
	if d.fault != nil {
		faults = append(faults, fmt.Errorf("event %q: %w", d.Name, d.fault))
	}
	return errors.Join(faults...)
}

// Encode gives the event's JSON.
func (d *Declaration) Encode(event any) ([]byte, error) {
	data, err := json.Marshal(event)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", d.Name, err)
	}
	return data, nil
}

// Decode gives the event as a value of the declared Go type, upcast from the schema it was written in.
func (d *Declaration) Decode(schema int, data []byte) (any, error) {
	if schema < 1 || schema > d.Schema {
		return nil, fmt.Errorf("decode %s: schema %d is not one of 1..%d", d.Name, schema, d.Schema)
	}
	for _, step := range d.upcasts[schema-1:] {
		next, err := step(data)
		if err != nil {
			return nil, fmt.Errorf("upcast %s from schema %d: %w", d.Name, schema, err)
		}
		data, schema = next, schema+1
	}
	value := reflect.New(d.Type)
	if err := json.Unmarshal(data, value.Interface()); err != nil {
		return nil, fmt.Errorf("decode %s: %w", d.Name, err)
	}
	return value.Elem().Interface(), nil
}
