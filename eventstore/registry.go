package eventstore

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// Registry knows every category and event of the platform. It is built once, at start.
type Registry struct {
	kinds  map[string]Kind
	events map[string]*Declaration
	names  []string // of the categories, sorted
}

// NewRegistry registers the aggregates and reports every fault in them.
func NewRegistry(aggregates ...Kind) (*Registry, error) {
	r := &Registry{kinds: map[string]Kind{}, events: map[string]*Declaration{}}
	owners := map[string]Kind{} // of the events
	var faults []error
	for _, aggregate := range aggregates {
		faults = append(faults, aggregate.problems()...)
		if _, twice := r.kinds[aggregate.name()]; twice {
			faults = append(faults, fmt.Errorf("category %q is registered twice", aggregate.name()))
		}
		r.kinds[aggregate.name()] = aggregate
		r.names = append(r.names, aggregate.name())
		for _, declaration := range aggregate.declarations() {
			if other, twice := owners[declaration.Name]; twice && other != aggregate {
				faults = append(faults, fmt.Errorf("event %q is declared by two categories", declaration.Name))
			}
			r.events[declaration.Name], owners[declaration.Name] = declaration, aggregate
		}
	}
	slices.Sort(r.names)
	return r, errors.Join(faults...)
}

// Categories lists the categories' names, sorted.
func (r *Registry) Categories() []string { return slices.Clone(r.names) }

// Published tells whether the category's states go to a compacted topic.
func (r *Registry) Published(category string) bool {
	k, known := r.kinds[category]
	return known && k.published()
}

// StateType is the Go type of the category's states; nil for a category that is not registered.
func (r *Registry) StateType(category string) reflect.Type {
	if k, known := r.kinds[category]; known {
		return k.stateType()
	}
	return nil
}

// Declarations lists the events of a category in the order of their definition.
func (r *Registry) Declarations(category string) []*Declaration {
	if k, known := r.kinds[category]; known {
		return k.declarations()
	}
	return nil
}

// Declaration finds an event type by its wire name.
func (r *Registry) Declaration(name string) (*Declaration, bool) {
	declaration, known := r.events[name]
	return declaration, known
}

// Decode gives the record's event as a value of its declared Go type.
func (r *Registry) Decode(record Record) (any, error) {
	declaration, known := r.events[record.Type]
	if !known {
		return nil, fmt.Errorf("event type %q is not registered", record.Type)
	}
	return declaration.Decode(record.Schema, record.Data)
}

// Fold rebuilds the stored form of a stream's state from its events.
func (r *Registry) Fold(category string, records []Record) ([]byte, error) {
	k, known := r.kinds[category]
	if !known {
		return nil, fmt.Errorf("category %q is not registered", category)
	}
	return k.foldState(records)
}
