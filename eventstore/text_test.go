package eventstore

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func TestNULIsFoundHoweverItIsSurrounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune{0, '\\', 'u', '0', 'x', '"', 'ñ'})).Draw(t, "text")
		data, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		if holdsNUL(data) == storable(text) {
			t.Fatalf("%q is %s: NUL %v, storable %v", text, data, holdsNUL(data), storable(text))
		}
	})
}
