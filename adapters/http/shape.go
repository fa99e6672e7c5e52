package httpapi

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"andes/eventstore"
)

// codeOf in a schema's extensions is the code of every fault of such a value.
const codeOf = "x-code"

// maxNamed bounds how much of a member's name that we don't know is repeated to the caller.
const maxNamed = 64

// shapes checks bodies against the schemas that the API document shows.
type shapes struct {
	registry huma.Registry
	patterns map[string]*regexp.Regexp
	schemas  map[reflect.Type]*huma.Schema
}

func newShapes(registry huma.Registry) *shapes {
	return &shapes{registry: registry, patterns: map[string]*regexp.Regexp{}, schemas: map[reflect.Type]*huma.Schema{}}
}

// plainPattern is plainText for the document.
const plainPattern = `^[^\x00-\x08\x0B\x0C\x0E-\x1F\x7F]*$`

// request gives the schema of a request's body. What holds for every text in it is written into it.
func (s *shapes) request(t reflect.Type) *huma.Schema {
	schema := s.schema(t)
	s.plain(schema)
	return schema
}

func (s *shapes) plain(schema *huma.Schema) {
	if schema.Ref != "" {
		schema = s.registry.SchemaFromRef(schema.Ref)
	}
	if schema.Type == huma.TypeString && schema.Pattern == "" && schema.Format == "" && len(schema.Enum) == 0 {
		schema.Pattern = plainPattern
		s.prepare(schema)
	}
	if schema.Items != nil {
		s.plain(schema.Items)
	}
	for _, property := range schema.Properties {
		s.plain(property)
	}
}

// schema gives the schema of a type, and prepares it for check. It is called for every body when the
// edge is built, and only reads afterwards.
func (s *shapes) schema(t reflect.Type) *huma.Schema {
	if known, seen := s.schemas[t]; seen {
		return known
	}
	schema := s.registry.Schema(t, true, t.Name())
	s.schemas[t] = schema
	s.prepare(schema)
	for _, component := range s.registry.Map() {
		s.prepare(component)
	}
	return schema
}

func (s *shapes) prepare(schema *huma.Schema) {
	if schema.Type == huma.TypeArray {
		schema.Nullable = false // a list that is null is refused like every other null
		s.prepare(schema.Items)
	}
	if schema.Pattern != "" {
		s.patterns[schema.Pattern] = regexp.MustCompile(schema.Pattern)
	}
	for _, property := range schema.Properties {
		s.prepare(property)
	}
}

// check lists what is wrong with a body that is valid JSON.
func (s *shapes) check(t reflect.Type, body []byte) []eventstore.Problem {
	w := walker{shapes: s, decoder: jsontext.NewDecoder(bytes.NewBuffer(body))}
	w.value(s.schemas[t], "", "")
	return w.problems
}

// walker goes through one body.
type walker struct {
	*shapes
	decoder  *jsontext.Decoder
	problems []eventstore.Problem
}

// complain notes a problem. own is the code of the value that is wrong, if it has one.
func (w *walker) complain(pointer string, own, code eventstore.Code, format string, args ...any) {
	if own != "" {
		code = own
	}
	if len(w.problems) < maxProblems {
		w.problems = append(w.problems, eventstore.Problem{Pointer: pointer, Code: code, Detail: fmt.Sprintf(format, args...)})
	}
}

func (w *walker) skip() {
	// The body was parsed before, so this can't fail.
	_ = w.decoder.SkipValue()
}

func ownCode(schema *huma.Schema) eventstore.Code {
	code, _ := schema.Extensions[codeOf].(string)
	return eventstore.Code(code)
}

// kinds are the types of values that a body has, by how they begin.
var kinds = map[jsontext.Kind]string{
	'{': huma.TypeObject, '[': huma.TypeArray, '"': huma.TypeString, '0': huma.TypeInteger, 't': huma.TypeBoolean, 'f': huma.TypeBoolean,
}

// value checks the next value. own is the code that the value's faults have by the one around it.
func (w *walker) value(schema *huma.Schema, at string, own eventstore.Code) {
	if schema.Ref != "" {
		schema = w.registry.SchemaFromRef(schema.Ref)
	}
	if code := ownCode(schema); code != "" {
		own = code
	}
	if kinds[w.decoder.PeekKind()] != schema.Type {
		w.complain(at, own, CodeTypeInvalid, "expected a value of type %s", schema.Type)
		w.skip()
		return
	}
	switch schema.Type {
	case huma.TypeObject:
		w.object(schema, at)
	case huma.TypeArray:
		w.array(schema, at, own)
	case huma.TypeString:
		w.text(schema, at, own)
	case huma.TypeInteger:
		w.integer(schema, at, own)
	default:
		w.skip()
	}
}

func (w *walker) object(schema *huma.Schema, at string) {
	_, _ = w.decoder.ReadToken()
	var seen []string
	for w.decoder.PeekKind() != '}' {
		token, err := w.decoder.ReadToken()
		if err != nil {
			return
		}
		name := token.String()
		property, known := schema.Properties[name]
		if !known {
			pointer := at
			if len(name) <= maxNamed && plainText(name) {
				pointer = at + "/" + pointerEscapes.Replace(name)
			}
			w.complain(pointer, "", CodeMemberUnknown, "there is no such member")
			w.skip()
			continue
		}
		seen = append(seen, name)
		w.value(property, at+"/"+name, "")
	}
	_, _ = w.decoder.ReadToken()
	for _, name := range schema.Required {
		if !slices.Contains(seen, name) {
			w.complain(at+"/"+name, ownCode(schema.Properties[name]), CodeMemberMissing, "the member is needed")
		}
	}
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func (w *walker) array(schema *huma.Schema, at string, own eventstore.Code) {
	_, _ = w.decoder.ReadToken()
	count := 0
	for w.decoder.PeekKind() != ']' {
		if schema.MaxItems != nil && count >= *schema.MaxItems {
			w.skip() // too long as it is; what else is wrong with it does not matter
		} else {
			w.value(schema.Items, at+"/"+strconv.Itoa(count), "")
		}
		count++
	}
	_, _ = w.decoder.ReadToken()
	if schema.MinItems != nil && count < *schema.MinItems {
		w.complain(at, own, CodeLengthInvalid, "at least %d items are needed", *schema.MinItems)
	}
	if schema.MaxItems != nil && count > *schema.MaxItems {
		w.complain(at, own, CodeLengthInvalid, "at most %d items are allowed", *schema.MaxItems)
	}
}

func (w *walker) text(schema *huma.Schema, at string, own eventstore.Code) {
	token, err := w.decoder.ReadToken()
	if err != nil {
		return
	}
	text := token.String()
	length := utf8.RuneCountInString(text)
	switch {
	case schema.MaxLength != nil && length > *schema.MaxLength:
		w.complain(at, own, CodeLengthInvalid, "at most %d characters are allowed", *schema.MaxLength)
	case schema.MinLength != nil && length < *schema.MinLength:
		w.complain(at, own, CodeLengthInvalid, "at least %d characters are needed", *schema.MinLength)
	case !plainText(text):
		w.complain(at, own, CodeTextInvalid, "control characters are not allowed")
	case len(schema.Enum) > 0 && !slices.Contains(schema.Enum, any(text)):
		w.complain(at, own, CodeFormatInvalid, "expected one of %v", schema.Enum)
	case schema.Pattern != "" && !w.patterns[schema.Pattern].MatchString(text):
		w.complain(at, own, CodeFormatInvalid, "expected %s", cmp.Or(schema.PatternDescription, "a text that matches "+schema.Pattern))
	case schema.Format == "date-time" && !isTime(text):
		w.complain(at, own, CodeFormatInvalid, "expected an RFC 3339 time with its offset")
	}
}

// plainText tells whether a text has no control characters but tabs and line ends.
func plainText(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f
	})
}

// isTime tells whether a text is a time that can be written in UTC too: an offset may move the first and
// the last hours of the calendar into a year that has no four digits.
func isTime(text string) bool {
	at, err := time.Parse(time.RFC3339, text)
	year := at.UTC().Year()
	return err == nil && year >= 0 && year <= 9999
}

func (w *walker) integer(schema *huma.Schema, at string, own eventstore.Code) {
	token, err := w.decoder.ReadToken()
	if err != nil {
		return
	}
	number, err := wholeNumber(token.String())
	switch {
	case errors.Is(err, strconv.ErrRange):
		w.complain(at, own, CodeNumberInvalid, "the number is out of range")
	case err != nil:
		w.complain(at, own, CodeNumberInvalid, "a whole number, written in digits, is expected")
	case schema.Minimum != nil && float64(number) < *schema.Minimum:
		w.complain(at, own, CodeNumberInvalid, "at least %.0f is expected", *schema.Minimum)
	case schema.Maximum != nil && float64(number) > *schema.Maximum:
		w.complain(at, own, CodeNumberInvalid, "at most %.0f is expected", *schema.Maximum)
	}
}

// wholeNumber reads digits, with a fraction of zeros or none.
func wholeNumber(text string) (int64, error) {
	digits, fraction, _ := strings.Cut(text, ".")
	if strings.Trim(fraction, "0") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(digits, 10, 64)
}
