package projections

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ErrValue marks a kept value that can't be read.
var ErrValue = errors.New("unreadable value of a read model")

// Values are fields separated by one space. A field is a whole number, a word without spaces, or a
// text with its length in bytes before it ("5:hello"), which may hold anything.

func appendInt(value []byte, n int64) []byte {
	return strconv.AppendInt(separated(value), n, 10)
}

func appendWord(value []byte, word string) []byte {
	return append(separated(value), word...)
}

func appendText(value []byte, text string) []byte {
	value = strconv.AppendInt(separated(value), int64(len(text)), 10)
	return append(append(value, ':'), text...)
}

// appendTime keeps milliseconds.
func appendTime(value []byte, at time.Time) []byte { return appendInt(value, at.UnixMilli()) }

// appendDoubt keeps a time as the last field of a value, if there is one.
func appendDoubt(value []byte, at time.Time) []byte {
	if at.IsZero() {
		return value
	}
	return appendTime(value, at)
}

func separated(value []byte) []byte {
	if len(value) > 0 {
		return append(value, ' ')
	}
	return value
}

// fields reads a value from left to right. The first fault sticks.
type fields struct {
	rest  string
	begun bool
	err   error
}

func readFields(value string) *fields { return &fields{rest: value} }

func (f *fields) fail(what string) {
	if f.err == nil {
		f.err = fmt.Errorf("%w: %s", ErrValue, what)
	}
}

// separator skips the space before every field but the first.
func (f *fields) separator() bool {
	if f.begun {
		rest, found := strings.CutPrefix(f.rest, " ")
		if !found {
			f.fail("a field is missing")
			return false
		}
		f.rest = rest
	}
	f.begun = true
	return f.err == nil
}

func (f *fields) word() string {
	if !f.separator() {
		return ""
	}
	end := strings.IndexByte(f.rest, ' ')
	if end < 0 {
		end = len(f.rest)
	}
	word := f.rest[:end]
	f.rest = f.rest[end:]
	if word == "" {
		f.fail("a field is empty")
	}
	return word
}

func (f *fields) int() int64 {
	word := f.word()
	if f.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		f.fail("a field is no whole number")
	}
	return n
}

func (f *fields) time() time.Time {
	milli := f.int()
	if f.err != nil {
		return time.Time{}
	}
	return time.UnixMilli(milli).UTC()
}

func (f *fields) doubt() time.Time {
	if !f.more() {
		return time.Time{}
	}
	return f.time()
}

func (f *fields) text() string {
	if !f.separator() {
		return ""
	}
	digits, rest, found := strings.Cut(f.rest, ":")
	length, err := strconv.Atoi(digits)
	if !found || err != nil || length < 0 || length > len(rest) {
		f.fail("a text has no valid length")
		return ""
	}
	f.rest = rest[length:]
	return rest[:length]
}

// more tells whether another field follows.
func (f *fields) more() bool { return f.err == nil && f.rest != "" }

// end gives the fault, or complains of what was left over.
func (f *fields) end() error {
	if f.more() {
		f.fail("there is more than the fields")
	}
	return f.err
}
