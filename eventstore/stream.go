package eventstore

import (
	"fmt"
	"strings"
)

// Stream names one aggregate's history.
type Stream struct {
	Category string // "order"
	Key      string // the aggregate's id; may itself hold slashes
}

// String gives the stream's name as it is stored and sent: category/key.
func (s Stream) String() string { return s.Category + "/" + s.Key }

// ParseStream is the inverse of String.
func ParseStream(name string) (Stream, error) {
	category, key, found := strings.Cut(name, "/")
	if !found || category == "" || key == "" {
		return Stream{}, fmt.Errorf("stream %q is not category/key", name)
	}
	return Stream{Category: category, Key: key}, nil
}
