package projections

import (
	"strconv"
	"strings"
)

// Text is how an entry is kept: "position value", or the position alone for what is known not to be there.
func (e Entry) Text() string {
	text := strconv.AppendInt(make([]byte, 0, 20+1+len(e.Value)), e.Position, 10)
	if e.Value != nil {
		text = append(append(text, ' '), e.Value...)
	}
	return string(text)
}

// KeptAs tells whether the text is the entry's. It does not make the entry's for that.
func (e Entry) KeptAs(text string) bool {
	var digits [20]byte
	position := strconv.AppendInt(digits[:0], e.Position, 10)
	if len(text) < len(position) || text[:len(position)] != string(position) {
		return false
	}
	rest := text[len(position):]
	if e.Value == nil {
		return rest == ""
	}
	return len(rest) == 1+len(e.Value) && rest[0] == ' ' && rest[1:] == string(e.Value)
}

// ValueOf parts a kept text; there is false for what is known not to be there.
func ValueOf(text string) (value string, there bool) {
	_, value, there = strings.Cut(text, " ")
	return value, there
}

// PositionOf is the position in a kept text, -1 where there is none.
func PositionOf(text string) int64 {
	digits, _, _ := strings.Cut(text, " ")
	position, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || position < 0 {
		return -1
	}
	return position
}

// ModelOf names the read model that a key belongs to.
func ModelOf(key string) string {
	model, _, _ := strings.Cut(key, ":")
	return model
}
