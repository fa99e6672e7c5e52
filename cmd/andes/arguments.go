package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// refuseEmpty refuses flags and arguments that were given without a value, as `--only "$SKU"` is while SKU is not
// set: what restricts a command by nothing would not restrict it.
func refuseEmpty(parsed *kong.Context) error {
	var faults []error
	for _, given := range parsed.Path {
		switch {
		case given.Flag != nil && empty(given.Flag.Target):
			faults = append(faults, fmt.Errorf("--%s is empty: give it a value, or leave it out", given.Flag.Name))
		case given.Positional != nil && empty(given.Positional.Target):
			faults = append(faults, fmt.Errorf("<%s> is empty: give it a value, or leave it out", given.Positional.Name))
		}
	}
	return errors.Join(faults...)
}

func empty(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.String:
		return strings.TrimSpace(value.String()) == ""
	case reflect.Slice:
		return value.Len() == 0 || slices.ContainsFunc(slices.Collect(elements(value)), empty)
	case reflect.Pointer:
		return !value.IsNil() && empty(value.Elem())
	}
	return false
}

func elements(value reflect.Value) func(yield func(reflect.Value) bool) {
	return func(yield func(reflect.Value) bool) {
		for i := range value.Len() {
			if !yield(value.Index(i)) {
				return
			}
		}
	}
}

// chosen is what was chosen of a flag that may be left out; "" if it was. A choice with an empty one would offer
// that to operators.
func chosen(choice *string) string {
	if choice == nil {
		return ""
	}
	return *choice
}
