package projections_test

import (
	"testing"

	"pgregory.net/rapid"

	"andes/projections"
)

// A comparison without the text comes to the same as one with it.
func TestAnEntryKnowsItsTextWithoutMakingIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) projections.Entry {
			entry := projections.Entry{Position: rapid.Int64Range(0, 1<<62).Draw(t, name+" position")}
			if rapid.Bool().Draw(t, name+" is there") {
				entry.Value = []byte(rapid.SampledFrom([]string{"", "5", "5 1", " ", "10 1796023951671"}).Draw(t, name+" value"))
			}
			return entry
		}
		entry, other := draw("entry"), draw("other")
		if rapid.Bool().Draw(t, "at one position") {
			other.Position = entry.Position
		}
		texts := []string{entry.Text(), other.Text(), "", " ", entry.Text() + "0", entry.Text() + " ", "0" + entry.Text()}
		for _, text := range texts {
			if got, want := entry.KeptAs(text), text == entry.Text(); got != want {
				t.Fatalf("%q kept as %q: %t, want %t", entry.Text(), text, got, want)
			}
		}
	})
}
