package eventstore

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// storable tells whether a text can be a key: UTF-8 without NUL, which databases don't take. What is not
// is refused for its command alone, before it is loaded or written.
func storable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// nulEscape is how JSON writes NUL.
var nulEscape = []byte(`\u0000`)

// holdsNUL tells whether a JSON text has a string with NUL: the escape, unless its backslash is itself
// escaped.
func holdsNUL(data []byte) bool {
	for from := 0; ; {
		at := bytes.Index(data[from:], nulEscape)
		if at < 0 {
			return false
		}
		at += from
		backslashes := 0
		for at-backslashes > 0 && data[at-backslashes-1] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return true
		}
		from = at + 1
	}
}
