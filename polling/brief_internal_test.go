package polling

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestARecordsOwnWordsAreToldBriefly(t *testing.T) {
	for text, want := range map[string]int{"": 0, "A": 1, strings.Repeat("x", maxBrief): maxBrief, strings.Repeat("x", 700_000): maxBrief + len("…"), strings.Repeat("ü", maxBrief): maxBrief + len("…")} {
		if got := brief(text); len(got) != want || !utf8.ValidString(got) {
			t.Errorf("%d bytes became %d, want %d", len(text), len(got), want)
		}
	}
}
