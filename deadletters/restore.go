package deadletters

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"andes/eventstore"
)

// restore puts back what was taken out of the values of letters on their way to the DLQ. What can't be
// restored is not in the result.
func (s *Service) restore(ctx context.Context, letters []*Letter) (map[Ref][]byte, error) {
	values := make(map[Ref][]byte, len(letters))
	var ids []string
	for _, l := range letters {
		if !s.incomplete(l) {
			values[l.Ref] = l.Value
		} else if l.EventID != "" {
			ids = append(ids, l.EventID)
		}
	}
	if len(ids) == 0 {
		return values, nil
	}
	stored, err := s.Events.EventsByID(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read the redacted events: %w", err)
	}
	for _, l := range letters {
		if record, found := stored[l.EventID]; found && s.incomplete(l) {
			if value, ok := s.restored(l.Value, l.Redacted, record); ok {
				values[l.Ref] = value
			}
		}
	}
	return values, nil
}

// incomplete tells whether something was taken out of the letter's value, or all of it because it had grown
// too large. No event of ours has no value by itself.
func (s *Service) incomplete(l *Letter) bool {
	_, known := s.Registry.Declaration(l.EventType)
	return len(l.Redacted) > 0 || l.Value == nil && known
}

// restored gives the value with the stored event's values at the pointers. Where nothing else was changed,
// that is the stored event, byte for byte.
func (s *Service) restored(value []byte, pointers []string, record eventstore.Record) ([]byte, bool) {
	if value == nil {
		return record.Data, true
	}
	if declaration, known := s.Registry.Declaration(record.Type); known {
		if redacted, _, err := declaration.Redact(record.Data); err == nil && bytes.Equal(redacted, value) {
			return record.Data, true
		}
	}
	target, readable := parse(value)
	source, stored := parse(record.Data)
	if !readable || !stored {
		return nil, false
	}
	for _, pointer := range pointers {
		if !copyAt(target, source, strings.Split(pointer, "/")[1:]) {
			return nil, false
		}
	}
	whole, err := json.Marshal(target)
	return whole, err == nil && !bytes.Contains(whole, []byte(eventstore.Redacted))
}

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// copyAt replaces the redacted value at a pointer (RFC 6901). One that is not redacted, because somebody has
// written another there, stays.
func copyAt(target, source any, path []string) bool {
	if len(path) == 0 {
		return false
	}
	name := unescapePointer.Replace(path[0])
	switch to := target.(type) {
	case map[string]any:
		from, is := source.(map[string]any)
		child, there := to[name]
		if !there {
			return true // taken away on purpose
		}
		if len(path) > 1 {
			return is && copyAt(child, from[name], path[1:])
		}
		if child != eventstore.Redacted {
			return true
		}
		value, stored := from[name]
		if is && stored {
			to[name] = value
		}
		return is && stored
	case []any:
		from, is := source.([]any)
		index, err := strconv.Atoi(name)
		if err != nil || index < 0 || index >= len(to) {
			return err == nil
		}
		if len(path) > 1 {
			return is && index < len(from) && copyAt(to[index], from[index], path[1:])
		}
		if to[index] != eventstore.Redacted {
			return true
		}
		if is && index < len(from) {
			to[index] = from[index]
		}
		return is && index < len(from)
	}
	return false
}
