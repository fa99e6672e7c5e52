package eventstore

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// Category declares a kind of aggregate: its state and every event that changes it.
type Category[S any] struct {
	Name string
	// Published states go to the compacted topic state.<Name>.
	Published bool
	// Owner, if set, names whose the aggregate is; states can be listed by it.
	Owner func(*S) string
	// Deleted, if set, tells that the aggregate is gone: its state topic gets a tombstone.
	Deleted func(*S) bool
	Events  []Definition[S]
}

// Aggregate is a checked Category: the typed way to load and append its streams.
type Aggregate[S any] struct {
	Category[S]
	byName map[string]Definition[S]
	byType map[reflect.Type]Definition[S]
	faults []error
}

// NewAggregate indexes the category. Faults in it are reported by NewRegistry, all at once.
func NewAggregate[S any](category Category[S]) *Aggregate[S] {
	a := &Aggregate[S]{
		Category: category,
		byName:   make(map[string]Definition[S], len(category.Events)),
		byType:   make(map[reflect.Type]Definition[S], len(category.Events)),
	}
	if !categoryName.MatchString(a.Name) {
		a.faults = append(a.faults, fmt.Errorf("category %q: a name is one word in lower case", a.Name))
	}
	if len(a.Events) == 0 {
		a.faults = append(a.faults, fmt.Errorf("category %q has no events", a.Name))
	}
	for _, definition := range category.Events {
		if err := definition.check(); err != nil {
			a.faults = append(a.faults, err)
		}
		if _, twice := a.byName[definition.Name]; twice {
			a.faults = append(a.faults, fmt.Errorf("event %q is defined twice", definition.Name))
		}
		if other, twice := a.byType[definition.Type]; twice {
			a.faults = append(a.faults, fmt.Errorf("events %q and %q share the type %s", other.Name, definition.Name, definition.Type))
		}
		a.byName[definition.Name], a.byType[definition.Type] = definition, definition
	}
	return a
}

// Stream names the stream of the aggregate with this key.
func (a *Aggregate[S]) Stream(key string) Stream { return Stream{Category: a.Name, Key: key} }

// Load gives the state of the aggregate with this key, as the commands before this one in the batch
// left it, and its version (0: it does not exist).
func (a *Aggregate[S]) Load(u *Unit, key string) (S, int64) {
	found := u.entry(a.Stream(key), a)
	if found.state == nil {
		var none S
		return none, found.version
	}
	return *found.state.(*S), found.version
}

// Append decides that these events happen to the aggregate with this key, and gives its new state.
func (a *Aggregate[S]) Append(u *Unit, key string, events ...any) S {
	for _, event := range events {
		definition, declared := a.byType[reflect.TypeOf(event)]
		if !declared {
			panic(fmt.Sprintf("eventstore: %T is no event of category %s", event, a.Name))
		}
		u.append(a.Stream(key), a, definition.Declaration, event)
	}
	state, _ := a.Load(u, key)
	return state
}

// Decode reads a stored state.
func (a *Aggregate[S]) Decode(state []byte) (S, error) {
	var s S
	if len(state) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(state, &s); err != nil {
		return s, fmt.Errorf("decode state of category %s: %w", a.Name, err)
	}
	return s, nil
}

// Fold rebuilds the state from a stream's events, from the first one on.
func (a *Aggregate[S]) Fold(records []Record) (S, error) {
	var s S
	for _, record := range records {
		definition, declared := a.byName[record.Type]
		if !declared {
			return s, fmt.Errorf("fold %s: unknown event %s at version %d", record.Stream, record.Type, record.Version)
		}
		event, err := definition.Decode(record.Schema, record.Data)
		if err != nil {
			return s, fmt.Errorf("fold %s: %w", record.Stream, err)
		}
		definition.apply(&s, event)
	}
	return s, nil
}

// Kind is an Aggregate without its type parameter, as the registry and the batch handle it.
type Kind interface {
	name() string
	published() bool
	stateType() reflect.Type
	declarations() []*Declaration
	problems() []error
	copyState(state any) any // a new *S; state may be nil
	decodeState(data []byte) (any, error)
	encodeState(state any) (data []byte, owner string, err error)
	applyTo(state any, name string, event any)
	foldState(records []Record) ([]byte, error)
}

func (a *Aggregate[S]) name() string            { return a.Name }
func (a *Aggregate[S]) published() bool         { return a.Published }
func (a *Aggregate[S]) stateType() reflect.Type { return reflect.TypeFor[S]() }
func (a *Aggregate[S]) problems() []error       { return a.faults }

func (a *Aggregate[S]) declarations() []*Declaration {
	list := make([]*Declaration, len(a.Events))
	for i, definition := range a.Events {
		list[i] = definition.Declaration
	}
	return list
}

func (a *Aggregate[S]) copyState(state any) any {
	next := new(S)
	if state != nil {
		*next = *state.(*S)
	}
	return next
}

func (a *Aggregate[S]) decodeState(data []byte) (any, error) {
	s, err := a.Decode(data)
	return &s, err
}

func (a *Aggregate[S]) encodeState(state any) ([]byte, string, error) {
	s := state.(*S)
	owner := ""
	if a.Owner != nil {
		owner = a.Owner(s)
	}
	if a.Deleted != nil && a.Deleted(s) {
		return nil, owner, nil
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, "", fmt.Errorf("encode state of category %s: %w", a.Name, err)
	}
	return data, owner, nil
}

func (a *Aggregate[S]) applyTo(state any, name string, event any) {
	a.byName[name].apply(state.(*S), event)
}

func (a *Aggregate[S]) foldState(records []Record) ([]byte, error) {
	s, err := a.Fold(records)
	if err != nil {
		return nil, err
	}
	data, _, err := a.encodeState(&s)
	return data, err
}
