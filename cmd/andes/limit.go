package main

import (
	"fmt"
	"strconv"
)

// limit is how many of something a command answers at the most. In every command 0 is all, and less is a slip.
type limit int

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *limit) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 0 {
		return fmt.Errorf("%q is no limit: a whole number is expected, 0 for all", text)
	}
	*l = limit(n)
	return nil
}

// reached tells whether so many are enough.
func (l limit) reached(n int) bool { return l > 0 && n >= int(l) }

// next gives how many may still come after so many, but at most a page of them.
func (l limit) next(n, page int) int {
	if l == 0 {
		return page
	}
	return min(page, int(l)-n)
}
