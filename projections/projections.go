// Package projections declares the read models: which states each is made of, and the compact value that
// it keeps of a state. One file per read model, with the encoding and the decoding side by side.
//
//	state record ──► Projection.Project ──► Entry{Key, Position, Value} ──► read model in Redis
//	                                                                            │
//	                       Decode<Model> ◄───────────── value ◄─────────────────┘
//
// A projection is a pure function and is given no publisher: replaying it can't emit anything. An entry
// carries the position of its state, by which the read model refuses what is older than it has.
//
// To add a read model: one file with On, Encode and Decode, and a line in All. To change how values are
// encoded: decode both forms, or rebuild. An entry is not overwritten at its own position, so values of
// the old form stay until their states change.
package projections

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"andes/eventstore"
)

// Entry is what a read model keeps under a key.
type Entry struct {
	Key      string // model:stream key, as in stock:85123A
	Position int64  // of the state that it was made of; 0: the stream has no events
	Value    []byte // nil: known not to be there
}

// Projection makes the entries of one read model.
type Projection struct {
	Name     string // of the read model; the keys start with it
	Category string // whose states it is made of
	Project  func(eventstore.StateRecord) (Entry, error)

	value func(state []byte) ([]byte, error)
}

// On declares the read model of an aggregate's states. encode gives the compact value of a state, or
// nil when the read model does not show it.
func On[S any](name string, aggregate *eventstore.Aggregate[S], encode func(S) []byte) Projection {
	return projection(name, aggregate.Name, func(data []byte) ([]byte, error) {
		state, err := aggregate.Decode(data)
		if err != nil {
			return nil, err
		}
		return encode(state), nil
	})
}

// projection makes entries of the values that a state is turned into.
func projection(name, category string, value func(state []byte) ([]byte, error)) Projection {
	return Projection{
		Name:     name,
		Category: category,
		value:    value,
		Project: func(record eventstore.StateRecord) (Entry, error) {
			entry := Entry{Key: key(name, record.Stream.Key), Position: record.Position}
			if record.Position < 0 || record.Position == 0 && record.State != nil {
				return entry, eventstore.MarkPermanent(fmt.Errorf("project %s: %s has no position", name, record.Stream))
			}
			if record.State == nil {
				return entry, nil
			}
			var err error
			if entry.Value, err = value(record.State); err != nil {
				return entry, eventstore.MarkPermanent(fmt.Errorf("project %s: %s at position %d: %w", name, record.Stream, record.Position, err))
			}
			return entry, nil
		},
	}
}

// quickly has the projection try a shorter way first. Where that is not ok, or there is none, a state is
// decoded; both must give the same.
func (p Projection) quickly(quick func(state []byte) (value []byte, ok bool)) Projection {
	return projection(p.Name, p.Category, func(state []byte) ([]byte, error) {
		if value, ok := quick(state); ok {
			return value, nil
		}
		return p.value(state)
	})
}

func key(name, streamKey string) string { return name + ":" + streamKey }

// All lists the read models.
func All() []Projection {
	return []Projection{Stocks, Prices, Products, Sources}
}

// Set is a checked list of projections.
type Set struct {
	list       []Projection
	byCategory map[string][]Projection
}

var modelName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// NewSet reports every fault of the list at once.
func NewSet(list ...Projection) (*Set, error) {
	set := &Set{list: list, byCategory: make(map[string][]Projection, len(list))}
	names := make(map[string]bool, len(list))
	var faults []error
	for _, projection := range list {
		if !modelName.MatchString(projection.Name) {
			faults = append(faults, fmt.Errorf("projection %q: a name is lower-case letters, digits and _", projection.Name))
		}
		if names[projection.Name] {
			faults = append(faults, fmt.Errorf("projection %q is declared twice", projection.Name))
		}
		if projection.Category == "" || projection.Project == nil {
			faults = append(faults, fmt.Errorf("projection %q: category or function is missing", projection.Name))
		}
		names[projection.Name] = true
		set.byCategory[projection.Category] = append(set.byCategory[projection.Category], projection)
	}
	return set, errors.Join(faults...)
}

// Categories lists the categories whose states the set is made of, each once, in the order of the list.
func (s *Set) Categories() []string {
	var categories []string
	seen := make(map[string]bool, len(s.byCategory))
	for _, projection := range s.list {
		if !seen[projection.Category] {
			seen[projection.Category] = true
			categories = append(categories, projection.Category)
		}
	}
	return categories
}

// Projections lists the set.
func (s *Set) Projections() []Projection { return s.list }

// Only gives the set of the named read models.
func (s *Set) Only(names ...string) (*Set, error) {
	var list []Projection
	var faults []error
	for i, name := range names {
		found, exists := s.Projection(name)
		if slices.Contains(names[:i], name) {
			faults = append(faults, fmt.Errorf("the read model %q is named twice", name))
		}
		if !exists {
			faults = append(faults, fmt.Errorf("there is no read model %q; the read models are %s", name, strings.Join(s.Names(), ", ")))
		}
		list = append(list, found)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return NewSet(list...)
}

// Projection finds a read model by its name.
func (s *Set) Projection(name string) (Projection, bool) {
	i := slices.IndexFunc(s.list, func(p Projection) bool { return p.Name == name })
	if i < 0 {
		return Projection{}, false
	}
	return s.list[i], true
}

// Names lists the names of the read models.
func (s *Set) Names() []string {
	names := make([]string, len(s.list))
	for i, projection := range s.list {
		names[i] = projection.Name
	}
	return names
}

// Project adds a record's entries to others.
func (s *Set) Project(entries []Entry, record eventstore.StateRecord) ([]Entry, error) {
	var faults []error
	for _, projection := range s.byCategory[record.Stream.Category] {
		entry, err := projection.Project(record)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		entries = append(entries, entry)
	}
	return entries, errors.Join(faults...)
}

// Entries projects the records in their order. A record that can't be projected leaves a fault and does
// not keep the others from theirs; a record of a category without a read model gives nothing.
func (s *Set) Entries(records []eventstore.StateRecord) (entries []Entry, faults []error) {
	entries = make([]Entry, 0, len(records))
	for _, record := range records {
		var err error
		if entries, err = s.Project(entries, record); err != nil {
			faults = append(faults, err)
		}
	}
	return entries, faults
}
