package projections

import (
	"bytes"
	"strconv"
	"time"
)

// A state is read some hundred thousand times a second by a rebuild, and few of its members matter. What
// is here reads those without decoding the rest. It takes only what encoding/json writes for our states
// and leaves everything else to encoding/json.

// eachMember gives the name and the raw value of each member of a flat JSON object. It is false when the
// object is not that plain: nested, with escapes, or no object at all.
func eachMember(object []byte, take func(name, value []byte) bool) bool {
	if len(object) < 2 || object[0] != '{' || object[len(object)-1] != '}' {
		return false
	}
	rest := object[1 : len(object)-1]
	for len(rest) > 0 {
		name, after, plain := plainText(rest)
		if !plain || len(after) == 0 || after[0] != ':' {
			return false
		}
		value, next, plain := plainValue(after[1:])
		if !plain || !take(name, value) {
			return false
		}
		if len(next) == 0 {
			return true
		}
		if next[0] != ',' || len(next) == 1 {
			return false
		}
		rest = next[1:]
	}
	return true
}

// plainText reads a string in quotes without escapes.
func plainText(data []byte) (text, rest []byte, plain bool) {
	if len(data) == 0 || data[0] != '"' {
		return nil, nil, false
	}
	end := bytes.IndexByte(data[1:], '"')
	if end < 0 {
		return nil, nil, false
	}
	text = data[1 : 1+end]
	return text, data[end+2:], bytes.IndexByte(text, '\\') < 0
}

// plainValue reads a string, which keeps its quotes, or a whole number.
func plainValue(data []byte) (value, rest []byte, plain bool) {
	if len(data) > 0 && data[0] == '"' {
		text, rest, plain := plainText(data)
		if !plain {
			return nil, nil, false
		}
		return data[:len(text)+2], rest, true
	}
	end := 0
	for end < len(data) && (data[end] >= '0' && data[end] <= '9' || end == 0 && data[end] == '-') {
		end++
	}
	return data[:end], data[end:], end > 0
}

// plainInt reads a number as encoding/json takes it.
func plainInt(value []byte) (int64, bool) {
	digits := bytes.TrimPrefix(value, []byte("-"))
	if len(digits) == 0 || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil
}

// plainTime reads a time in quotes, in UTC.
func plainTime(value []byte) (time.Time, bool) {
	if len(value) < 3 || value[0] != '"' || value[len(value)-2] != 'Z' {
		return time.Time{}, false
	}
	var at time.Time
	err := at.UnmarshalText(value[1 : len(value)-1])
	return at, err == nil
}
