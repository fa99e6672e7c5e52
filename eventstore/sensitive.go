package eventstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Redacted stands in for a sensitive value wherever a record leaves the platform's trusted part.
const Redacted = "--data_redacted--"

// sensitivePointers finds the fields tagged `sensitive:"true"`, as JSON pointers with * for the
// elements of slices and maps. It fails on a type that nests too deep to tell.
func sensitivePointers(t reflect.Type) ([]string, error) {
	var found []string
	if !walkSensitive(t, "", &found, 0) {
		return nil, fmt.Errorf("%s nests deeper than %d levels", t, maxNesting)
	}
	return found, nil
}

// maxNesting bounds the walk; a type that nests deeper is recursive and can't be an event.
const maxNesting = 12

func walkSensitive(t reflect.Type, at string, found *[]string, depth int) (whole bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if depth > maxNesting {
		return false
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return walkSensitive(t.Elem(), at+"/*", found, depth+1)
	case reflect.Struct:
		for i := range t.NumField() {
			pointer, inJSON := pointerOf(t.Field(i), at)
			if !inJSON {
				continue
			}
			if t.Field(i).Tag.Get("sensitive") == "true" {
				*found = append(*found, pointer)
				continue
			}
			if !walkSensitive(t.Field(i).Type, pointer, found, depth+1) {
				return false
			}
		}
	}
	return true
}

// pointerOf tells where encoding/json puts a field: the fields of an embedded struct without a name of
// its own are those of the struct around it.
func pointerOf(field reflect.StructField, at string) (pointer string, inJSON bool) {
	tag := field.Tag.Get("json")
	name, _, _ := strings.Cut(tag, ",")
	if field.Anonymous && name == "" {
		return at, true
	}
	if !field.IsExported() || tag == "-" {
		return "", false
	}
	if name == "" {
		name = field.Name
	}
	return at + "/" + name, true
}

// Redact replaces the sensitive values of the event's JSON and lists the pointers it replaced.
func (d *Declaration) Redact(data []byte) ([]byte, []string, error) {
	if len(d.Sensitive) == 0 {
		return data, nil, nil
	}
	var document any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // a number must come out as it went in
	if err := decoder.Decode(&document); err != nil {
		return nil, nil, fmt.Errorf("redact %s: %w", d.Name, err)
	}
	var replaced []string
	for _, pointer := range d.Sensitive {
		redactAt(document, strings.Split(pointer, "/")[1:], "", &replaced)
	}
	redacted, err := json.Marshal(document)
	if err != nil {
		return nil, nil, fmt.Errorf("redact %s: %w", d.Name, err)
	}
	return redacted, replaced, nil
}

// escapePointer escapes a member's name for a JSON pointer (RFC 6901).
var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

func redactAt(node any, path []string, at string, replaced *[]string) {
	switch parent := node.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(parent)) {
			child := parent[name]
			if path[0] != "*" && path[0] != name {
				continue
			}
			pointer := at + "/" + escapePointer.Replace(name)
			if len(path) > 1 {
				redactAt(child, path[1:], pointer, replaced)
			} else if child != nil {
				parent[name] = Redacted
				*replaced = append(*replaced, pointer)
			}
		}
	case []any:
		for i, child := range parent {
			if len(path) > 1 {
				redactAt(child, path[1:], fmt.Sprintf("%s/%d", at, i), replaced)
			} else if child != nil {
				parent[i] = Redacted
				*replaced = append(*replaced, fmt.Sprintf("%s/%d", at, i))
			}
		}
	}
}
