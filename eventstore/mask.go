package eventstore

import "strconv"

// masked is the payload of an event of which nobody can tell what in it is sensitive.
var masked = []byte(strconv.Quote(Redacted))

// Mask gives a record as people may see it, and the JSON pointers of what was taken out. An event type
// with sensitive fields is shown in its current schema and with its declared fields only, so that a field
// that has moved or gone does not escape. An event that is not registered or can't be read is masked
// whole: its one pointer is "", the whole document.
func (r *Registry) Mask(record Record) (Record, []string) {
	declaration, known := r.events[record.Type]
	if known && len(declaration.Sensitive) == 0 {
		return record, nil
	}
	if known {
		if data, pointers, err := declaration.mask(record.Schema, record.Data); err == nil {
			record.Data, record.Schema = data, declaration.Schema
			return record, pointers
		}
	}
	record.Data = masked
	return record, []string{""}
}

func (d *Declaration) mask(schema int, data []byte) ([]byte, []string, error) {
	event, err := d.Decode(schema, data)
	if err != nil {
		return nil, nil, err
	}
	current, err := d.Encode(event)
	if err != nil {
		return nil, nil, err
	}
	return d.Redact(current)
}
