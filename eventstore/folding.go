package eventstore

import "fmt"

// Folding rebuilds the state of a stream event by event, so that a stream of any length needs no more
// memory than its state.
type Folding struct {
	kind   Kind
	events map[string]*Declaration
	state  any
	last   Record
}

// Folding begins with a stream without events.
func (r *Registry) Folding(category string) (*Folding, error) {
	k, known := r.kinds[category]
	if !known {
		return nil, fmt.Errorf("category %q is not registered", category)
	}
	events := map[string]*Declaration{}
	for _, declaration := range k.declarations() {
		events[declaration.Name] = declaration
	}
	return &Folding{kind: k, events: events, state: k.copyState(nil)}, nil
}

// Add applies the stream's next event.
func (f *Folding) Add(record Record) error {
	if record.Version != f.last.Version+1 {
		return fmt.Errorf("fold %s: version %d follows %d", record.Stream, record.Version, f.last.Version)
	}
	declaration, known := f.events[record.Type]
	if !known {
		return fmt.Errorf("fold %s: unknown event %s at version %d", record.Stream, record.Type, record.Version)
	}
	event, err := declaration.Decode(record.Schema, record.Data)
	if err != nil {
		return fmt.Errorf("fold %s: %w", record.Stream, err)
	}
	f.kind.applyTo(f.state, record.Type, event)
	f.last = Record{Stream: record.Stream, Version: record.Version, Position: record.Position}
	return nil
}

// State gives the stored form of what was folded so far.
func (f *Folding) State() (StateRecord, error) {
	data, owner, err := f.kind.encodeState(f.state)
	return StateRecord{Stream: f.last.Stream, Version: f.last.Version, Position: f.last.Position, Owner: owner, State: data}, err
}
