package deadletters

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Payload is a letter's value as people may see it. It is the same for everybody: nobody needs personal
// data to mend a message.
type Payload struct {
	Kind   string          `json:"kind" enum:"event,unknown-json,text,bytes,tombstone" doc:"Of an event the declared sensitive fields are masked; of anything else every value is, because nobody can tell what it is"`
	JSON   json.RawMessage `json:"json,omitempty"`
	Text   string          `json:"text,omitempty" doc:"The shape of what is no JSON: letters are a, digits are 9"`
	Masked []string        `json:"masked,omitempty" doc:"JSON pointers"`
}

// Bounds of what is shown of a payload that is not an event.
const (
	maxShownText = 400
	maxShownDeep = 32
)

// maxDeep is how deep a payload may be nested that is shown as JSON. encoding/json has a limit of its own, for what a
// payload is a part of: one letter that reaches it would take a whole page with it.
const maxDeep = 500

// payload masks a letter's value.
func (s *Service) payload(l *Letter) Payload {
	switch {
	case l.Value == nil:
		return Payload{Kind: "tombstone"}
	case !utf8.Valid(l.Value):
		return Payload{Kind: "bytes", Text: fmt.Sprintf("%d bytes that are no text", len(l.Value))}
	case deeper(l.Value, maxDeep):
		return Payload{Kind: "text", Text: sketch(string(l.Value))}
	}
	if declaration, known := s.Registry.Declaration(l.EventType); known && l.Foreign == "" {
		if value, masked, err := declaration.Redact(l.Value); err == nil {
			if _, ok := parse(value); ok {
				masked = append(masked, l.Redacted...)
				slices.Sort(masked)
				return Payload{Kind: "event", JSON: value, Masked: slices.Compact(masked)}
			}
		}
	}
	if document, ok := parse(l.Value); ok {
		if shape, err := json.Marshal(outline(document, 0)); err == nil {
			return Payload{Kind: "unknown-json", JSON: shape}
		}
	}
	return Payload{Kind: "text", Text: sketch(string(l.Value))}
}

// parse reads JSON, leaving numbers as they are. Nothing may follow it.
func parse(value []byte) (document any, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	if err := decoder.Decode(&document); err != nil {
		return nil, false
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, false
	}
	return document, true
}

// deeper tells whether brackets are nested deeper than that, in JSON or in what looks like it.
func deeper(value []byte, most int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(value); i++ {
		switch b := value[i]; {
		case b == '"':
			quoted = !quoted
		case quoted && b == '\\':
			i++
		case quoted:
		case b == '[' || b == '{':
			if depth++; depth > most {
				return true
			}
		case b == ']' || b == '}':
			depth--
		}
	}
	return false
}

// outline keeps the shape and the members' names of a document and no value.
func outline(node any, depth int) any {
	if depth > maxShownDeep {
		return "…"
	}
	switch value := node.(type) {
	case map[string]any:
		shape := make(map[string]any, len(value))
		for name, member := range value {
			shape[name] = outline(member, depth+1)
		}
		return shape
	case []any:
		shape := make([]any, len(value))
		for i, element := range value {
			shape[i] = outline(element, depth+1)
		}
		return shape
	case string:
		return sketch(value)
	case json.Number:
		return sketch(value.String())
	}
	return node // true, false and null tell nothing of a person
}

// sketch keeps a text's shape: where there were letters, digits and signs.
func sketch(text string) string {
	var shape strings.Builder
	for i, r := range text {
		if i >= maxShownText {
			fmt.Fprintf(&shape, "… (%d bytes)", len(text))
			break
		}
		switch {
		case unicode.IsUpper(r):
			shape.WriteByte('A')
		case unicode.IsLetter(r):
			shape.WriteByte('a')
		case unicode.IsDigit(r):
			shape.WriteByte('9')
		case unicode.IsPrint(r) || r == '\n' || r == '\t':
			shape.WriteRune(r)
		default:
			shape.WriteByte('?')
		}
	}
	return shape.String()
}

// printable gives a key as text.
func printable(key []byte) string {
	if utf8.Valid(key) && !bytes.ContainsFunc(key, unicode.IsControl) {
		return string(key)
	}
	return strconv.QuoteToASCII(string(key))
}
