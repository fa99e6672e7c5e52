package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// pageField is a parameter, or a member of a body by its way from the top: lines[].sku.
type pageField struct {
	Name, Type, About, Bounds string
	Needed                    bool
}

// maxPageDepth bounds how far bodies are unfolded.
const maxPageDepth = 6

// ofPage describes a body.
func (s *shapes) ofPage(name string, schema *huma.Schema) pageSchema {
	var example strings.Builder
	s.example(&example, schema, "")
	return pageSchema{Name: name, Fields: s.fields(schema, "", 0), Example: example.String()}
}

// resolved follows a reference.
func (s *shapes) resolved(schema *huma.Schema) *huma.Schema {
	if schema.Ref != "" {
		return s.registry.SchemaFromRef(schema.Ref)
	}
	return schema
}

// members names the properties of an object, those first that it needs.
func members(schema *huma.Schema) []string {
	names := slices.Clone(schema.Required)
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// fields lists the members of an object, and theirs.
func (s *shapes) fields(schema *huma.Schema, at string, depth int) []pageField {
	schema = s.resolved(schema)
	var list []pageField
	for _, name := range members(schema) {
		property := schema.Properties[name]
		target := s.resolved(property)
		field := pageField{Name: at + name, Type: target.Type, Needed: slices.Contains(schema.Required, name), Bounds: boundsOf(target), About: property.Description}
		if field.About == "" {
			field.About = target.Description
		}
		inner := target
		if target.Type == huma.TypeArray {
			inner = s.resolved(target.Items)
			field.Type, field.Name = "list of "+inner.Type, field.Name+"[]"
			field.Bounds = strings.TrimPrefix(field.Bounds+"; "+boundsOf(inner), "; ")
			field.Bounds = strings.TrimSuffix(field.Bounds, "; ")
		}
		list = append(list, field)
		if inner.Type == huma.TypeObject && depth < maxPageDepth {
			list = append(list, s.fields(inner, field.Name+".", depth+1)...)
		}
	}
	return list
}

// boundsOf says what a schema allows.
func boundsOf(schema *huma.Schema) string {
	var parts []string
	say := func(low, high any, unit string) {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%v to %v %s", low, high, unit)))
	}
	switch {
	case len(schema.Enum) > 0:
		names := make([]string, len(schema.Enum))
		for i, each := range schema.Enum {
			names[i] = fmt.Sprintf("`%v`", each)
		}
		parts = append(parts, strings.Join(names, ", "))
	case schema.Format == "date-time":
		parts = append(parts, "RFC 3339")
	case schema.MaxItems != nil && schema.MinItems != nil:
		say(grouped(int64(*schema.MinItems)), grouped(int64(*schema.MaxItems)), "items")
	case schema.MaxItems != nil:
		say(0, grouped(int64(*schema.MaxItems)), "items")
	case schema.MaxLength != nil && schema.MinLength != nil && *schema.MinLength == *schema.MaxLength:
		parts = append(parts, strconv.Itoa(*schema.MaxLength)+" characters")
	case schema.MaxLength != nil && schema.MinLength != nil:
		say(grouped(int64(*schema.MinLength)), grouped(int64(*schema.MaxLength)), "characters")
	case schema.Maximum != nil && schema.Minimum != nil:
		say(grouped(int64(*schema.Minimum)), grouped(int64(*schema.Maximum)), "")
	}
	if schema.Pattern != "" && schema.Pattern != plainPattern {
		parts = append(parts, "`"+schema.Pattern+"`")
	}
	return strings.Join(parts, ", ")
}

// grouped writes a number with its thousands apart.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// example writes a value as it may look, indented.
func (s *shapes) example(b *strings.Builder, schema *huma.Schema, indent string) {
	schema = s.resolved(schema)
	inner := indent + "  "
	switch {
	case len(schema.Examples) > 0:
		writeJSON(b, schema.Examples[0])
	case len(schema.Enum) > 0:
		writeJSON(b, schema.Enum[0])
	case schema.Type == huma.TypeObject && len(schema.Properties) > 0 && len(indent) <= 2*maxPageDepth:
		b.WriteString("{")
		for i, name := range members(schema) {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString("\n" + inner + strconv.Quote(name) + ": ")
			s.example(b, schema.Properties[name], inner)
		}
		b.WriteString("\n" + indent + "}")
	case schema.Type == huma.TypeObject:
		b.WriteString("{}")
	case schema.Type == huma.TypeArray:
		b.WriteString("[")
		s.example(b, schema.Items, indent)
		b.WriteString("]")
	case schema.Type == huma.TypeInteger:
		b.WriteString("1")
	case schema.Type == huma.TypeBoolean:
		b.WriteString("false")
	case schema.Format == "date-time":
		b.WriteString(`"2026-03-01T12:00:00.000Z"`)
	default:
		b.WriteString(`"…"`)
	}
}

func writeJSON(b *strings.Builder, value any) {
	data, _ := json.Marshal(value) // examples are texts, numbers and lists of them
	b.Write(data)
}
