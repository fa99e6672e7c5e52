package changes

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestACursorSurvivesItsText(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := Cursor{
			Position: rapid.Int64Min(0).Draw(rt, "position"), Question: rapid.Uint32().Draw(rt, "question"), Policy: rapid.Uint32().Draw(rt, "policy"),
		}
		if check := rapid.Uint32().Draw(rt, "check"); check > 0 {
			want.CheckAt = time.Unix(int64(check), 0).UTC()
		}
		text := want.Encode()
		if got, err := ParseCursor(text); err != nil || got != want {
			rt.Fatalf("%+v became %+v, %v", want, got, err)
		}
		at, other := rapid.IntRange(0, len(text)-1).Draw(rt, "at"), rapid.SampledFrom([]string{"A", "b", "9", "_", "=", " ", "é"}).Draw(rt, "other")
		if broken := text[:at] + other + text[at+1:]; broken != text {
			if _, err := ParseCursor(broken); err == nil {
				rt.Fatalf("%s is taken", broken)
			}
		}
	})
}

func TestWhatIsNoCursorIsRefused(t *testing.T) {
	good := Cursor{Position: 7}.Encode()
	for _, text := range []string{"", "x", good + "A", good[1:], strings.Repeat("A", len(good)), strings.Repeat("A", 1<<20), "!" + good[1:], base64.RawURLEncoding.EncodeToString([]byte("1.7.0"))} {
		if _, err := ParseCursor(text); err == nil {
			t.Errorf("%.60q is taken", text)
		}
	}
	if _, err := ParseCursor(Cursor{Position: -1}.Encode()); err == nil {
		t.Error("a position below zero is taken")
	}
}
