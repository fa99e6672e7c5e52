package main

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/v2"
)

// mayBeZero are the durations and counts of which zero means something.
var mayBeZero = []string{"breaker_open_first", "quota_wait"}

// maxCount bounds every setting that counts something.
const maxCount = 1_000_000

// named gives the fields of the settings that are set by a name.
func (s *settings) named() iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		all := reflect.ValueOf(s).Elem()
		for field, value := range all.Fields() {
			if name := field.Tag.Get("koanf"); name != "" && !yield(name, value) {
				return
			}
		}
	}
}

// asVariable is the setting's name in the environment, by which it is told.
func asVariable(name string) string { return envPrefix + strings.ToUpper(name) }

// unreadable tells of each value that is not of its setting's type. It never repeats texts: they may be secrets.
func (s *settings) unreadable(k *koanf.Koanf) error {
	var faults []error
	for name, field := range s.named() {
		given := k.Get(name)
		var err error
		want := ""
		switch field.Interface().(type) {
		case time.Duration:
			if _, typed := given.(time.Duration); !typed { // a default
				_, err = time.ParseDuration(fmt.Sprint(given))
			}
			want = "duration with its unit, as 30s or 5m"
		case int, int64:
			_, err = strconv.ParseInt(fmt.Sprint(given), 10, field.Type().Bits())
			want = "whole number"
		case bool:
			_, err = strconv.ParseBool(fmt.Sprint(given))
			want = "true or false"
		default:
			if kind := reflect.ValueOf(given).Kind(); kind == reflect.Slice || kind == reflect.Map {
				faults = append(faults, fmt.Errorf("%s must be one text, and not a list or a map", asVariable(name)))
			}
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s is %q, which is no %s", asVariable(name), fmt.Sprint(given), want))
		}
	}
	return errors.Join(faults...)
}

// outOfRange tells of each duration and count that makes no sense.
func (s *settings) outOfRange() (faults []error) {
	for name, field := range s.named() {
		if !field.CanInt() {
			continue
		}
		value, zero := field.Int(), slices.Contains(mayBeZero, name)
		_, isDuration := field.Interface().(time.Duration)
		switch {
		case value < 0 && zero:
			faults = append(faults, fmt.Errorf("%s is %v, but must not be below zero", asVariable(name), field))
		case value <= 0 && !zero:
			faults = append(faults, fmt.Errorf("%s is %v, but must be above zero", asVariable(name), field))
		case value > maxCount && !isDuration:
			faults = append(faults, fmt.Errorf("%s is %v, but must be at most %d", asVariable(name), field, maxCount))
		}
	}
	return faults
}

// otherVariables begin as settings do, and are none: of the command line, and of the scripts that start andes.
var otherVariables = []string{"ANDES_CONFIG", "ANDES_BROKER", "ANDES_BROKER_KIND", "ANDES_RUN_ENV", "ANDES_TRYTON_URL"}

// unknownVariables are those of the environment that look as settings, and are none.
func unknownVariables(environment, known []string) (unknown []string) {
	for _, each := range environment {
		name, _, _ := strings.Cut(each, "=")
		setting, prefixed := strings.CutPrefix(name, envPrefix)
		if prefixed && !slices.Contains(otherVariables, name) && !slices.Contains(known, strings.ToLower(setting)) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}

// suggestion names the setting that an unknown one may have been meant to be, for the end of a sentence.
func (s *settings) suggestion(unknown string) string {
	unknown = strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(unknown, envPrefix)), ".", "_")
	nearest, least := "", max(1, len(unknown)/4)+1
	for name := range s.named() {
		if away := distance(unknown, name); away < least {
			nearest, least = name, away
		}
	}
	if nearest == "" {
		return ""
	}
	return "; did you mean " + asVariable(nearest) + "?"
}

// distance counts the letters that are to be changed, added, left out or swapped with the next one to make one
// word of the other (optimal string alignment).
func distance(a, b string) int {
	var before, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			changed := last[j]
			if a[i] != b[j] {
				changed++
			}
			row[j+1] = min(changed, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// strangers tells of each name that is no setting.
func (s *settings) strangers() (ofFile, ofEnvironment []error) {
	for _, name := range s.unknown {
		ofFile = append(ofFile, fmt.Errorf("the configuration file sets %q, which is no setting%s", name, s.suggestion(name)))
	}
	for _, name := range s.unknownVariables {
		ofEnvironment = append(ofEnvironment, fmt.Errorf("%s is set, which is no setting: it changes nothing%s", name, s.suggestion(name)))
	}
	return ofFile, ofEnvironment
}

// lines gives each of the faults that were joined in a line.
func lines(err error) (all []string) {
	joined, is := err.(interface{ Unwrap() []error })
	if !is || errors.Join(joined.Unwrap()...).Error() != err.Error() { // a sentence around errors is one line
		return []string{strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n", "; ")), " ")}
	}
	for _, each := range joined.Unwrap() {
		all = append(all, lines(each)...)
	}
	return all
}
