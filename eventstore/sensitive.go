package eventstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Redacted stands in for a sensitive value wherever a record leaves the platform's trusted part.
const Redacted = "--data_redacted--"

// sensitivePointers finds the fields tagged `sensitive:"true"`, as JSON pointers with * for the
// elements of slices and maps.
func sensitivePointers(t reflect.Type) []string {
	var found []string
	walkSensitive(t, "", &found, 0)
	return found
}

// maxNesting bounds the walk; a type that nests deeper is recursive and can't be an event.
const maxNesting = 12

func walkSensitive(t reflect.Type, at string, found *[]string, depth int) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if depth > maxNesting {
		return
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		walkSensitive(t.Elem(), at+"/*", found, depth+1)
	case reflect.Struct:
		for i := range t.NumField() {
			field := t.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !field.IsExported() || name == "-" {
				continue
			}
			if name == "" {
				name = field.Name
			}
			pointer := at + "/" + name
			if field.Tag.Get("sensitive") == "true" {
				*found = append(*found, pointer)
				continue
			}
			walkSensitive(field.Type, pointer, found, depth+1)
		}
	}
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

func redactAt(node any, path []string, at string, replaced *[]string) {
	switch parent := node.(type) {
	case map[string]any:
		for name, child := range parent {
			if path[0] != "*" && path[0] != name {
				continue
			}
			if len(path) > 1 {
				redactAt(child, path[1:], at+"/"+name, replaced)
			} else if child != nil {
				parent[name] = Redacted
				*replaced = append(*replaced, at+"/"+name)
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
